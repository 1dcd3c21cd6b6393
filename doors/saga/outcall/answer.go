package outcall

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Bounds on reading an answer, in bytes. Its body is searched for the two words as it comes. It is kept only as far as it is used: a
// JSON-RPC answer to maxBody, others to keptBody. The rest is read away, a body longer than maxQuick only by a few calls at a time. One
// that goes on beyond maxScan is given up: it has no result.
const (
	maxHead  = 64 << 10
	maxBody  = 64 << 10
	keptBody = 4 << 10
	maxQuick = 1 << 20
	maxScan  = 64 << 20
)

// answer is a service's answer over HTTP.
type answer struct {
	status   int
	location string
	length   int    // of the body
	body     []byte // its first bytes; they belong to the buffer they were read into
	ongoing  bool   // the words, anywhere in the body
	failure  bool
	whole    bool     // it was read to its end
	reusable bool     // the connection is good for another call, if it was
	encoding string   // of the body, if we cannot read it
	rpc      rpcError // the error in a JSON-RPC answer that is too long to keep
}

var getRequest, postRequest = &http.Request{Method: http.MethodGet}, &http.Request{Method: http.MethodPost}

// readAnswer reads an answer to a request of the given method, its body into buf.
// long is asked before more than maxQuick of it is read, and returns what to call afterwards.
func (c *conn) readAnswer(method string, jsonRPC bool, buf *buffer, long func() (done func(), err error)) (a answer, err error) {
	req := getRequest
	if method == http.MethodPost {
		req = postRequest
	}
	c.budget = maxHead
	var resp *http.Response
	for range 8 { // one, unless the service sends 1xx before it
		if resp, err = http.ReadResponse(c.r, req); err != nil {
			return a, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	c.budget = maxScan + maxScan/2 // the rest is for the lengths of chunks
	a.status = resp.StatusCode
	a.location = resp.Header.Get("Location")
	body := io.Reader(resp.Body)
	switch encoding := resp.Header.Get("Content-Encoding"); {
	case encoding == "", strings.EqualFold(encoding, "identity"):
	case strings.EqualFold(encoding, "gzip"): // from services that compress unasked
		z, err := gzip.NewReader(body)
		switch {
		case err == nil:
			body = z
		case errors.Is(err, io.EOF): // no body
			body = http.NoBody
		default:
			return a, fmt.Errorf("the answer says that it is gzip: %w", err)
		}
	default:
		a.encoding = encoding
	}
	keep := keptBody
	if jsonRPC {
		keep = maxBody
	}
	if err = a.read(body, buf, keep, jsonRPC, long); err != nil {
		return a, err
	}
	a.reusable = a.whole && body == io.Reader(resp.Body) && !resp.Close && c.r.Buffered() == 0 && a.status >= 200
	return a, nil
}

var ongoing, failure = []byte("ONGOING"), []byte("FAILURE")

// read reads the body, as much as is kept of it into buf. It is no error that a body is too long.
func (a *answer) read(r io.Reader, buf *buffer, keep int, jsonRPC bool, long func() (done func(), err error)) error {
	b := buf.b[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):min(cap(b), keep)])
		b = b[:len(b)+n]
		if err == io.EOF {
			a.whole = true
			break
		}
		if err != nil {
			return unexpected(err)
		}
		if len(b) >= keep {
			break
		}
	}
	buf.b, a.body, a.length = b, b, len(b)
	a.look(b)
	if a.whole {
		return nil
	}
	if jsonRPC {
		a.rpc.scan(b)
	}
	return a.scan(r, jsonRPC, long)
}

// scan looks through what follows the bytes that are kept.
func (a *answer) scan(r io.Reader, jsonRPC bool, long func() (done func(), err error)) error {
	overlap := max(len(ongoing), len(failure)) - 1
	buf := buffers.Get().(*buffer)
	defer buf.free()
	if cap(buf.b) < scanned { // reading in pieces of 2 KiB takes ten times the processor
		buf.b = make([]byte, 0, scanned)
	}
	window := buf.b[:cap(buf.b)]
	copy(window, a.body[len(a.body)-overlap:])
	for waited := false; a.length < maxScan; {
		if a.length >= maxQuick && !waited {
			waited = true
			done, err := long()
			if err != nil {
				return err
			}
			defer done()
		}
		n, err := r.Read(window[overlap:])
		a.length += n
		a.look(window[:overlap+n])
		if jsonRPC {
			a.rpc.scan(window[overlap : overlap+n])
		}
		if err == io.EOF {
			a.whole = true
			return nil
		}
		if errors.Is(err, errTooLong) {
			return nil
		}
		if err != nil {
			return unexpected(err)
		}
		copy(window[:overlap], window[n:overlap+n])
	}
	return nil
}

// scanned is how much of an answer is looked through at a time.
const scanned = 32 << 10

func (a *answer) look(b []byte) {
	a.ongoing = a.ongoing || bytes.Contains(b, ongoing)
	a.failure = a.failure || bytes.Contains(b, failure)
}

// unexpected is the error of a body that breaks off.
func unexpected(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection ended in the middle of the answer")
	}
	return err
}

// judgeAnswer translates an answer. Half of one means nothing.
func (c *call) judgeAnswer(a answer) verdict {
	text := string(a.body[:min(len(a.body), MaxMessage+4)])
	answered := fmt.Sprintf("%s answered %d", c.target.endpoint(), a.status)
	switch {
	case !a.whole:
		return verdict{outcome: Transient, message: answered + " and more than 64 MiB, which is not read: it may say anything"}
	case redirects(a.status) && a.location != "":
		return c.follow(a)
	case a.encoding != "":
		return verdict{outcome: Transient, message: fmt.Sprintf("%s in the encoding %q, which was not asked for", answered, cut(a.encoding, 32))}
	case a.status == http.StatusTooEarly || a.ongoing:
		return verdict{outcome: Ongoing, message: text}
	case a.status == http.StatusConflict || a.failure:
		return verdict{outcome: Failure, message: text}
	case a.status == http.StatusOK && c.jsonRPC && a.length > len(a.body):
		return a.rpc.judge(text, answered)
	case a.status == http.StatusOK && c.jsonRPC:
		return judgeJSONRPC(a.body, answered)
	case a.status == http.StatusOK:
		return verdict{outcome: OK, message: text}
	}
	if text = strings.TrimSpace(text); text != "" {
		answered += ": " + text
	}
	return verdict{outcome: Transient, message: answered}
}
