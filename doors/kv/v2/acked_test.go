package v2

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/ack/acktest"
)

// held sends a request that waits at the gate, and returns its answer, which came when all that was applied before it was archived.
func (s *server) held(line string) answer {
	s.t.Helper()
	var got answer
	acktest.Held(s.t, s.node, line, func() (err error) {
		got, err = s.try(line)
		return err
	})
	return got
}

func TestAnswersOfAnArchiveSessionWaitForTheArchive(t *testing.T) {
	t.Parallel()
	commit := serve(t, Options{Ack: ack.Dial{Archiving: true}})
	archive := commit.at("archive")
	if a := archive.held("PUT /v2/keys/a value=1"); a.status != 201 || a.header.Get("X-Raft-Index") != fmt.Sprint(commit.node.ArchivedIndex()) {
		t.Error(a)
	}
	if a := archive.held("POST /v2/keys/dir value=1"); a.status != 201 {
		t.Error(a)
	}
	// A refusal tells the state of the key, so it waits as well.
	commit.do("PUT /v2/keys/a value=2")
	if a := archive.held("PUT /v2/keys/a?prevValue=1 value=3"); a.status != 412 {
		t.Error(a)
	}
	for i, read := range []string{"GET /v2/keys/a", "GET /v2/keys/a?quorum=true", "GET /v2/keys/dir", "GET /v2/keys/none", "HEAD /v2/keys/a",
		"GET /v2/keys/a?wait=true&waitIndex=1"} {
		commit.do(fmt.Sprintf("PUT /v2/keys/a value=%d", 10+i))
		a := archive.held(read)
		if want := commit.do(read); a.String() != want.String() {
			t.Errorf("%s: %s, a session that does not wait sees %s", read, a, want)
		}
		if got, err := archive.try(read); err != nil || got.status != 404 && got.header.Get("X-Raft-Index") != fmt.Sprint(commit.node.ArchivedIndex()) {
			t.Errorf("%s shows the entry %s, %d is archived (%v)", read, got.header.Get("X-Raft-Index"), commit.node.ArchivedIndex(), err)
		}
	}
	// Calls about the members are answered while the archive is away.
	commit.do("PUT /v2/keys/a value=last")
	for _, read := range []string{"GET /v2/members", "GET /v2/machines", "GET /v2/stats/self"} {
		if a := archive.do(read); a.status != 200 {
			t.Errorf("%s: %s", read, a)
		}
	}
}

func TestEventsOfAnArchiveSessionAreArchived(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Ack: ack.Dial{Archiving: true}})
	s.do("PUT /v2/keys/a value=0")
	begin := func(path string) *long {
		req, _ := http.NewRequest(http.MethodGet, "http://"+s.addr+path, nil)
		req.Header.Set(ack.Header, "archive")
		var res *http.Response
		acktest.Held(s.t, s.node, path, func() (err error) { res, err = s.client.Do(req); return err })
		t.Cleanup(func() { res.Body.Close() })
		return &long{t: t, res: res}
	}
	poll, other := begin("/v2/keys/a?wait=true"), s.long("/v2/keys/a?wait=true")
	s.do("PUT /v2/keys/a value=1")
	other.want(`"value":"1"`)
	acktest.Held(s.t, s.node, "a poll", func() error {
		b, err := io.ReadAll(poll.res.Body)
		if err == nil && !strings.Contains(string(b), `"value":"1"`) {
			err = fmt.Errorf("%s", b)
		}
		return err
	})
	s.do("PUT /v2/keys/b value=0")
	stream := begin("/v2/keys/?wait=true&stream=true&recursive=true")
	for i := range 3 {
		s.do(fmt.Sprintf("PUT /v2/keys/b value=%d", i))
		acktest.Held(s.t, s.node, "an event", func() error {
			b := make([]byte, 4096)
			n, err := stream.res.Body.Read(b)
			if err == nil && !strings.Contains(string(b[:n]), fmt.Sprintf(`"node":{"key":"/b","value":"%d"`, i)) {
				err = fmt.Errorf("%s", b[:n])
			}
			return err
		})
	}
	// A watch that waits for the archive ends with the server.
	s.do("PUT /v2/keys/b value=last")
	wait.Until(t, "it waits", func() bool { index, _ := s.node.ArchiveWanted(); return index != 0 })
	s.handler.Close()
	if b, err := io.ReadAll(stream.res.Body); err == nil || len(b) != 0 {
		t.Errorf("%s, %v", b, err)
	}
}

func TestWrittenButNotArchived(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{RequestTimeout: 300 * time.Millisecond, Ack: ack.Dial{Archiving: true, Default: ack.Archive}})
	a := s.do("PUT /v2/keys/a value=1")
	for range 1000 { // a busy machine may not even have applied it by then, and says so
		if !strings.Contains(a.body, "request timed out") {
			break
		}
		a = s.do("PUT /v2/keys/a value=1")
	}
	st := s.node.Status()
	want := fmt.Sprintf(`504 {"errorCode":300,"message":"Raft Internal Error","cause":"written at %d.0@%d, not archived","index":0}`, st.Applied, st.Term)
	if a.String() != want {
		t.Errorf("%s\nwant %s", a, want)
	}
	s.want("GET /v2/keys/a", `500 {"errorCode":300,"message":"Raft Internal Error","cause":"etcdserver: request timed out","index":0}`)
	if a := s.at("commit").do("GET /v2/keys/a"); a.status != 200 || !strings.Contains(a.body, `"value":"1"`) {
		t.Error(a)
	}
	if a := s.at("twice").do("PUT /v2/keys/a value=2"); a.status != 400 || !strings.Contains(a.body, "holdfast-ack is commit or archive") {
		t.Error(a)
	}
	plain := serve(t, Options{})
	if a := plain.at("archive").do("PUT /v2/keys/a value=2"); a.status != 400 || !strings.Contains(a.body, "no archive") {
		t.Error(a)
	}
	if a := plain.do("GET /v2/keys/a"); a.status != 404 {
		t.Error(a)
	}
}

// TestEventsThatAreNotArchivedInTimeAreGivenBack: a watch whose time is over while its events wait for the archive is cut, and holds nothing.
func TestEventsThatAreNotArchivedInTimeAreGivenBack(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Ack: ack.Dial{Archiving: true}, WatchTimeout: 2 * time.Second})
	s.do("PUT /v2/keys/a value=0")
	req, err := http.NewRequest(http.MethodGet, "http://"+s.addr+"/v2/keys/a?wait=true&stream=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(ack.Header, "archive")
	var res *http.Response
	acktest.Held(t, s.node, "a watch", func() (err error) { res, err = s.client.Do(req); return err })
	defer res.Body.Close()
	s.do("PUT /v2/keys/a value=1")
	if b, err := io.ReadAll(res.Body); err == nil || strings.Contains(string(b), "value") {
		t.Errorf("the archive is away, and the watch is told %q, %v", b, err)
	}
}
