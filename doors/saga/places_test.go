package saga

import (
	"strings"
	"testing"
)

// TestWhatCannotBeCalledIsRefusedAtOnce: a name of a service discovery, in every place that a URL can be in.
func TestWhatCannotBeCalledIsRefusedAtOnce(t *testing.T) {
	s := serve(t, Options{})
	const name = "discovery:///stock-service/api/deduct"
	for what, c := range map[string]struct{ path, body string }{
		"action":         {"submit", `{"gid":"a","trans_type":"saga","steps":[{"action":"` + name + `"}],"payloads":[""]}`},
		"compensate":     {"submit", `{"gid":"b","trans_type":"saga","steps":[{"action":"http://busi/ok","compensate":"` + name + `"}],"payloads":[""]}`},
		"query_prepared": {"prepare", `{"gid":"c","trans_type":"msg","steps":[{"action":"http://busi/ok"}],"payloads":[""],"query_prepared":"polaris://x/y"}`},
		"confirm":        {"registerBranch", `{"gid":"tcc","trans_type":"tcc","branch_id":"01","confirm":"` + name + `","cancel":"http://busi/ok"}`},
		"cancel":         {"registerBranch", `{"gid":"tcc","trans_type":"tcc","branch_id":"01","confirm":"http://busi/ok","cancel":"etcd://x/y"}`},
	} {
		code, _, body := s.do("POST", prefix+c.path, c.body)
		if code != 400 || !strings.Contains(body, what) || !strings.Contains(body, "no service discovery is asked") {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
	if code, _, body := s.do("GET", prefix+"subscribe?topic=t&url=discovery%3A%2F%2F%2Fx%2Fy", ""); code != 400 || !strings.Contains(body, "no service discovery") {
		t.Errorf("subscribe: %d %s", code, body)
	}
	for _, gid := range []string{"a", "b", "c"} {
		if found, err := s.saga.Find(gid); err != nil || found != nil {
			t.Errorf("%s exists, %v", gid, err)
		}
	}
	// What only looks so is called: the text stands behind the path.
	s.want(200, success, "POST", "submit", `{"gid":"d","trans_type":"saga","steps":[{"action":"http://busi/ok?to=discovery://x","compensate":"HTTP://busi/ok"}],"payloads":[""]}`)
	s.want(200, success, "POST", "submit", `{"gid":"e","trans_type":"saga","protocol":"grpc","steps":[{"action":"busi:1/pkg.S/M?x://"}],"payloads":[""]}`)
}

// TestAChangeOfKeysAtDTMsPathsIsRefused, and not passed over.
func TestAChangeOfKeysAtDTMsPathsIsRefused(t *testing.T) {
	s := serve(t, Options{KV: keys})
	const kv = `"kv":{"success":[{"request_put":{"key":"a2V5","value":"MQ=="}}]}`
	for _, path := range []string{"submit", "prepare", "prepareWorkflow", "abort"} {
		code, _, body := s.do("POST", prefix+path, `{"gid":"a","trans_type":"saga","steps":[],"payloads":[],`+kv+`}`)
		if code != 400 || !strings.Contains(body, "/api/holdfast/submit") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if _, _, body := s.do("POST", "/api/json-rpc", `{"jsonrpc":"2.0","id":"1","method":"submit","params":{"gid":"a","trans_type":"saga",`+kv+`}}`); !strings.Contains(body, "/api/holdfast/submit") {
		t.Errorf("JSON-RPC: %s", body)
	}
	if found, err := s.saga.Find("a"); err != nil || found != nil {
		t.Errorf("it exists, %v", err)
	}
	s.want(200, success, "POST", "submit", `{"gid":"b","trans_type":"saga","steps":[],"payloads":[],"kv":null}`)
}
