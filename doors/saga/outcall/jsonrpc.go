package outcall

import (
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

// jsonRPCBody is the request's payload, with what the call is of among its members, as the params of a call of the method that the
// URL names.
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

// judgeJSONRPC says what the body of a 200 means.
func judgeJSONRPC(body []byte, answered string) verdict {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return verdict{outcome: Transient, message: answered + " and no JSON object, as a JSON-RPC answer is: " + cut(string(body), 200)}
	}
	text := string(body[:min(len(body), MaxMessage+4)])
	said, ok := members["error"]
	if !ok || string(said) == "null" {
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
