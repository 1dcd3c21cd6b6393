package saga

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// maxBody bounds a request. A transaction's own bounds are checked again, so that a client hears which of its payloads is too large.
const maxBody = 8 << 20

// maxHeaders bounds the headers for the calls to branches, in bytes: they go out with each of them.
const maxHeaders = 256 << 10

// request is a client's request about a transaction, by any protocol. Payloads alias its source.
type request struct {
	sagapart.Definition
	mode     string // DTM's trans_type as it was written; Definition.Mode is what check makes of it
	steps    []step
	payloads [][]byte
	reason   string // rollback_reason
	// A workflow's result (req_extra).
	status, outcome, why string

	named map[string]int // places of Headers by name, once there are some

	kv     value // of POST /api/holdfast/submit
	broken error // the fault found when it was read, for check to report
}

// step is one step of a saga, or of a message, which has no compensation.
type step struct {
	action, compensate string
	data               []byte // older clients put the payload here
}

// readRequest reads DTM's TransBase as JSON.
func readRequest(doc []byte) (*request, error) {
	v, err := parse(doc)
	if err != nil {
		return nil, err
	}
	return v.request()
}

func (v value) request() (*request, error) {
	r := &request{}
	if err := v.members(r.field); err != nil {
		return nil, err
	}
	for _, s := range r.steps {
		if len(s.data) > 0 {
			r.payloads = append(r.payloads, s.data)
		}
	}
	if r.Protocol == "" {
		r.Protocol = "http"
	}
	return r, nil
}

// field takes one field, whether its name is in capitals or not. Of fields that come twice the last counts. Unknown ones are passed over.
func (r *request) field(name string, v value) (err error) {
	switch strings.ToLower(name) {
	case "gid":
		r.Gid, err = v.text()
	case "trans_type":
		r.mode, err = v.text()
	case "custom_data":
		r.CustomData, err = v.text()
	case "query_prepared":
		r.QueryPrepared, err = v.text()
	case "protocol":
		r.Protocol, err = v.text()
	case "rollback_reason":
		r.reason, err = v.text()
	case "wait_result":
		r.Options.WaitResult, err = v.flag()
	case "concurrent":
		r.Options.Concurrent, err = v.flag()
	case "timeout_to_fail":
		r.Options.TimeoutMs, err = v.seconds()
	case "request_timeout":
		r.Options.RequestTimeoutMs, err = v.seconds()
	case "retry_interval":
		r.Options.RetryIntervalMs, err = v.seconds()
	case "retry_limit":
		r.Options.RetryLimit, err = v.count()
	case "branch_headers":
		r.Headers = r.Headers[:0]
		clear(r.named)
		err = v.members(r.header)
	case "steps":
		r.steps, err = v.steps(r.steps[:0])
	case "payloads":
		r.payloads = r.payloads[:0]
		err = v.elements(func(v value) error {
			if len(r.payloads) == sagapart.MaxBranches { // those that no step has are not looked at
				return nil
			}
			b, err := v.bytes()
			r.payloads = append(r.payloads, b)
			return err
		})
	case "req_extra":
		err = v.members(r.extra)
	case "kv":
		r.kv = v
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// header takes one header for the calls to branches; of two of a name the last counts.
func (r *request) header(name string, v value) error {
	s, err := v.text()
	r.setHeader(name, s)
	return err
}

// setHeader keeps no more headers than one too many, which check refuses: there could be a million in a request.
func (r *request) setHeader(name, value string) {
	if len(r.Headers) > sagapart.MaxHeaders {
		return
	}
	if r.named == nil {
		r.named = map[string]int{}
	}
	if i, ok := r.named[name]; ok {
		r.Headers[i].Value = value
		return
	}
	r.named[name] = len(r.Headers)
	r.Headers = append(r.Headers, sagapart.Header{Name: name, Value: value})
}

func (r *request) extra(name string, v value) error {
	s, err := v.text()
	if err == nil {
		r.setExtra(name, s)
	}
	return err
}

func (r *request) setExtra(name, s string) {
	switch name {
	case "status":
		r.status = s
	case "rollback_reason":
		r.why = s
	case "result":
		r.outcome = s
	}
}

// steps reads a list of steps behind others; each is an object of texts. A list of more steps than there may be branches is refused as soon as
// that is seen: there could be millions in a request.
func (v value) steps(before []step) (all []step, err error) {
	all = before
	err = v.elements(func(v value) error {
		if len(all) == sagapart.MaxBranches {
			return tooManyBranches(len(all) + 1)
		}
		var s step
		err := v.members(func(name string, v value) (err error) {
			switch name {
			case sagapart.OpAction:
				s.action, err = v.text()
			case sagapart.OpCompensate:
				s.compensate, err = v.text()
			case "data":
				s.data, err = v.bytes()
			}
			return err
		})
		all = append(all, s)
		return err
	})
	return all, err
}

// check judges the common rules of all requests about a transaction, and names the broken one.
func (r *request) check() error {
	if r.broken != nil {
		return r.broken
	}
	if err := checkGid(r.Gid); err != nil {
		return err
	}
	switch r.Mode = sagapart.ParseMode(r.mode); {
	case r.Mode == 0:
		return refuse(500, "trans_type %s: there are saga, msg, tcc, xa and workflow", quote(r.mode))
	case len(r.Protocol) > sagapart.MaxGidBytes:
		return refuse(400, "protocol: %d bytes are too many", len(r.Protocol))
	case len(r.CustomData) > sagapart.MaxCustomBytes:
		return refuse(413, "custom_data: %d bytes are too many; at most %d", len(r.CustomData), sagapart.MaxCustomBytes)
	case len(r.outcome) > sagapart.MaxResultBytes:
		return refuse(413, "result: %d bytes are too many; at most %d", len(r.outcome), sagapart.MaxResultBytes)
	case len(r.Headers) > sagapart.MaxHeaders:
		return refuse(400, "branch_headers: there are too many; at most %d", sagapart.MaxHeaders)
	}
	if err := r.checkURLs(); err != nil {
		return err
	}
	size := 0
	for _, h := range r.Headers {
		if size += len(h.Name) + len(h.Value); size > maxHeaders {
			return refuse(413, "branch_headers: more than %d bytes; no service takes so many", maxHeaders)
		}
		if !headerName(h.Name) || strings.ContainsAny(h.Value, "\r\n\x00") {
			return refuse(400, "branch_headers: %s cannot be sent as a header", quote(h.Name+": "+h.Value))
		}
		if len(h.Name)+len(h.Value) > sagapart.MaxURLBytes {
			return refuse(413, "branch_headers: %s has %d bytes; at most %d", quote(h.Name), len(h.Value), sagapart.MaxURLBytes)
		}
	}
	return nil
}

// checkGid judges the name of a transaction: it travels in URLs and headers.
func checkGid(gid string) error {
	switch {
	case gid == "":
		return refuse(500, "no gid specified")
	case len(gid) > sagapart.MaxGidBytes:
		return refuse(400, "gid: %d bytes are too many; at most %d", len(gid), sagapart.MaxGidBytes)
	case strings.ContainsFunc(gid, control):
		return refuse(400, "gid %s: no line breaks and other control characters, please", quote(gid))
	case !utf8.ValidString(gid):
		return refuse(400, "gid %s: it is no UTF-8", quote(gid))
	}
	return nil
}

func control(c rune) bool { return c < ' ' || c == 0x7f }

// headerName reports whether a header may have this name (RFC 9110, token).
func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || slices.Contains([]rune("!#$%&'*+-.^_`|~"), c))
	})
}

// quote is a text for an error: its beginning.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf("%q", strings.ToValidUTF8(s, ""))
}
