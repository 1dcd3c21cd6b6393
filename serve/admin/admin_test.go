package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// fake is a member without a log. Tests set its fields before they send requests.
type fake struct {
	contacts []node.Contact
	status   node.Status
	members  []node.Member
	progress []node.Follower
	counters node.Counters
	callErr  error
	err      error // of membership calls
	calls    []string
	snapshot func(io.Writer) error
	handlers map[string]func(context.Context, []byte) ([]byte, error)
}

func (f *fake) Status() node.Status        { return f.status }
func (f *fake) Members() []node.Member     { return f.members }
func (f *fake) Followers() []node.Follower { return f.progress }
func (f *fake) Counters() node.Counters    { return f.counters }
func (f *fake) Call(ctx context.Context, service string, req []byte) ([]byte, error) {
	if f.callErr != nil {
		return nil, f.callErr
	}
	return f.handlers[service](ctx, req)
}
func (f *fake) Handle(service string, fn func(context.Context, []byte) ([]byte, error)) {
	f.handlers = map[string]func(context.Context, []byte) ([]byte, error){service: fn}
}
func (f *fake) AddMember(_ context.Context, urls []string, learner bool) (node.Member, error) {
	f.calls = append(f.calls, "add "+urls[0])
	return node.Member{ID: 0xd, PeerURLs: urls, Learner: learner}, f.err
}
func (f *fake) Contacts() []node.Contact { return f.contacts }
func (f *fake) WaitsFor() string {
	return "waiting for a leader; 1 of 3 voters answer, and a majority must run"
}
func (f *fake) RemoveMember(_ context.Context, id uint64) error {
	f.calls = append(f.calls, "remove "+hex(id))
	return f.err
}
func (f *fake) PromoteMember(_ context.Context, id uint64) error {
	f.calls = append(f.calls, "promote "+hex(id))
	return f.err
}
func (f *fake) SaveSnapshot(_ context.Context, w io.Writer) error { return f.snapshot(w) }

// three is a fake leader of three members, one of them unreachable and 90 entries behind.
func three() *fake {
	return &fake{
		status: node.Status{ClusterID: 0xc, MemberID: 0xa, Name: "n1", Leader: 0xa, Term: 3, Commit: 100, Applied: 99, Ready: true},
		members: []node.Member{
			{ID: 0xa, Name: "n1", PeerURLs: []string{"http://127.0.0.1:1"}, ClientURLs: []string{"http://127.0.0.1:2"}},
			{ID: 0xb, Name: "n2", PeerURLs: []string{"http://127.0.0.1:3"}},
			{ID: 0xe, PeerURLs: []string{"http://127.0.0.1:5"}, Learner: true}},
		progress: []node.Follower{{ID: 0xa, Match: 100, Active: true}, {ID: 0xb, Match: 10}},
	}
}

// serve runs an admin door on a loopback port until the test ends.
func serve(t *testing.T, opts Options, f *fake) (url string, a *Admin) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a = New(opts)
	if f != nil {
		a.attach(&attached{f})
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		if err := a.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String(), a
}

func do(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
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

func TestReadyzSaysNoWithAReasonUntilEverythingServes(t *testing.T) {
	serving := false
	url, a := serve(t, Options{DoorsServe: func() bool { return serving }}, nil)
	want := func(code int, text string) {
		t.Helper()
		if got, body := do(t, "GET", url+"/readyz", ""); got != code || !strings.Contains(body, text) {
			t.Errorf("%d %s, want %d with %q", got, body, code, text)
		}
	}
	if code, _ := do(t, "GET", url+"/livez", ""); code != 200 {
		t.Errorf("livez answers %d before there is a member", code)
	}
	want(503, "starting")
	a.Waiting("waiting for n2")
	want(503, "waiting for n2")
	if code, body := do(t, "GET", url+"/v1/status", ""); code != 503 || !strings.Contains(body, "waiting for n2") {
		t.Errorf("status before there is a member: %d %s", code, body)
	}
	f := three()
	f.status.Leader, f.status.Ready = 0, false
	a.attach(&attached{f})
	want(503, "not ready: waiting for a leader; 1 of 3 voters answer")
	f.status.Leader = 0xa
	want(503, "current term")
	f.status.Ready = true
	want(503, "doors")
	serving = true
	want(200, "ok")
	if _, body := do(t, "GET", url+"/readyz?verbose", ""); strings.Count(body, "[+]") != 4 {
		t.Errorf("verbose: %s", body)
	}
	a.Ending()
	want(503, "shutting down")
	if _, body := do(t, "GET", url+"/readyz?verbose", ""); !strings.Contains(body, "[-] it is not shutting down") {
		t.Errorf("verbose: %s", body)
	}
}

func TestStatusJoinsTheMemberListWithWhatTheLeaderKnows(t *testing.T) {
	steps := new(meter.Steps)
	steps.Sync.Done(40, 120*time.Microsecond)
	f := three()
	url, _ := serve(t, Options{Version: "1.2.3", Steps: steps}, f)
	code, body := do(t, "GET", url+"/v1/status", "")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != 200 {
		t.Fatalf("%d %v: %s", code, err, body)
	}
	if s.Version != "1.2.3" || s.Cluster != "c" || s.Leader != "a" || s.Applied != 99 || !s.Ready {
		t.Errorf("%s", body)
	}
	for i, want := range []MemberStatus{
		{ID: "a", Role: "leader", Replicated: 100, Lag: 0, State: "ok"},
		{ID: "b", Role: "follower", Replicated: 10, Lag: 90, State: "unreachable"},
		{ID: "e", Role: "not started", Replicated: -1, Lag: -1, State: "unknown"},
	} {
		m := s.Members[i]
		if m.ID != want.ID || m.Role != want.Role || m.Replicated != want.Replicated || m.Lag != want.Lag || m.State != want.State {
			t.Errorf("member %d is %+v, want %+v", i, m, want)
		}
	}
	for _, st := range s.Steps {
		if st.Step == "sync" && (st.Total != 40 || st.P99Seconds < 115e-6 || st.P99Seconds > 125e-6) {
			t.Errorf("sync is %+v", st)
		}
	}

	f.callErr = errors.New("no answer")
	_, body = do(t, "GET", url+"/v1/status", "")
	if !strings.Contains(body, "no answer") || !strings.Contains(body, `"name": "n2"`) {
		t.Errorf("with an unreachable leader: %s", body)
	}
}

func TestMetricsHaveACounterAndAHistogramForEveryStep(t *testing.T) {
	steps := new(meter.Steps)
	for range 3 {
		steps.Sync.Done(5, 100*time.Microsecond)
	}
	steps.Sync.Done(5, time.Minute)
	f := three()
	f.counters.Queued = []node.LaneUse{{Name: "kv", Bytes: 77}}
	url, _ := serve(t, Options{Steps: steps}, f)
	_, body := do(t, "GET", url+"/metrics", "")
	steps.Each(func(name string, _ *meter.Step) {
		for _, want := range []string{"# TYPE holdfast_" + name + "_total counter", "# TYPE holdfast_" + name + "_seconds histogram"} {
			if !strings.Contains(body, want+"\n") {
				t.Errorf("no line %q", want)
			}
		}
	})
	for _, want := range []string{"holdfast_sync_total 20", "holdfast_sync_seconds_count 4", `holdfast_sync_seconds_bucket{le="6.5536e-05"} 0`,
		`holdfast_sync_seconds_bucket{le="0.000131072"} 3`, `holdfast_sync_seconds_bucket{le="17.179869184"} 3`, `holdfast_sync_seconds_bucket{le="+Inf"} 4`,
		"holdfast_ready 1", "holdfast_is_leader 1", "holdfast_term 3", "holdfast_commit_index 100", "holdfast_applied_index 99",
		`holdfast_members{kind="voter"} 2`, `holdfast_members{kind="learner"} 1`, `holdfast_follower_lag_entries{member="b"} 90`,
		`holdfast_queue_bytes{lane="kv"} 77`, "go_goroutines "} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("no line %q", want)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}

func TestMetricsWithoutAMemberSayNotReady(t *testing.T) {
	url, _ := serve(t, Options{}, nil)
	if code, body := do(t, "GET", url+"/metrics", ""); code != 200 || !strings.Contains(body, "holdfast_ready 0") {
		t.Errorf("%d %s", code, body)
	}
}

func TestMembershipCalls(t *testing.T) {
	for _, tc := range []struct {
		method, path, body string
		err                error
		code               int
		text, call         string
	}{
		{"GET", "/v1/members", "", nil, 200, `"name": "n2"`, ""},
		{"POST", "/v1/members", `{"peer":"127.0.0.1:9","learner":true}`, nil, 201, `"id": "d"`, "add 127.0.0.1:9"},
		{"POST", "/v1/members", `{"peer":"127.0.0.1:9"}`, node.ErrPeerAddrExists, 409, "remove that one", "add 127.0.0.1:9"},
		{"POST", "/v1/members", `{"peer":"127.0.0.1:9"}`, node.ErrUnhealthy, 412, "5 s", "add 127.0.0.1:9"},
		{"POST", "/v1/members", `{"peer":"127.0.0.1:9"}`, node.ErrNotEnoughStarted, 412,
			"not enough started members; member f at 127.0.0.1:6 was added and has not started: start it, or remove it (holdfast member remove f)", "add 127.0.0.1:9"},
		{"POST", "/v1/members", `{"peer":"nowhere"}`, nil, 400, "host:port", ""},
		{"POST", "/v1/members", `{"pear":"127.0.0.1:9"}`, nil, 400, "unknown field", ""},
		{"POST", "/v1/members", `{"peer":"` + strings.Repeat("x", 100<<10) + `"}`, nil, 400, "too large", ""},
		{"DELETE", "/v1/members/b", "", nil, 204, "", "remove b"},
		{"DELETE", "/v1/members/b", "", node.ErrMemberNotFound, 404, "member not found", "remove b"},
		{"DELETE", "/v1/members/b", "", node.ErrNoLeader, 503, "no leader", "remove b"},
		{"DELETE", "/v1/members/n2", "", nil, 400, "hexadecimal", ""},
		{"DELETE", "/v1/members/0", "", nil, 400, "hexadecimal", ""},
		{"POST", "/v1/members/e/promote", "", nil, 204, "", "promote e"},
		{"POST", "/v1/members/e/promote", "", node.ErrLearnerNotReady, 412, "caught up", "promote e"},
		{"PUT", "/v1/members", "", nil, 405, "", ""},
	} {
		f := three()
		f.members = append(f.members, node.Member{ID: 0xf, PeerURLs: []string{"http://127.0.0.1:6"}}) // a voter that has not started
		f.err = tc.err
		url, _ := serve(t, Options{}, f)
		code, body := do(t, tc.method, url+tc.path, tc.body)
		if code != tc.code || !strings.Contains(body, tc.text) || strings.Join(f.calls, ",") != tc.call {
			t.Errorf("%s %s: %d %s calls %v; want %d with %q and call %q", tc.method, tc.path, code, body, f.calls, tc.code, tc.text, tc.call)
		}
	}
}

func TestAWebPageCannotChangeMembersOrReadSnapshots(t *testing.T) {
	f := three()
	f.snapshot = func(w io.Writer) error { _, err := w.Write([]byte("secret")); return err }
	url, _ := serve(t, Options{}, f)
	if code, _ := do(t, "DELETE", url+"/v1/members/b", "", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); code != 403 {
		t.Errorf("a request from another site is answered %d", code)
	}
	if code, body := do(t, "GET", url+"/v1/snapshot", "", "Host", "evil.example"); code != 421 || strings.Contains(body, "secret") {
		t.Errorf("a name made to resolve to loopback is answered %d", code)
	}
	if code, _ := do(t, "GET", url+"/v1/status", "", "Host", "localhost:8080"); code != 200 {
		t.Errorf("localhost is answered %d", code)
	}
	if len(f.calls) > 0 {
		t.Errorf("calls %v", f.calls)
	}
}

func TestASnapshotThatFailsHalfWayIsCutNotEnded(t *testing.T) {
	f := three()
	f.snapshot = func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<20))
		return errors.Join(err, errors.New("disk gone"))
	}
	url, _ := serve(t, Options{}, f)
	res, err := http.Get(url + "/v1/snapshot")
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if err == nil {
		t.Error("the client took half a snapshot for a whole one")
	}
	f.snapshot = func(w io.Writer) error { _, err := w.Write([]byte("whole")); return err }
	if code, body := do(t, "GET", url+"/v1/snapshot", ""); code != 200 || body != "whole" {
		t.Errorf("%d %q", code, body)
	}
	f.status.Leader = 0
	if code, _ := do(t, "GET", url+"/v1/snapshot", ""); code != 503 {
		t.Errorf("a member without a leader answers %d", code)
	}
}

func BenchmarkScrape(b *testing.B) {
	f := three()
	a := New(Options{})
	a.attach(&attached{f})
	h := a.handler()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
}

// TestADoorsSectionIsShownOnceTheMemberRuns: its functions are not called before, and its additions stand beside the rest.
func TestADoorsSectionIsShownOnceTheMemberRuns(t *testing.T) {
	size, early := NewDesc("toy_size", "Toys.", "box"), true
	called := func() {
		if early {
			t.Error("a section is asked before the member runs")
		}
	}
	section := Section{
		Status:  func(context.Context) []Field { called(); return []Field{{"toy", map[string]int{"boxes": 3}}} },
		Collect: func(m *Metrics) { called(); m.Gauge(size, 5, "red") },
		Notes:   func(context.Context) []string { called(); return []string{"but a box is lost"} },
		Routes: []Route{{"POST /v1/toy/boxes", func(w http.ResponseWriter, _ *http.Request) {
			called()
			Fail(w, http.StatusConflict, "there are enough")
		}}},
	}
	url, a := serve(t, Options{Sections: []Section{section, {}}}, nil)
	do(t, "GET", url+"/metrics", "")
	do(t, "GET", url+"/readyz", "")
	for method, path := range map[string]string{"GET": "/v1/status", "POST": "/v1/toy/boxes"} {
		if code, body := do(t, method, url+path, ""); code != 503 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	early = false
	a.attach(&attached{three()})
	_, body := do(t, "GET", url+"/v1/status", "")
	var s struct {
		Name  string
		Steps []StepStatus
		Toy   map[string]int
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil || s.Name != "n1" || len(s.Steps) != 8 || s.Toy["boxes"] != 3 {
		t.Errorf("%v: %s", err, body)
	}
	if _, body := do(t, "GET", url+"/metrics", ""); !strings.Contains(body, "\nholdfast_toy_size{box=\"red\"} 5\n") {
		t.Errorf("metrics: %s", body)
	}
	if _, body := do(t, "GET", url+"/readyz", ""); body != "ok\nbut a box is lost\n" {
		t.Errorf("readyz: %s", body)
	}
	if code, body := do(t, "POST", url+"/v1/toy/boxes", ""); code != 409 || body != "{\"error\":\"there are enough\"}\n" {
		t.Errorf("%d %s", code, body)
	}
}
