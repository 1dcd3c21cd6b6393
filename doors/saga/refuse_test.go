package saga

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestWhatMayBeSentAgain: 503 is answered only where nothing was done; where that is not known the answer says so.
func TestWhatMayBeSentAgain(t *testing.T) {
	s := serve(t, Options{RequestTimeout: 300 * time.Millisecond}) // a full log is waited for
	for err, want := range map[error]struct {
		code int
		grpc codes.Code
	}{
		node.ErrOverloaded: {503, codes.Unavailable}, node.ErrNoLeader: {503, codes.Unavailable}, node.ErrStopped: {503, codes.Unavailable},
		node.ErrSuperseded: {503, codes.Unavailable}, node.ErrLevel: {503, codes.Unavailable}, node.ErrUnknown: {500, codes.Internal},
		node.ErrTooLarge: {413, codes.ResourceExhausted}, errors.New("something else"): {500, codes.Internal},
	} {
		s.mu.Lock()
		s.fail = fmt.Errorf("wrapped: %w", err)
		s.mu.Unlock()
		code, h, body := s.do("POST", prefix+"submit", saga1("g", "ok"))
		unknown := strings.Contains(body, "not known")
		if code != want.code || (h.Get("Retry-After") != "") != (code == 503) || (code == 500) != unknown || strings.Contains(body, wordFailure) {
			t.Errorf("%v: %d, Retry-After %q, %s", err, code, h.Get("Retry-After"), body)
		}
		_, err2 := s.call("Submit", "DtmRequest", `{"Gid":"g","TransType":"saga"}`, "")
		if status.Code(err2) != want.grpc {
			t.Errorf("%v by gRPC: %v", err, err2)
		}
		if says := "holdfast status"; errors.Is(err, node.ErrLevel) && (!strings.Contains(body, says) || !strings.Contains(status.Convert(err2).Message(), says)) {
			t.Errorf("%v does not say what to do: %s, by gRPC %v", err, body, err2)
		}
	}
	s.mu.Lock()
	s.fail, s.unread = nil, node.ErrNoLeader
	s.mu.Unlock()
	for _, path := range []string{"query?gid=g", "all", "scanKV?cat=topics", "queryKV?cat=topics", "resetCronTime"} {
		if code, _, body := s.do("GET", prefix+path, ""); code != 503 {
			t.Errorf("%s without a leader: %d %s", path, code, body)
		}
	}
	if code, _, body := s.do("GET", "/watch?gid=g", ""); code != 503 {
		t.Errorf("a watch without a leader: %d %s", code, body)
	}
	s.want(503, "", "POST", "abort", `{"gid":"g","trans_type":"tcc"}`)
	if n := s.saga.Counts(); n.Submitted+n.Succeed != 0 {
		t.Errorf("%+v", n)
	}
}

// TestALearnerAnswersForNobody.
func TestALearnerAnswersForNobody(t *testing.T) {
	s := serve(t, Options{})
	s.want(200, success, "POST", "submit", saga1("g", "ok"))
	s.learner.Store(true)
	for path, e := range endpoints {
		method := e.method
		if method == "" {
			method = "GET"
		}
		code, _, body := s.do(method, path+"?gid=g&cat=topics&topic=t&url=u", saga1("other", "ok"))
		if e.open != (code == 200) || !e.open && (code != 503 || !strings.Contains(body, "learner")) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _, _ := s.do("GET", "/watch?gid=g", ""); code != 503 {
		t.Errorf("a watch: %d", code)
	}
	for _, m := range descriptor().Service[0].Method {
		message := strings.TrimPrefix(strings.TrimPrefix(m.GetInputType(), "."), "dtmgimp.")
		if m.GetName() == "NewGid" {
			message = "DtmGidReply" // as good as nothing
		}
		if _, err := s.call(m.GetName(), message, `{}`, ""); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", m.GetName(), err)
		}
	}
	if s.commands != 2 { // the submit, and none for the rest; the pass is not the door's
		if n := s.saga.Counts(); n.Submitted+n.Prepared != 0 {
			t.Errorf("%+v", n)
		}
	}
}

// TestAStrangerChangesAndSeesNothing: while authentication is on only doors that know users admit a request.
func TestAStrangerChangesAndSeesNothing(t *testing.T) {
	s := serve(t, Options{KV: keys})
	s.want(425, "", "POST", "submit", saga1("there", "ongoing"))
	s.authenticate()
	before := s.rig.Dump()
	for path, e := range endpoints {
		method := e.method
		if method == "" {
			method = "GET"
		}
		body := saga1("there", "ok")
		if path == ownPrefix+"submit" {
			body = `{"gid":"new","trans_type":"saga","kv":{"success":[{"request_put":{"key":"YQ=="}}]}}`
		}
		code, h, got := s.do(method, path+"?gid=there&cat=topics&topic=t&url=u", body)
		if e.open != (code == 200) || !e.open && (code != 401 || h.Get("WWW-Authenticate") == "" || strings.Contains(got, "there")) {
			t.Errorf("%s: %d %s", path, code, got)
		}
	}
	if code, _, body := s.do("DELETE", topicPath+"t", ""); code != 401 {
		t.Errorf("a topic: %d %s", code, body)
	}
	if code, _, body := s.do("GET", "/watch?gid=there", ""); code != 401 {
		t.Errorf("a watch: %d %s", code, body)
	}
	if _, err := s.call("Submit", "DtmRequest", `{"Gid":"there","TransType":"saga"}`, ""); status.Code(err) != codes.Unauthenticated {
		t.Errorf("by gRPC: %v", err)
	}
	if s.rig.Dump() != before {
		t.Error("something has changed")
	}
}

// TestChangesCarryThePassOfWhoAsks: the pass of the client is in the log with the change. A client that is let in by an old catalogue is
// judged again.
func TestChangesCarryThePassOfWhoAsks(t *testing.T) {
	var s *served
	asked := 0
	s = serve(t, Options{KV: keys, Admit: func(c *Caller) (uint64, int, string) {
		asked++
		st := s.users.State()
		switch {
		case c.Host != "127.0.0.1":
			return 0, 403, "not from " + c.Host
		case c.Authorization == "Bearer root" && asked%2 == 1:
			return st.Revision - 1, 0, "" // the catalogue was another a moment ago
		case c.Authorization == "Bearer root":
			return st.Revision, 0, ""
		case c.Authorization == "Bearer much":
			return 0, 429, "not so fast"
		}
		return 0, 403, "who are you?"
	}})
	s.authenticate()
	for _, path := range []string{prefix + "submit", ownPrefix + "submit"} {
		body := saga1("g"+path[5:8], "ok")
		if path != prefix+"submit" {
			body = strings.Replace(body, "{", `{"kv":{"success":[{"request_put":{"key":"YQ==","value":"Yg=="}}]},`, 1)
		}
		if code, _, b := s.do("POST", path, body); code != 403 || !strings.Contains(b, "who are you?") {
			t.Errorf("a stranger: %d %s", code, b)
		}
		if code, h, b := s.do("POST", path, body, "Authorization", "Bearer much"); code != 429 || h.Get("Retry-After") == "" {
			t.Errorf("too fast: %d %s", code, b)
		}
		asked = 0
		if code, _, b := s.do("POST", path, body, "Authorization", "Bearer root"); code != 200 || asked != 2 {
			t.Errorf("%s by root: %d %s, judged %d times", path, code, b, asked)
		}
	}
	if s.get("a") != "b" {
		t.Error("no key was written")
	}
	// One whose revision never is the newest is not let through, however often it is judged.
	s.door.opts.Admit = func(*Caller) (uint64, int, string) { return 1, 0, "" }
	s.want(503, "", "POST", "submit", saga1("never", "ok"))
	if found, err := s.saga.Find("never"); found != nil || err != nil {
		t.Error(found, err)
	}
}

// TestKeysBesideNeedTheirOwnPermission: who is let in to transactions is not let in to keys by that.
func TestKeysBesideNeedTheirOwnPermission(t *testing.T) {
	const body = `{"gid":"g","trans_type":"saga","kv":{"success":[{"request_put":{"key":"YQ=="}}]}}`
	s := serve(t, Options{})
	if code, _, b := s.do("POST", ownPrefix+"submit", body); code != 501 {
		t.Errorf("without a door to keys: %d %s", code, b)
	}
	s = serve(t, Options{KV: func(ctx context.Context, c *Caller, _ *kvpart.Txn) ([]entry.Part, int, string) {
		if c.KVAuthorization != "alice" {
			return nil, 403, "not yours"
		}
		return keys(ctx, c, &kvpart.Txn{Then: []kvpart.Op{{Put: &kvpart.Put{Key: []byte("a"), Value: []byte("alice")}}}})
	}})
	if code, _, b := s.do("POST", ownPrefix+"submit", body); code != 403 || !strings.Contains(b, "not yours") {
		t.Errorf("a stranger: %d %s", code, b)
	}
	if found, _ := s.saga.Find("g"); found != nil || s.get("a") != "" {
		t.Error("half of it was done")
	}
	if code, _, b := s.do("POST", ownPrefix+"submit", body, "Kv-Authorization", "alice"); code != 200 || s.get("a") != "alice" {
		t.Errorf("alice: %d %s", code, b)
	}
	// A pass that comes with the keys is that of the whole command.
	s = serve(t, Options{Admit: func(*Caller) (uint64, int, string) { return s.users.State().Revision, 0, "" },
		KV: func(ctx context.Context, c *Caller, txn *kvpart.Txn) ([]entry.Part, int, string) {
			parts, _, _ := keys(ctx, c, txn)
			pass := entry.Part{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, &eident.Part{Pass: &eident.Pass{Revision: s.users.State().Revision}})}
			return append([]entry.Part{pass}, parts...), 0, ""
		}})
	s.authenticate()
	if code, _, b := s.do("POST", ownPrefix+"submit", body); code != 200 {
		t.Errorf("with a pass: %d %s", code, b)
	}
}

// TestPagesOfOtherSitesDoNotAsk: DTM changes topics and timers by GET, which every page can send.
func TestPagesOfOtherSitesDoNotAsk(t *testing.T) {
	s := serve(t, Options{})
	for path, e := range endpoints {
		if !e.changes {
			continue
		}
		code, _, b := s.do(e.method, path+"?topic=t&url=u", saga1("g", "ok"), "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		if code != 403 {
			t.Errorf("%s: %d %s", path, code, b)
		}
	}
	if code, _, b := s.do("GET", "/watch?gid=g", "", "Host", "evil.example"); code == 200 {
		t.Errorf("a watch: %d %s", code, b)
	}
	if s.commands != 0 {
		t.Errorf("%d commands", s.commands)
	}
	s = serve(t, Options{CORS: []string{"https://ours.example"}})
	code, h, _ := s.do("POST", prefix+"submit", saga1("g", "ok"), "Origin", "https://ours.example", "Sec-Fetch-Site", "cross-site")
	if code != 200 || h.Get("Access-Control-Allow-Origin") != "https://ours.example" {
		t.Errorf("our own page: %d %v", code, h)
	}
	if code, h, _ := s.do("OPTIONS", prefix+"submit", "", "Origin", "https://ours.example"); code != 204 || h.Get("Access-Control-Allow-Methods") == "" {
		t.Errorf("its question: %d %v", code, h)
	}
}

// TestBounds: a transaction has room for so much, and who sends more is told of what.
func TestBounds(t *testing.T) {
	s := serve(t, Options{})
	payloads := func(sizes ...int) string {
		var b bytes.Buffer
		b.WriteString(`{"gid":"large","trans_type":"saga","wait_result":true,"steps":[`)
		for i := range sizes {
			fmt.Fprintf(&b, `%s{"action":"http://a/ok","compensate":"http://a/ok"}`, strings.Repeat(",", min(i, 1)))
		}
		b.WriteString(`],"payloads":[`)
		for i, n := range sizes {
			fmt.Fprintf(&b, `%s"%s"`, strings.Repeat(",", min(i, 1)), strings.Repeat(string(rune('a'+i)), n))
		}
		return b.String() + `]}`
	}
	const mib = 1 << 20
	s.want(413, "", "POST", "submit", payloads(4*mib+1))
	s.want(413, "", "POST", "submit", payloads(3*mib, 4*mib+1))
	s.want(413, `{"message":"the payloads have 7340033 bytes; at most 7340032 in one transaction"}`, "POST", "submit", payloads(4*mib, 3*mib+1))
	s.refuseUnread(413, payloads(4*mib, 4*mib)) // a body of more than 8 MiB
	s.want(200, success, "POST", "submit", payloads(4*mib, 3*mib))
	if code, _, b := s.do("GET", prefix+"query?gid=large", ""); code != 200 || len(b) < 18*mib {
		t.Errorf("the largest is shown as %d with %d bytes", code, len(b))
	}
	var many bytes.Buffer
	many.WriteString(`{"gid":"many","trans_type":"saga","steps":[{"action":"http://a/ok"}`)
	many.WriteString(strings.Repeat(`,{"action":"http://a/ok"}`, sagapart.MaxBranches/2))
	many.WriteString(`],"payloads":[""` + strings.Repeat(`,""`, sagapart.MaxBranches/2) + `]}`)
	s.want(400, `{"message":"1002 branches are too many; at most 1000 in one transaction"}`, "POST", "submit", many.String())
	url := func(n int) string { return "http://a/ok?" + strings.Repeat("u", n-len("http://a/ok?")) }
	const long = `a URL of 8193 bytes is too long; at most 8192 are called"}`
	s.want(413, `{"message":"action: `+long, "POST", "submit", `{"gid":"url","trans_type":"saga","steps":[{"action":"`+url(longestURL+1)+`"}],"payloads":[""]}`)
	s.want(413, `{"message":"compensate: `+long, "POST", "submit", `{"gid":"url","trans_type":"saga","steps":[{"compensate":"`+url(longestURL+1)+`"}],"payloads":[""]}`)
	s.want(413, `{"message":"query_prepared: `+long, "POST", "prepare", `{"gid":"url","trans_type":"msg","query_prepared":"`+url(longestURL+1)+`"}`)
	s.want(200, success, "POST", "submit", `{"gid":"url","trans_type":"saga","wait_result":true,"steps":[{"action":"`+url(longestURL)+`"}],"payloads":[""]}`)
	s.want(413, "", "POST", "submit", `{"gid":"custom","trans_type":"saga","custom_data":"`+strings.Repeat("c", sagapart.MaxCustomBytes+1)+`"}`)

	s.want(200, success, "POST", "prepare", `{"gid":"reg","trans_type":"tcc"}`)
	branch := func(id string, data int, confirm string) string {
		return `{"gid":"reg","trans_type":"tcc","branch_id":"` + id + `","data":"` + strings.Repeat("d", data) + `","confirm":"` + confirm + `","cancel":""}`
	}
	s.want(413, "", "POST", "registerBranch", branch("01", 4*mib+1, ""))
	s.want(413, "", "POST", "registerBranch", branch("01", 1, url(longestURL+1)))
	s.want(400, "", "POST", "registerBranch", branch(strings.Repeat("0", 129), 1, ""))
	s.want(200, success, "POST", "registerBranch", branch("01", 4*mib, ""))
	s.want(413, "", "POST", "registerBranch", branch("02", 4*mib, ""))
	s.want(200, success, "POST", "registerBranch", branch("03", 1000, ""))

	s.want(413, "", "GET", "subscribe?topic=t&url="+url(longestURL+1), "")
	s.want(400, "", "GET", "subscribe?url=u&topic="+strings.Repeat("t", sagapart.MaxTopicBytes+1), "")
	if code, _, _ := s.do("GET", prefix+"subscribe?topic=t&url="+strings.Repeat("u", sagapart.MaxURLBytes+1), ""); code != 413 && code != 431 {
		t.Errorf("a long URL: %d", code)
	}
	if _, err := s.call("Subscribe", "DtmTopicRequest", `{"Topic":"t","URL":"`+strings.Repeat("u", sagapart.MaxURLBytes+1)+`"}`, ""); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a long URL by gRPC: %v", err)
	}
	if reason := strings.Repeat("r", sagapart.MaxReasonBytes+1); true {
		s.want(200, success, "POST", "abort", `{"gid":"reg","rollback_reason":"`+reason+`"}`)
		if got := s.find("reg").Reason; len(got) != sagapart.MaxReasonBytes {
			t.Errorf("a reason of %d bytes", len(got))
		}
	}
}

// TestRequestsInFlightAreBounded: the port counts large requests from their first bytes on.
func TestRequestsInFlightAreBounded(t *testing.T) {
	s := serve(t, Options{MaxFlightBytes: 1 << 20})
	large := `{"gid":"g","trans_type":"saga","steps":[{"action":"http://a/ok"}],"payloads":["` + strings.Repeat("p", 2<<20) + `"]}`
	s.refuseUnread(503, large)
	if _, err := s.call("Submit", "DtmRequest", `{"Gid":"g","TransType":"saga","CustomedData":"`+strings.Repeat("p", 2<<20)+`"}`, ""); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("by gRPC: %v", err)
	}
	if s.commands != 0 {
		t.Error("it was proposed")
	}
}

// refuseUnread sends a submit that is not even read to its end. Its client hears the code, or no more than that the connection has ended.
func (s *served) refuseUnread(code int, body string) {
	s.t.Helper()
	res, err := client.Post("http://"+s.addr+prefix+"submit", "application/json", strings.NewReader(body))
	if err != nil {
		return
	}
	if res.Body.Close(); res.StatusCode != code {
		s.t.Errorf("%d bytes: %s, want %d", len(body), res.Status, code)
	}
}

// TestGids: 22 characters that are not mistaken for others, and never the same.
func TestGids(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		gid := newGid()
		if len(gid) != gidLength || seen[gid] || strings.Trim(gid, gidAlphabet) != "" {
			t.Fatal(gid)
		}
		seen[gid] = true
	}
	s := serve(t, Options{})
	if code, _, b := s.do("GET", prefix+"newGid", ""); code != 200 || !strings.HasPrefix(b, `{"dtm_result":"SUCCESS","gid":"`) {
		t.Errorf("%d %s", code, b)
	}
	if _, _, b := s.do("POST", "/api/json-rpc", `{"jsonrpc":"2.0","id":"1","method":"newGid"}`); !strings.HasPrefix(b, `{"error":null,"id":"1","jsonrpc":"2.0","result":{"gid":"`) {
		t.Error(b)
	}
}

// TestAFullLogIsWaitedFor: a submit that finds no room in the log's lane is done when there is some.
func TestAFullLogIsWaitedFor(t *testing.T) {
	s := serve(t, Options{})
	s.mu.Lock()
	s.fail = fmt.Errorf("wrapped: %w", node.ErrOverloaded)
	s.mu.Unlock()
	a := s.later("POST", prefix+"submit", saga1("waits", "ok"))
	select {
	case got := <-a:
		t.Fatalf("answered %d %s while there is no room", got.code, got.body)
	case <-time.After(20 * time.Millisecond):
	}
	s.mu.Lock()
	s.fail = nil
	s.mu.Unlock()
	if got := <-a; got.code != 200 {
		t.Errorf("%d %s", got.code, got.body)
	}
}

// TestMetrics: DTM's names, with labels that no request can make.
func TestMetrics(t *testing.T) {
	s := serve(t, Options{Collect: func(m *Metrics) {
		m.Count("dtm_branch_process_total", "All branches processed by dtm", 3, "model", "saga", "branchid", "01", "branchtype", "action", "status", "ok")
	}})
	s.want(200, success, "POST", "submit", saga1("g", "ok"))
	s.want(409, "", "POST", "submit", saga1("g2", "fail"))
	s.do("GET", prefix+"strange", "")
	if _, err := s.call("Submit", "DtmRequest", `{}`, ""); err == nil {
		t.Error("an empty one was taken")
	}
	code, h, b := s.do("GET", "/api/metrics", "")
	if code != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatal(code, h)
	}
	for _, line := range []string{
		"# TYPE dtm_server_process_total counter\n",
		`dtm_server_process_total{type="http",api="submit",status="ok"} 1` + "\n",
		`dtm_server_process_total{type="http",api="submit",status="fail"} 1` + "\n",
		`dtm_server_process_total{type="grpc",api="submit",status="fail"} 1` + "\n",
		`dtm_server_response_duration_count{type="http",api="submit"} 2` + "\n",
		`dtm_server_response_duration_bucket{type="http",api="submit",le="+Inf"} 2` + "\n",
		`dtm_branch_process_total{model="saga",branchid="01",branchtype="action",status="ok"} 3` + "\n",
	} {
		if !strings.Contains(b, line) {
			t.Errorf("%q is not there", line)
		}
	}
	if strings.Contains(b, "strange") || strings.Count(b, "# TYPE dtm_server_process_total") != 1 {
		t.Error(b)
	}
}

// TestShutdownEndsWhatWaits: a member that is asked to stop does not wait for transactions to end.
func TestShutdownEndsWhatWaits(t *testing.T) {
	s := serve(t, Options{})
	a := s.later("POST", prefix+"submit", saga1("g", "never"))
	s.waits("g", 1)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	if err := s.door.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if got := <-a; got.code != 500 || !strings.Contains(got.body, "submitted") {
		t.Errorf("%d %s", got.code, got.body)
	}
}

// TestBesideIsOneCommand: if any part is refused, nothing of it is done; a repeated request is done once.
func TestBesideIsOneCommand(t *testing.T) {
	s := serve(t, Options{KV: keys})
	body := func(gid, value string) string {
		return `{"gid":"` + gid + `","trans_type":"saga","steps":[{"action":"http://a/ok","compensate":""}],"payloads":["{}"],"kv":{"compare":[{"key":"c3RvY2s=","target":"VALUE","value":"NQ=="}],` +
			`"success":[{"request_put":{"key":"c3RvY2s=","value":"` + value + `"}}]}}`
	}
	s.put("stock", "5")
	s.want(200, success, "POST", "prepare", `{"gid":"there","trans_type":"saga"}`)
	before, _ := s.kv.Revision()
	if code, _, b := s.do("POST", ownPrefix+"submit", body("there", "NQ==")); code != 409 {
		t.Errorf("of a gid that is prepared: %d %s", code, b)
	}
	if after, _ := s.kv.Revision(); after != before || s.find("there").Status != sagapart.Prepared {
		t.Errorf("revision %d after %d, %s", after, before, s.find("there").Status)
	}
	for i, code := range []int{200, 409, 409} { // the value stays, so only the gid tells that it has been done
		if got, _, b := s.do("POST", ownPrefix+"submit", body("new", "NQ==")); got != code {
			t.Errorf("time %d: %d %s", i+1, got, b)
		}
	}
	if after, _ := s.kv.Revision(); after != before+1 {
		t.Errorf("revision %d after %d", after, before)
	}
	// One that has changed what it compares hears of its gid, and not of the compare that has become false by it.
	if code, _, b := s.do("POST", ownPrefix+"submit", body("changes", "Ng==")); code != 200 {
		t.Errorf("%d %s", code, b)
	}
	if code, _, b := s.do("POST", ownPrefix+"submit", body("changes", "Ng==")); code != 409 || !strings.Contains(b, "the gid exists already") {
		t.Errorf("sent again: %d %s", code, b)
	}
	if code, _, b := s.do("POST", ownPrefix+"submit", body("another", "Ng==")); code != 409 || !strings.Contains(b, "a compare is false") {
		t.Errorf("another gid: %d %s", code, b)
	}
}
