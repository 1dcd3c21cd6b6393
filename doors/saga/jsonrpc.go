package saga

import (
	"encoding/json"
	"fmt"
)

// Codes of JSON-RPC: its own, and DTM's for the two outcomes that its clients tell apart.
const (
	rpcParse    = -32700
	rpcRequest  = -32600
	rpcMethod   = -32601
	rpcInternal = -32603
	rpcFailure  = -32901
	rpcOngoing  = -32902
)

// rpcAnswer is always sent with status 200.
type rpcAnswer struct {
	Error   *rpcError       `json:"error"`
	ID      json.RawMessage `json:"id"`
	Version string          `json:"jsonrpc"`
	Result  any             `json:"result"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// rpcMethods are what DTM offers by JSON-RPC. params may be nothing.
var rpcMethods = map[string]func(d *Door, q *ask, params value) (any, error){
	"newGid": func(_ *Door, q *ask, _ value) (any, error) {
		q.over = true
		return map[string]string{"gid": newGid()}, nil
	},
	"prepare": func(d *Door, q *ask, params value) (any, error) {
		return nil, params.about(d, q, d.prepare)
	},
	"submit": func(d *Door, q *ask, params value) (any, error) {
		return nil, params.about(d, q, d.submit)
	},
	"abort": func(d *Door, q *ask, params value) (any, error) {
		return nil, params.about(d, q, d.abort)
	},
	"registerBranch": func(d *Door, q *ask, params value) (any, error) {
		r, err := params.registration()
		if err == nil {
			err = d.registerBranch(q, r)
		}
		return nil, err
	},
}

func (v value) about(_ *Door, q *ask, do func(*ask, *request) error) error {
	r, err := v.request()
	if err == nil {
		err = r.plain()
	}
	if err == nil {
		err = do(q, r)
	}
	return err
}

// jsonRPC answers one call. Calls in a list, which JSON-RPC knows and DTM does not, are no call.
func (d *Door) jsonRPC(q *ask, body []byte) *rpcAnswer {
	a := &rpcAnswer{ID: json.RawMessage(`""`), Version: "2.0"}
	doc, err := parse(body)
	var method, version string
	var id, params value
	if err == nil {
		err = doc.members(func(name string, v value) (err error) {
			switch name {
			case "method":
				method, err = v.text()
			case "jsonrpc":
				version, err = v.text()
			case "id":
				id = v
			case "params":
				params = v
			}
			return err
		})
	}
	if err != nil {
		return a.fail(rpcParse, "Parse json error: %v", err)
	}
	if text, err := id.text(); err != nil || text == "" || id[0] == '{' || id[0] == '[' || version != "2.0" {
		return a.fail(rpcRequest, "Bad json request: %s", doc.shown())
	}
	a.ID = json.RawMessage(id)
	do := rpcMethods[method]
	if do == nil {
		return a.fail(rpcMethod, "Method not found: %s", method)
	}
	result, err := do(d, q, params)
	result, err = d.gate(q, result, err)
	if err != nil {
		f := broken(err)
		return a.fail(f.rpc(), "%s", f.text)
	}
	a.Result = result
	return a
}

func (a *rpcAnswer) fail(code int, format string, args ...any) *rpcAnswer {
	a.Error = &rpcError{code, fmt.Sprintf(format, args...)}
	return a
}
