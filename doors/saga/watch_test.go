package saga

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// stream is an open watch.
type stream struct {
	t    *testing.T
	body *bufio.Scanner
	end  func()
}

func (s *served) watch(gid string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.addr+ownPrefix+"watch?gid="+gid, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatal(res.Status, res.Header)
	}
	s.t.Cleanup(func() { cancel(); res.Body.Close() })
	return &stream{s.t, bufio.NewScanner(res.Body), cancel}
}

// next is the next event's data; "" at the end of the stream.
func (s *stream) next() string {
	for s.body.Scan() {
		if data, ok := strings.CutPrefix(s.body.Text(), "data: "); ok {
			return data
		}
	}
	return ""
}

// wants compares the next event's status and reason.
func (s *stream) wants(status, reason string) {
	s.t.Helper()
	got := s.next()
	if !strings.Contains(got, `"status":"`+status+`"`) || (reason != "") != strings.Contains(got, "rollback_reason") || !strings.Contains(got, reason) {
		s.t.Errorf("%s, want %s %s", got, status, reason)
	}
}

// TestWatch: one event for each status, and an end after the last one.
func TestWatch(t *testing.T) {
	s := serve(t, Options{})
	s.want(200, success, "POST", "prepare", `{"gid":"t","trans_type":"tcc"}`)
	s.want(200, success, "POST", "registerBranch", `{"gid":"t","trans_type":"tcc","branch_id":"01","confirm":"http://a/ok","cancel":"http://a/ongoing"}`)
	w := s.watch("t")
	w.wants("prepared", "")
	s.want(200, success, "POST", "abort", `{"gid":"t","trans_type":"tcc","rollback_reason":"no seat"}`)
	w.wants("aborting", "no seat")
	s.passes.Wait()
	late := s.watch("t") // a later watcher begins with the present status
	late.wants("aborting", "no seat")
	s.want(200, success, "POST", "forceStop", `{"gid":"t"}`)
	for _, one := range []*stream{w, late} {
		one.wants("failed", "no seat")
		if more := one.next(); more != "" {
			t.Errorf("after the end: %s", more)
		}
	}
	wait.Until(t, "nobody watches", func() bool { return s.door.waiting.Load() == 0 && s.door.watching.Load() == 0 })

	// A gid may be another transaction's by the time: its news are not this one's.
	s.want(200, success, "POST", "prepare", `{"gid":"u","trans_type":"msg"}`)
	w = s.watch("u")
	w.wants("prepared", "")
	s.want(200, success, "POST", "abort", `{"gid":"u"}`)
	w.wants("failed", "")
}

// TestWatchesMissNothing: a watcher of a saga from its beginning sees every status once and in order, however fast it runs.
func TestWatchesMissNothing(t *testing.T) {
	s := serve(t, Options{})
	for range 20 {
		gid := newGid()
		s.want(200, success, "POST", "prepare", `{"gid":"`+gid+`","trans_type":"saga","steps":[{"action":"http://a/fail","compensate":"http://a/ok"}],"payloads":["{}"]}`)
		w := s.watch(gid)
		w.wants("prepared", "")
		s.want(200, success, "POST", "submit", `{"gid":"`+gid+`","trans_type":"saga"}`)
		var statuses []string
		for data := w.next(); data != ""; data = w.next() {
			_, status, _ := strings.Cut(data, `"status":"`)
			status, _, _ = strings.Cut(status, `"`)
			statuses = append(statuses, status)
		}
		if got := strings.Join(statuses, " "); got != "submitted aborting failed" {
			t.Fatalf("%s: %s", gid, got)
		}
	}
}

// TestWatchesAreBounded: so many at a time, and those that their clients leave make room.
func TestWatchesAreBounded(t *testing.T) {
	s := serve(t, Options{MaxWatchers: 2})
	s.want(200, success, "POST", "prepare", `{"gid":"t","trans_type":"tcc"}`)
	first, second := s.watch("t"), s.watch("t")
	first.wants("prepared", "")
	second.wants("prepared", "")
	if code, h, b := s.do("GET", "/watch?gid=t", ""); code != 503 || h.Get("Retry-After") == "" {
		t.Errorf("a third: %d %s", code, b)
	}
	first.end()
	wait.Until(t, "one has left", func() bool { return s.door.watching.Load() == 1 })
	s.watch("t").wants("prepared", "")
	if n := s.door.waiting.Load(); n != 2 {
		t.Errorf("%d watch", n)
	}
	close(s.stopped)
	if more := second.next(); more != "" {
		t.Errorf("from a member that has stopped: %s", more)
	}
}
