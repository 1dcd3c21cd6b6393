package outcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
)

// The codes of JSON-RPC errors that DTM gives a meaning.
const (
	codeFailure = -32901
	codeOngoing = -32902
)

// jsonRPCBody is the request's payload with the transaction's fields added, as the params of a call of the method that the URL names.
func jsonRPCBody(r *Request) ([]byte, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be read: %w", err)
	}
	params := map[string]json.RawMessage{}
	if len(r.Payload) > 0 {
		if json.Unmarshal(r.Payload, &params) != nil {
			return nil, errNotObject
		}
		if params == nil { // null
			params = map[string]json.RawMessage{}
		}
	}
	for name, value := range map[string]string{"gid": r.Gid, "trans_type": r.Mode, "branch_id": r.BranchID, "op": r.Op} {
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		params[name] = quoted
	}
	return json.Marshal(struct {
		ID      string                     `json:"id"`
		JSONRPC string                     `json:"jsonrpc"`
		Method  string                     `json:"method"`
		Params  map[string]json.RawMessage `json:"params"`
	}{fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), "2.0", u.Query().Get("method"), params})
}

// judgeJSONRPC translates the body of a 200.
func judgeJSONRPC(body []byte, answered string) verdict {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return verdict{outcome: Transient, message: answered + " and no JSON object, as a JSON-RPC answer is: " + cut(string(body), 200)}
	}
	return judgeError(members["error"], string(body[:min(len(body), MaxMessage+4)]), answered)
}

// judgeError translates an answer by its member "error", nil if it has none.
func judgeError(said []byte, text, answered string) verdict {
	if said == nil || string(said) == "null" {
		return verdict{outcome: OK, message: text}
	}
	var e struct {
		Code float64 `json:"code"`
	}
	if json.Unmarshal(said, &e) == nil {
		switch e.Code {
		case codeFailure:
			return verdict{outcome: Failure, message: text}
		case codeOngoing:
			return verdict{outcome: Ongoing, message: text}
		}
	}
	return verdict{outcome: Transient, message: answered + " with an error: " + text}
}

// rpcError finds the member "error" of a JSON object of any length as it comes, and keeps nothing else of it.
type rpcError struct {
	depth   int  // of brackets
	text    bool // within a text
	escaped bool // the byte before was a backslash in a text
	broken  bool // it is no object
	ended   bool // the object is whole
	value   bool // behind a colon of the object itself
	key     []byte
	is      bool // the present member is the one
	said    []byte
}

// maxSaid bounds what is kept of it.
const maxSaid = 4 << 10

func (e *rpcError) scan(b []byte) {
	for _, c := range b {
		e.next(c)
	}
}

func (e *rpcError) next(c byte) {
	if e.is && !(e.depth == 1 && !e.text && (c == ',' || c == '}')) && len(e.said) <= maxSaid {
		e.said = append(e.said, c)
	}
	if e.text {
		switch {
		case e.escaped:
			e.escaped = false
		case c == '\\':
			e.escaped = true
		case c == '"':
			e.text = false
		}
		if e.text && e.depth == 1 && !e.value && len(e.key) <= len("error") {
			e.key = append(e.key, c)
		}
		return
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		e.text = true
		if e.depth == 1 && !e.value {
			e.key = e.key[:0]
		}
	case '{', '[':
		e.broken = e.broken || e.depth == 0 && (c == '[' || e.ended)
		e.depth++
	case '}', ']':
		if e.depth--; e.depth == 0 {
			e.ended, e.is = true, false
		}
	case ':':
		if e.depth == 1 {
			e.value = true
			if e.is = string(e.key) == "error"; e.is { // of several the last counts
				e.said = nil
			}
		}
	case ',':
		if e.depth == 1 {
			e.value, e.is = false, false
		}
	}
	e.broken = e.broken || e.depth < 1 && !e.ended
}

// judge translates the answer. text is its beginning.
func (e *rpcError) judge(text, answered string) verdict {
	switch {
	case e.broken || !e.ended:
		return verdict{outcome: Transient, message: answered + " and no JSON object, as a JSON-RPC answer is: " + cut(text, 200)}
	case len(e.said) > maxSaid:
		return verdict{outcome: Transient, message: answered + " with an error of more than 4 KiB, which is not read"}
	}
	return judgeError(bytes.TrimSpace(e.said), text, answered)
}
