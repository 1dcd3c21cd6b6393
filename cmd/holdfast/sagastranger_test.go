package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

var nextTime = regexp.MustCompile(`"next_cron_time":"([^"]*)",`)

// TestAStrangerChangesAndSeesNoTransactions, with users, tokens and TLS on. A client without a token is refused by each protocol, for a
// submit, a query, an abort and everything else. Transactions stand where they stood, and no service is called.
func TestAStrangerChangesAndSeesNoTransactions(t *testing.T) {
	// With users a change also needs a pass in the log, which is a second line; without them the door's own is the only one.
	for _, users := range []bool{true, false} {
		t.Run(fmt.Sprintf("users=%t", users), func(t *testing.T) {
			t.Parallel()
			strangers(t, users)
		})
	}
}

// enableUsers turns authentication on, with the user root and the password pw.
func enableUsers(t *testing.T, kv *clientv3.Client) {
	t.Helper()
	if _, err := kv.RoleAdd(timely(t), "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.UserAdd(timely(t), "root", "pw"); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.UserGrantRole(timely(t), "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.AuthEnable(timely(t)); err != nil {
		t.Fatal(err)
	}
}

func strangers(t *testing.T, users bool) {
	a := newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	file := filepath.Join(t.TempDir(), "tokens")
	const owner = "0123456789abcdef-owner"
	writeFile(t, file, owner+"\n")
	grpcAt := freeAddr(t)
	s := serveSaga(t, t.TempDir(), "--tls-cert", cert, "--tls-key", key, "--saga-tokens", file, "--saga-grpc", grpcAt)
	conf := a.client(t, "", "")
	if users {
		enableUsers(t, s.client(t, conf))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(method, path, token, body string) (code int, answer string) {
		t.Helper()
		req, err := http.NewRequestWithContext(timely(t), method, "https://"+s.at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	ours := func(method, path, body string) string {
		t.Helper()
		code, answer := ask(method, path, owner, body)
		if code != 200 {
			t.Fatalf("%s %s by who has a token: %d %s", method, path, code, answer)
		}
		return answer
	}
	// Things to change: a message and a TCC that may be submitted or aborted, each of which would call a service, and a topic.
	step := s.steps.URL + "/do"
	ours("POST", "/api/dtmsvr/prepare", fmt.Sprintf(`{"gid":"held","trans_type":"msg","query_prepared":%q,"steps":[{"action":%q}],"payloads":["SECRET"]}`, step, step))
	ours("POST", "/api/dtmsvr/prepare", `{"gid":"booked","trans_type":"tcc"}`)
	ours("POST", "/api/dtmsvr/registerBranch", fmt.Sprintf(`{"gid":"booked","trans_type":"tcc","branch_id":"01","data":"SECRET","confirm":%q,"cancel":%q}`, step, step))
	ours("GET", "/api/dtmsvr/subscribe?topic=news&url="+step, "")
	// Times of day of timers are made of the cluster's clock for each answer, and differ by a millisecond between two.
	state := func() (text string, timers []time.Time) {
		t.Helper()
		text = ours("GET", "/api/dtmsvr/all", "") + ours("GET", "/api/dtmsvr/query?gid=held", "") + ours("GET", "/api/dtmsvr/query?gid=booked", "") +
			ours("GET", "/api/dtmsvr/scanKV?cat=topics", "")
		text = nextTime.ReplaceAllStringFunc(text, func(m string) string {
			at, err := time.Parse(time.RFC3339, nextTime.FindStringSubmatch(m)[1])
			if err != nil {
				t.Fatal(m, err)
			}
			timers = append(timers, at)
			return ""
		})
		return text, timers
	}
	before, timers := state()
	calls := s.calls.Load()
	for _, want := range []string{"held", "booked", "news"} {
		if !strings.Contains(before, want) {
			t.Fatalf("no %s to begin with:\n%s", want, before)
		}
	}

	saga := fmt.Sprintf(`{"gid":"new","trans_type":"saga","wait_result":true,"steps":[{"action":%q}],"payloads":["{}"]}`, step)
	held := fmt.Sprintf(`{"gid":"held","trans_type":"msg","query_prepared":%q,"steps":[{"action":%q}],"payloads":["SECRET"]}`, step, step)
	booked := `{"gid":"booked","trans_type":"tcc"}`
	branch := fmt.Sprintf(`{"gid":"booked","trans_type":"tcc","branch_id":"02","data":"x","confirm":%q,"cancel":%q}`, step, step)
	workflow := `{"gid":"flow","trans_type":"workflow"}`
	unchanged := func(what string) {
		t.Helper()
		after, moved := state()
		if after != before {
			t.Fatalf("%s changed something:\n%s\n%s", what, before, after)
		}
		for i := range moved {
			if d := moved[i].Sub(timers[i]).Abs(); d > time.Second {
				t.Fatalf("%s moved a timer by %v", what, d)
			}
		}
		if n := s.calls.Load(); n != calls {
			t.Errorf("%s called a service %d times", what, n-calls)
			calls = n
		}
	}
	for _, token := range []string{"", "0123456789abcdef-wrong", "root"} {
		for _, q := range []struct{ method, path, body string }{
			{"POST", "submit", saga}, {"POST", "submit", held}, {"POST", "submit", booked}, {"POST", "abort", held}, {"POST", "abort", booked},
			{"GET", "newGid", ""}, {"GET", "query?gid=held", ""}, {"GET", "all", ""}, {"GET", "scanKV?cat=topics", ""}, {"GET", "queryKV?cat=topics&key=news", ""},
			{"POST", "prepare", saga}, {"POST", "registerBranch", branch}, {"POST", "registerTccBranch", branch}, {"POST", "prepareWorkflow", workflow},
			{"POST", "forceStop", `{"gid":"held"}`}, {"POST", "resetNextCronTime", `{"gid":"held"}`}, {"GET", "resetCronTime?timeout=0", ""},
			{"GET", "subscribe?topic=news&url=http://other.example/", ""}, {"GET", "unsubscribe?topic=news&url=" + step, ""}, {"DELETE", "topic/news", ""},
			{"POST", "/api/holdfast/submit", strings.Replace(saga, "{", `{"kv":{},`, 1)}, {"GET", "/watch?gid=held", ""},
		} {
			path := q.path
			if path[0] != '/' {
				path = "/api/dtmsvr/" + path
			}
			what := "HTTP: " + q.method + " " + path
			if code, answer := ask(q.method, path, token, q.body); code != http.StatusUnauthorized || strings.Contains(answer, "SECRET") || strings.Contains(answer, step) {
				t.Errorf("%s with token %q: %d %s", what, token, code, answer)
			}
			unchanged(what)
		}
		for method, params := range map[string]string{"submit": held, "prepare": saga, "abort": booked, "registerBranch": branch} { // any order
			what := "JSON-RPC: " + method
			call := fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":%q,"params":%s}`, method, params)
			if code, answer := ask("POST", "/api/json-rpc", token, call); code != http.StatusUnauthorized {
				t.Errorf("%s with token %q: %d %s", what, token, code, answer)
			}
			unchanged(what)
		}
		steps := fmt.Sprintf(`[{"action":%q}]`, step)
		begun := func(gid, mode string) []byte { // a DtmRequest with gid, trans_type, query_prepared, steps and a payload
			b := texts(map[protowire.Number]string{1: gid, 2: mode, 6: step, 7: steps})
			return protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), []byte("SECRET"))
		}
		for _, q := range []struct {
			method string
			body   []byte
		}{
			{"Submit", begun("new", "saga")}, {"Submit", begun("held", "msg")}, {"Prepare", begun("new", "saga")},
			{"Abort", texts(map[protowire.Number]string{1: "held", 2: "msg"})}, {"Abort", texts(map[protowire.Number]string{1: "booked", 2: "tcc"})},
			{"RegisterBranch", texts(map[protowire.Number]string{1: "booked", 2: "tcc", 3: "02"})},
			{"PrepareWorkflow", texts(map[protowire.Number]string{1: "flow", 2: "workflow"})},
			{"Subscribe", texts(map[protowire.Number]string{1: "news", 2: "http://other.example/"})},
			{"Unsubscribe", texts(map[protowire.Number]string{1: "news", 2: step})},
			{"NewGid", nil},
			{"DeleteTopic", texts(map[protowire.Number]string{1: "news"})},
		} {
			what := "gRPC: " + q.method
			answer, err := grpcAsk(t, grpcAt, conf, token, q.method, q.body)
			if status.Code(err) != codes.Unauthenticated || len(answer) > 0 {
				t.Errorf("%s with token %q: %q, %v", what, token, answer, err)
			}
			unchanged(what)
		}
	}
	// Without TLS no request is read at all.
	if res, err := http.Get("http://" + s.at + "/api/dtmsvr/all"); err == nil {
		res.Body.Close()
		if res.StatusCode == 200 {
			t.Error("answered in cleartext")
		}
	}
	if _, err := grpcAsk(t, grpcAt, nil, owner, "NewGid", nil); err == nil {
		t.Error("gRPC is answered in cleartext")
	}
	// And a client with a token does all three, by each protocol: the refused requests would have succeeded.
	if code, answer := ask("POST", "/api/json-rpc", owner, fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":"abort","params":%s}`, booked)); code != 200 ||
		!strings.Contains(answer, `"error":null`) {
		t.Errorf("JSON-RPC with a token: %d %s", code, answer)
	}
	if _, err := grpcAsk(t, grpcAt, conf, owner, "Abort", texts(map[protowire.Number]string{1: "held", 2: "msg"})); err != nil {
		t.Errorf("gRPC with a token: %v", err)
	}
	ours("POST", "/api/dtmsvr/submit", saga)
	if s.calls.Load() == calls {
		t.Error("no service was called for who has a token")
	}
}
