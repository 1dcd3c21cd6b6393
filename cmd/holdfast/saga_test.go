package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// sagaRig is a server with the saga door and a service whose steps are counted; /fail answers 409.
type sagaRig struct {
	*running
	t     *testing.T
	at    string
	steps *httptest.Server
	calls atomic.Int64
}

func serveSaga(t *testing.T, data string, args ...string) *sagaRig {
	t.Helper()
	s := &sagaRig{t: t, at: freeAddr(t)}
	s.steps = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		switch r.URL.Path {
		case "/fail":
			w.WriteHeader(http.StatusConflict)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "no\n\x1b[31mpacker")
		case "/later":
			w.WriteHeader(http.StatusTooEarly)
		}
	}))
	t.Cleanup(s.steps.Close)
	s.running = serveFlags(t, data, append([]string{"--saga", s.at}, args...)...)
	return s
}

// submit begins a saga of one step and returns the answer to it.
func (s *sagaRig) submit(gid, url, token string) (code int, body string) {
	s.t.Helper()
	return s.post("submit", token, fmt.Sprintf(`{"gid":%q,"trans_type":"saga","wait_result":true,"steps":[{"action":%q}],"payloads":["{}"]}`, gid, url))
}

func (s *sagaRig) post(path, token, body string) (code int, answer string) {
	s.t.Helper()
	return s.postTo("/api/dtmsvr/"+path, token, body)
}

func (s *sagaRig) postTo(path, token, body string) (code int, answer string) {
	s.t.Helper()
	req, err := http.NewRequest("POST", "http://"+s.at+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// TestSagasFromTheCommandLine: transactions end or wait, and an operator sees them, tries one again, and stops it.
func TestSagasFromTheCommandLine(t *testing.T) {
	t.Parallel()
	s := serveSaga(t, t.TempDir())
	if code, body := s.submit("good", s.steps.URL+"/do", ""); code != 200 || body != `{"dtm_result":"SUCCESS"}` {
		t.Errorf("submit: %d %s", code, body)
	}
	if code, _ := s.submit("bad", s.steps.URL+"/fail", ""); code != 409 {
		t.Errorf("submit of what fails: %d", code)
	}
	if code, _ := s.submit("slow", s.steps.URL+"/later", ""); code != 425 {
		t.Errorf("submit of what goes on: %d", code)
	}
	out := says(t, "saga", "list", "--saga", s.at)
	for _, want := range []string{"good  saga  succeed", "bad   saga  failed", "slow  saga  submitted"} {
		if !strings.Contains(out, want) {
			t.Errorf("saga list does not say %q:\n%s", want, out)
		}
	}
	if code, _ := s.submit("ill", s.steps.URL+"/broken", ""); code == 200 {
		t.Error("submit of what is broken has succeeded")
	}
	row := func(gid string) string {
		for line := range strings.Lines(says(t, "saga", "list", "--saga", s.at)) {
			if strings.HasPrefix(line, gid+" ") {
				return strings.TrimSpace(line)
			}
		}
		return ""
	}
	for gid, words := range map[string][]string{"ill": {"  1  ", "url:" + s.steps.URL + "/broken ", "502"}, "slow": {"/later the service is still at it"},
		"bad": {"/fail return failed"}} {
		for _, want := range words {
			if got := row(gid); !strings.Contains(got, want) || strings.Contains(got, "\x1b") {
				t.Errorf("the row of %s lacks %q or has an escape sequence: %q", gid, want, got)
			}
		}
	}
	if out := says(t, "saga", "show", "ill", "--saga", s.at); !strings.Contains(out, `"attempts": 1`) || !strings.Contains(out, `"last_error": "`) {
		t.Errorf("saga show of one that is tried again:\n%s", out)
	}
	if got := row("ill"); !strings.Contains(got, " action 01  url:") {
		t.Errorf("the row of ill does not say what was called last: %q", got)
	}
	// Those that do not get on, as a table and as JSON.
	if out := says(t, "saga", "list", "--saga", s.at, "--stuck"); strings.Contains(out, "good") || strings.Contains(out, "bad ") || !strings.Contains(out, "ill ") || !strings.Contains(out, "slow ") {
		t.Errorf("saga list --stuck:\n%s", out)
	}
	var listed struct {
		Leads        bool
		Transactions []struct {
			Gid       string
			Attempts  int
			Last_call struct{ Op string }
		}
	}
	if err := json.Unmarshal([]byte(says(t, "saga", "list", "--saga", s.at, "--stuck", "--limit", "1", "--json")), &listed); err != nil || !listed.Leads ||
		len(listed.Transactions) != 1 || listed.Transactions[0].Gid != "ill" || listed.Transactions[0].Attempts != 1 || listed.Transactions[0].Last_call.Op != "action" {
		t.Errorf("as JSON: %+v, %v", listed, err)
	}
	refuses(t, "it has ended with the status succeed", "saga", "retry", "good", "--saga", s.at)
	refuses(t, "it has ended with the status failed", "saga", "retry", "bad", "--saga", s.at)
	refuses(t, "no transaction has that gid", "saga", "retry", "none", "--saga", s.at)
	says(t, "saga", "stop", "ill", "--saga", s.at, "--reason", "the packer is gone")
	if got := row("ill"); !strings.HasSuffix(got, " the packer is gone") || strings.Contains(got, "/broken") {
		t.Errorf("the row of one that was stopped: %q", got)
	}
	calls := s.calls.Load()
	says(t, "saga", "retry", "slow", "--saga", s.at)
	for end := time.Now().Add(wait.Limit(t)); s.calls.Load() == calls; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("saga retry calls nothing")
		}
	}
	says(t, "saga", "stop", "slow", "--saga", s.at)
	if out := says(t, "saga", "show", "slow", "--saga", s.at); !strings.Contains(out, `"status": "failed"`) || !strings.Contains(out, "stopped by hand (forceStop)") {
		t.Errorf("saga show of a stopped one:\n%s", out)
	}
	refuses(t, "no transaction has that gid", "saga", "show", "none", "--saga", s.at)
	refuses(t, "is that the --saga address", "saga", "list", "--saga", freeAddr(t))
	if out := says(t, "status", "--admin", s.adminAddr); !strings.Contains(out, "saga: 0 open transactions") {
		t.Errorf("status:\n%s", out)
	}
}

// TestOperatorsPortsAreNeverCalled: a client that submits a transaction cannot have the server talk to its own admin port, by any name.
func TestOperatorsPortsAreNeverCalled(t *testing.T) {
	t.Parallel()
	s := serveSaga(t, t.TempDir())
	_, port, _ := strings.Cut(s.adminAddr, ":")
	for i, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "127.1", "0x7f000001"} {
		if code, body := s.submit(fmt.Sprintf("own-%d", i), "http://"+host+":"+port+"/v1/saga/resume", ""); code != 425 { // it goes on, and fails
			t.Errorf("%s: %d %s", host, code, body)
		}
	}
	if out := says(t, "saga", "list", "--saga", s.at, "--status", "succeed"); strings.Contains(out, "own-") {
		t.Errorf("one of them succeeded:\n%s", out)
	}
}

// TestRestoredSagasAreHeld: a copy of a server calls no service until an operator says so.
func TestRestoredSagasAreHeld(t *testing.T) {
	t.Parallel()
	s := serveSaga(t, t.TempDir())
	if code, _ := s.submit("slow", s.steps.URL+"/later", ""); code != 425 {
		t.Fatal("submitted and ended")
	}
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if out := says(t, "snapshot", "save", snapshot, "--admin", s.adminAddr); !strings.Contains(out, "1 sagas") {
		t.Errorf("snapshot save: %s", out)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	says(t, "snapshot", "restore", snapshot, "--data", copied, "--name", "r1")
	says(t, "saga", "stop", "slow", "--saga", s.at) // the original has nothing left to call
	calls := s.calls.Load()
	r := serveSaga(t, copied)
	says(t, "saga", "retry", "slow", "--saga", r.at)
	if out := says(t, "status", "--admin", r.adminAddr); !strings.Contains(out, "holdfast resume --saga") {
		t.Errorf("status does not say what to do:\n%s", out)
	}
	time.Sleep(500 * time.Millisecond) // longer than a worker waits for anything that is due
	if n := s.calls.Load(); n != calls {
		t.Fatalf("the copy called the service %d times before it was resumed", n-calls)
	}
	says(t, "resume", "--saga", "--admin", r.adminAddr)
	for end := time.Now().Add(wait.Limit(t)); s.calls.Load() == calls; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("resumed, and it calls nothing")
		}
	}
}

// TestWhoMayUseTheSagaDoor: with a file of tokens only those with one; a file that changes counts within a second.
func TestWhoMayUseTheSagaDoor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	const old, renewed = "0123456789abcdef-old", "0123456789abcdef-new"
	write := func(token string) {
		if err := os.WriteFile(file, []byte("# services\n"+token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(old)
	s := serveSaga(t, t.TempDir(), "--saga-tokens", file)
	for _, token := range []string{"", "wrong-but-long-enough", renewed} {
		if code, _ := s.submit("t1", s.steps.URL+"/do", token); code != 401 {
			t.Errorf("token %q: %d", token, code)
		}
	}
	if code, _ := s.submit("t1", s.steps.URL+"/do", old); code != 200 {
		t.Errorf("the right token: %d", code)
	}
	write(renewed)
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(20 * time.Millisecond) {
		if code, _ := s.submit("t2", s.steps.URL+"/do", renewed); code == 200 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the new token is not taken")
		}
	}
	if code, _ := s.submit("t3", s.steps.URL+"/do", old); code != 401 {
		t.Errorf("the old token: %d", code)
	}
	refused := map[string][]string{
		"is beyond loopback":             {"--saga", "0.0.0.0:1"},
		"--saga-grpc without --saga":     {"--saga", "off", "--saga-grpc", "127.0.0.1:1"},
		"no list of addresses":           {"--saga-clients", "everybody else"},
		"neither an address":             {"--saga-allow-targets", "http://x"},
		"a token is one word of 16":      {"--saga-tokens", short(t)},
		"give a file this user can read": {"--saga-tokens", filepath.Join(t.TempDir(), "none")},
	}
	for words, args := range refused {
		// The door is named, so that the others stay off: at their usual ports something may listen on this machine.
		refuses(t, words, append([]string{"serve", "--data", t.TempDir(), "--admin", "off", "--saga", "127.0.0.1:0"}, args...)...)
	}
}

// short is a file with a token that can be guessed.
func short(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestOnlyServicesOfTheListMayUseTheSagaDoor: an address that is not among --saga-clients is refused, with authentication on as well.
func TestOnlyServicesOfTheListMayUseTheSagaDoor(t *testing.T) {
	t.Parallel()
	s := serveSaga(t, t.TempDir(), "--saga-clients", "10.0.0.0/8")
	if code, _ := s.submit("c1", s.steps.URL+"/do", ""); code != 403 {
		t.Errorf("from loopback: %d", code)
	}
	s = serveSaga(t, t.TempDir(), "--saga-clients", "127.0.0.0/8")
	if code, _ := s.submit("c1", s.steps.URL+"/do", ""); code != 200 {
		t.Errorf("from an address of the list: %d", code)
	}
}

// TestKeysAndASagaInOneCommit: a submit may change keys, where the server has a door to them.
func TestKeysAndASagaInOneCommit(t *testing.T) {
	t.Parallel()
	const claim = `{"gid":%q,"trans_type":"saga","kv":{"compare":[{"key":"YQ==","target":"VERSION","version":"0"}],"success":[{"request_put":{"key":"YQ==","value":"YQ=="}}]}}`
	s := serveSaga(t, t.TempDir(), "--kv", freeAddr(t))
	if code, body := s.postTo("/api/holdfast/submit", "", fmt.Sprintf(claim, "first")); code != 200 || !strings.Contains(body, `"revision":2`) {
		t.Errorf("the first: %d %s", code, body)
	}
	if code, body := s.postTo("/api/holdfast/submit", "", fmt.Sprintf(claim, "second")); code != 409 || !strings.Contains(body, "compare is false") {
		t.Errorf("the second: %d %s", code, body)
	}
	without := serveSaga(t, t.TempDir(), "--kv", "off")
	if code, body := without.postTo("/api/holdfast/submit", "", fmt.Sprintf(claim, "first")); code != 501 {
		t.Errorf("without a door to keys: %d %s", code, body)
	}
}

// TestMessagesOfAnOutageGoOutAtOnce: a message that became due while no server ran is sent when one starts, and one that begins then waits its time.
func TestMessagesOfAnOutageGoOutAtOnce(t *testing.T) {
	t.Parallel()
	called := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	defer service.Close()
	data := filepath.Join(t.TempDir(), "data")
	s := serveSaga(t, data)
	message := func(gid string, seconds int) {
		t.Helper()
		code, body := s.post("submit", "", fmt.Sprintf(`{"gid":%q,"trans_type":"msg","custom_data":"{\"delay\":%d}","steps":[{"action":%q}],"payloads":["{}"]}`,
			gid, seconds, service.URL+"/"+gid))
		if code != 200 || !strings.Contains(body, "SUCCESS") {
			t.Fatalf("%s: %d %s", gid, code, body)
		}
	}
	message("old", 3)
	s.stop()
	time.Sleep(3 * time.Second) // it is due meanwhile
	s = serveSaga(t, data)
	began := time.Now()
	message("new", 2)
	for _, want := range []string{"/old", "/new"} {
		select {
		case got := <-called:
			if got != want {
				t.Fatalf("%s was called, want %s", got, want)
			}
			// That the old one comes first says that its time went on: else it would be due a second after the new one.
			if took := time.Since(began); want == "/new" && took < 2*time.Second {
				t.Errorf("%s was called after %v", want, took)
			}
		case <-time.After(wait.Limit(t)):
			t.Fatalf("%s was never called", want)
		}
	}
}

// TestWhatHasEndedIsKeptForAsLongAsTheFlagSays, over a restart without the flag, which is for what ends from then on.
func TestWhatHasEndedIsKeptForAsLongAsTheFlagSays(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	out := &said{}
	s := &sagaRig{t: t, at: freeAddr(t)}
	s.steps = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.steps.Close)
	run := func(args ...string) {
		s.running = serveLogging(t, out, data, append([]string{"--saga", s.at}, args...)...)
	}
	known := func(gid string) bool {
		t.Helper()
		return strings.Contains(says(t, "saga", "list", "--saga", s.at), gid)
	}
	run("--saga-retention", "1s")
	out.line(t, "transactions that end are kept for another time", "retention=1s", "was=24h0m0s")
	if code, body := s.submit("short", s.steps.URL+"/do", ""); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	n := 0
	wait.Until(t, "it is forgotten with what is written later", func() bool {
		n++
		if code, body := s.submit(fmt.Sprint("next-", n), s.steps.URL+"/do", ""); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
		return !known("short")
	})
	s.running.stop()
	run()
	out.line(t, "transactions that end are kept for another time", "retention=24h0m0s", "was=1s")
	if code, body := s.submit("long", s.steps.URL+"/do", ""); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if !known("long") {
		t.Error("it is forgotten at once")
	}
	refuses(t, "no time from 1s to ten years", "serve", "--data", t.TempDir(), "--admin", "off", "--saga", "127.0.0.1:0", "--saga-retention", "forever")
}
