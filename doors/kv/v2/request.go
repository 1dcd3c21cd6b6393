package v2

import (
	"bytes"
	"math"
	"mime"
	"net/url"
	"slices"

	"github.com/valyala/fasthttp"
)

// param is one of the parameters a request may carry, in its query or in a form.
type param int

const (
	pValue param = iota
	pTTL
	pDir
	pPrevValue
	pPrevIndex
	pPrevExist
	pRecursive
	pSorted
	pQuorum
	pWait
	pWaitIndex
	pStream
	pRefresh
	pNoValue
	paramCount
)

// paramOf knows a parameter by its name, which is told apart by case.
func paramOf(name []byte) (param, bool) {
	switch string(name) {
	case "value":
		return pValue, true
	case "ttl":
		return pTTL, true
	case "dir":
		return pDir, true
	case "prevValue":
		return pPrevValue, true
	case "prevIndex":
		return pPrevIndex, true
	case "prevExist":
		return pPrevExist, true
	case "recursive":
		return pRecursive, true
	case "sorted":
		return pSorted, true
	case "quorum":
		return pQuorum, true
	case "wait":
		return pWait, true
	case "waitIndex":
		return pWaitIndex, true
	case "stream":
		return pStream, true
	case "refresh":
		return pRefresh, true
	case "noValueOnSuccess":
		return pNoValue, true
	}
	return 0, false
}

// request is a client's request below /v2/keys. Its bytes belong to the request it was read from.
type request struct {
	raw   [paramCount][]byte
	given [paramCount]bool

	prevIndex, waitIndex                                uint64
	recursive, sorted, wait, dir, quorum, stream, quiet bool
	prevExist, refresh                                  bool
	hasTTL                                              bool
	ttl                                                 int64 // nanoseconds
}

// Errors found before the machine is asked; their numbers are etcd's.
const (
	codePrevValueRequired = 201
	codeTTLNaN            = 202
	codeIndexNaN          = 203
	codeInvalidField      = 209
	codeInvalidForm       = 210
	codeRefreshValue      = 211
	codeRefreshTTL        = 212
)

// badRequest is such an error. Code 0: none.
type badRequest struct {
	code  int
	cause string
}

// formType is the content type of a form; a body of any other is not looked at.
const formType = "application/x-www-form-urlencoded"

// read reads the parameters of a request. The first of several with one name counts, those of the form come first. mem
// holds what had to be unescaped; it is returned for the next request.
func (r *request) read(ctx *fasthttp.RequestCtx, query, mem []byte) (_ []byte, bad badRequest) {
	clear(r.given[:])
	if ctx.IsPut() || ctx.IsPost() {
		form, err := isForm(ctx.Request.Header.ContentType())
		if err != nil {
			return mem, badRequest{codeInvalidForm, err.Error()}
		}
		if form {
			if mem, bad = r.parameters(ctx.Request.Body(), mem); bad.code != 0 {
				return mem, bad
			}
		}
	}
	if len(query) > 0 {
		if mem, bad = r.parameters(query, mem); bad.code != 0 {
			return mem, bad
		}
	}
	return mem, r.judge(ctx.IsGet())
}

// isForm reports whether a body of this content type is a form. The error is etcd's for a type that makes no sense.
func isForm(contentType []byte) (bool, error) {
	if len(contentType) == 0 {
		return false, nil
	}
	if string(contentType) == formType {
		return true, nil
	}
	t, _, err := mime.ParseMediaType(string(contentType))
	return t == formType, err
}

// parameters reads a form or query.
func (r *request) parameters(text, mem []byte) ([]byte, badRequest) {
	whole := text
	for len(text) > 0 {
		pair := text
		if i := bytes.IndexByte(text, '&'); i >= 0 {
			pair, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		if len(pair) == 0 {
			continue
		}
		name, value := pair, []byte(nil)
		if i := bytes.IndexByte(pair, '='); i >= 0 {
			name, value = pair[:i], pair[i+1:]
		}
		var ok, ok2 bool
		if name, mem, ok = unescape(name, mem); ok {
			value, mem, ok2 = unescape(value, mem)
		}
		if !ok || !ok2 {
			return mem, badRequest{codeInvalidForm, brokenForm(whole)}
		}
		if p, known := paramOf(name); known && !r.given[p] {
			r.given[p], r.raw[p] = true, value
		}
	}
	return mem, badRequest{}
}

// unescape decodes a name or value; decoded text is appended to mem. A semicolon is refused: older servers took it for a separator.
func unescape(b, mem []byte) (out, _ []byte, ok bool) {
	i := bytes.IndexAny(b, "%+;")
	if i < 0 {
		return b, mem, true
	}
	start := len(mem)
	for mem = append(slices.Grow(mem, len(b)), b[:i]...); i < len(b); i++ {
		switch c := b[i]; c {
		case '+':
			mem = append(mem, ' ')
		case ';':
			return nil, mem, false
		case '%':
			if c, ok = unhex(b, i); !ok {
				return nil, mem, false
			}
			mem = append(mem, c)
			i += 2
		default:
			mem = append(mem, c)
		}
	}
	return mem[start:len(mem):len(mem)], mem, true
}

// brokenForm describes the fault of a form, in the words of the library etcd uses.
func brokenForm(text []byte) string {
	if _, err := url.ParseQuery(string(text)); err != nil {
		return err.Error()
	}
	return "invalid form"
}

// judge reads the values of parameters, in the order in which etcd does: a client hears of the first that is wrong.
func (r *request) judge(get bool) badRequest {
	var ok bool
	if r.prevIndex, ok = r.number(pPrevIndex); !ok {
		return badRequest{codeIndexNaN, `invalid value for "prevIndex"`}
	}
	if r.waitIndex, ok = r.number(pWaitIndex); !ok {
		return badRequest{codeIndexNaN, `invalid value for "waitIndex"`}
	}
	for _, f := range [...]struct {
		p    param
		to   *bool
		name string
	}{{pRecursive, &r.recursive, "recursive"}, {pSorted, &r.sorted, "sorted"}, {pWait, &r.wait, "wait"}, {pDir, &r.dir, "dir"},
		{pQuorum, &r.quorum, "quorum"}, {pStream, &r.stream, "stream"}} {
		if *f.to, ok = r.flag(f.p); !ok {
			return badRequest{codeInvalidField, `invalid value for "` + f.name + `"`}
		}
	}
	switch {
	case r.wait && !get:
		return badRequest{codeInvalidField, `"wait" can only be used with GET requests`}
	case r.given[pPrevValue] && len(r.raw[pPrevValue]) == 0:
		return badRequest{codePrevValueRequired, `"prevValue" cannot be empty`}
	}
	if r.quiet, ok = r.flag(pNoValue); !ok {
		return badRequest{codeInvalidField, `invalid value for "noValueOnSuccess"`}
	}
	r.hasTTL = r.given[pTTL] && len(r.raw[pTTL]) > 0
	if r.hasTTL {
		seconds, ok := r.number(pTTL)
		if !ok {
			return badRequest{codeTTLNaN, `invalid value for "ttl"`}
		}
		r.ttl = int64(seconds) * 1e9 // wraps around, as etcd's does; the machine deals with the result
	}
	if r.prevExist, ok = r.flag(pPrevExist); !ok {
		return badRequest{codeInvalidField, "invalid value for prevExist"}
	}
	if r.refresh, ok = r.flag(pRefresh); !ok {
		return badRequest{codeInvalidField, "invalid value for refresh"}
	}
	switch {
	case r.refresh && r.given[pValue] && len(r.raw[pValue]) > 0:
		return badRequest{codeRefreshValue, "A value was provided on a refresh"}
	case r.refresh && !r.hasTTL:
		return badRequest{codeRefreshTTL, "No TTL value set"}
	}
	return badRequest{}
}

// get returns a parameter's value, nil if it was not given.
func (r *request) get(p param) []byte {
	if !r.given[p] {
		return nil
	}
	return r.raw[p]
}

// number reads a parameter as a decimal number; one that was not given is 0.
func (r *request) number(p param) (uint64, bool) {
	if !r.given[p] {
		return 0, true
	}
	return parseUint(r.raw[p])
}

func parseUint(b []byte) (n uint64, ok bool) {
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(b) > 0
}

// flag reads a parameter as a truth value; one that was not given is false.
func (r *request) flag(p param) (value, ok bool) {
	if !r.given[p] {
		return false, true
	}
	switch string(r.raw[p]) {
	case "1", "t", "T", "true", "TRUE", "True":
		return true, true
	case "0", "f", "F", "false", "FALSE", "False":
		return false, true
	}
	return false, false
}
