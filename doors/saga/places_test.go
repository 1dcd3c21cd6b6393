package saga

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestWhatCannotBeCalledIsRefusedAtOnce: a name of a service discovery, in every place that a URL can be in, at every path and in every protocol.
func TestWhatCannotBeCalledIsRefusedAtOnce(t *testing.T) {
	s := serve(t, Options{KV: keys})
	const name = "discovery:///stock-service/api/deduct"
	const says = `begins with \"discovery://\", which is not called here: no service discovery is asked`
	fields := map[string]string{
		"action":         `"trans_type":"saga","steps":[{"action":"` + name + `"}],"payloads":[""]`,
		"compensate":     `"trans_type":"saga","steps":[{"action":"http://busi/ok","compensate":"` + name + `"}],"payloads":[""]`,
		"query_prepared": `"trans_type":"msg","steps":[{"action":"http://busi/ok"}],"payloads":[""],"query_prepared":"` + name + `"`,
	}
	branches := map[string]string{
		"confirm": `"trans_type":"tcc","branch_id":"01","confirm":"` + name + `","cancel":"http://busi/ok"`,
		"cancel":  `"trans_type":"tcc","branch_id":"01","confirm":"http://busi/ok","cancel":"` + name + `"`,
		"commit":  `"trans_type":"xa","branch_id":"01","url":"` + name + `"`,
	}
	gids := 0
	refused := func(path, what, fields string) {
		t.Helper()
		gids++
		body := fmt.Sprintf(`{"gid":"g%d",%s}`, gids, fields)
		if method, rpc := strings.CutPrefix(path, "json-rpc "); rpc {
			path, body = "/api/json-rpc", fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":%q,"params":%s}`, method, body)
		}
		code, _, answer := s.do("POST", path, body)
		if path != "/api/json-rpc" && code != 400 || !strings.Contains(answer, what+": ") && what != "commit" || !strings.Contains(answer, says) {
			t.Errorf("%s: %s: %d %s", path, what, code, answer)
		}
	}
	for what, f := range fields {
		for _, path := range []string{prefix + "submit", prefix + "prepare", prefix + "prepareWorkflow", ownPrefix + "submit", "json-rpc submit", "json-rpc prepare"} {
			refused(path, what, f)
		}
		refused(ownPrefix+"submit", what, f+`,"kv":{"success":[{"request_put":{"key":"a2V5","value":"MQ=="}}]}`)
	}
	for what, f := range branches {
		refused(prefix+"registerBranch", what, f)
		refused("json-rpc registerBranch", what, f)
	}
	if code, _, body := s.do("GET", prefix+"subscribe?topic=t&url=discovery%3A%2F%2F%2Fx%2Fy", ""); code != 400 || !strings.Contains(body, says) {
		t.Errorf("subscribe: %d %s", code, body)
	}
	for call, c := range map[string]struct{ message, doc string }{
		"Submit":          {"DtmRequest", `{"Gid":"g0","TransType":"saga","Steps":"[{\"action\":\"` + name + `\"}]","BinPayloads":[""]}`},
		"Prepare":         {"DtmRequest", `{"Gid":"g0","TransType":"msg","QueryPrepared":"` + name + `","Steps":"[{\"action\":\"busi:1/pkg.S/M\"}]","BinPayloads":[""]}`},
		"PrepareWorkflow": {"DtmRequest", `{"Gid":"g0","TransType":"workflow","QueryPrepared":"` + name + `"}`},
		"RegisterBranch":  {"DtmBranchRequest", `{"Gid":"g0","TransType":"tcc","BranchID":"01","Data":{"confirm":"` + name + `","cancel":"busi:1/pkg.S/M"}}`},
		"Subscribe":       {"DtmTopicRequest", `{"Topic":"t","URL":"` + name + `"}`},
	} {
		if _, err := s.call(call, c.message, c.doc, ""); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "no service discovery is asked") {
			t.Errorf("%s: %v", call, err)
		}
	}
	for i := range gids + 1 {
		if found, err := s.saga.Find(fmt.Sprint("g", i)); err != nil || found != nil {
			t.Errorf("g%d exists, %v", i, err)
		}
	}
	// A URL that only looks so is called: the text stands behind the path.
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
