package saga

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/ack/acktest"
)

// asks sends a request that asks for a level.
func (s *served) asks(level, method, path, body string) (int, string) {
	s.t.Helper()
	code, _, b := s.do(method, path, body, ack.Header, level)
	return code, b
}

// calls calls a gRPC method that answers nothing, at a level.
func (s *served) calls(level, method, message, doc string) error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), ack.Metadata, level), 20*time.Second)
	defer cancel()
	b, err := proto.Marshal(typed(s.t, message, doc))
	if err != nil {
		s.t.Fatal(err)
	}
	var back []byte
	return s.conn.Invoke(ctx, "/dtmgimp.Dtm/"+method, &b, &back, grpc.ForceCodecV2(bytesCodec{}))
}

const tcc = `{"gid":%q,"trans_type":"tcc"}`

func TestAnswersOfAnArchiveSessionWaitForTheArchive(t *testing.T) {
	s := serve(t, Options{Ack: ack.Dial{Archiving: true}})
	s.want(200, success, "POST", "prepare", fmt.Sprintf(tcc, "seen")) // not archived
	for i, c := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", prefix + "prepare", fmt.Sprintf(tcc, "a"), 200},
		{"POST", prefix + "registerBranch", `{"gid":"a","branch_id":"01","trans_type":"tcc","confirm":"http://busi/ok","cancel":"http://busi/ok"}`, 200},
		{"POST", prefix + "submit", saga1("saga", "ok"), 200},
		{"POST", prefix + "submit", saga1("fails", "fail"), 409},
		{"POST", prefix + "abort", `{"gid":"a","trans_type":"tcc"}`, 200},
		{"POST", prefix + "submit", fmt.Sprintf(tcc, "a"), 409}, // a refusal tells the existing transaction
		{"POST", ownPrefix + "submit", `{"gid":"kv","trans_type":"saga","kv":{"success":[{"request_put":{"key":"YQ=="}}]}}`, 501},
		{"POST", "/api/json-rpc", `{"jsonrpc":"2.0","id":"1","method":"prepare","params":` + fmt.Sprintf(tcc, "rpc") + `}`, 200},
		{"GET", prefix + "query?gid=seen", "", 200},
		{"GET", prefix + "query?gid=none", "", 200},
		{"GET", prefix + "all?limit=3", "", 200},
	} {
		what := c.method + " " + c.path + " " + c.body
		call := func() error {
			if code, b := s.asks("archive", c.method, c.path, c.body); code != c.code {
				return fmt.Errorf("%d %s", code, b)
			}
			return nil
		}
		if c.code == 501 { // what is wrong with a request is said at once
			if err := call(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		s.want(200, success, "POST", "prepare", fmt.Sprintf(tcc, fmt.Sprint("before", i))) // by a session that does not wait
		acktest.Held(t, s, what, call)
	}
	s.want(200, success, "POST", "prepare", fmt.Sprintf(tcc, "more"))
	acktest.Held(t, s, "gRPC", func() error { return s.calls("archive", "Prepare", "DtmRequest", `{"Gid":"grpc","TransType":"tcc"}`) })
	// Calls that tell nothing of the log are answered while the archive is away.
	s.want(200, success, "POST", "prepare", fmt.Sprintf(tcc, "last"))
	for _, path := range []string{"/api/ping", "/api/metrics", prefix + "version", prefix + "newGid"} {
		if code, b := s.asks("archive", "GET", path, ""); code != 200 {
			t.Errorf("%s: %d %s", path, code, b)
		}
	}
}

func TestStatusesOfAnArchiveSessionAreArchived(t *testing.T) {
	s := serve(t, Options{Ack: ack.Dial{Archiving: true, Default: ack.Archive}})
	at := func(level, path, body string) {
		t.Helper()
		if code, b := s.asks(level, "POST", prefix+path, body); code != 200 {
			t.Fatal(code, b)
		}
	}
	at("commit", "prepare", fmt.Sprintf(tcc, "t"))
	var w *stream
	acktest.Held(t, s, "watch", func() error { w = s.watch("t"); return nil })
	w.wants("prepared", "")
	at("commit", "abort", fmt.Sprintf(tcc, "t"))
	s.passes.Wait()
	waited := 0
	for _, next := range []string{"aborting", "failed"} { // both are applied by now, in one entry or in two
		done := make(chan error, 1)
		go func() {
			got := w.next()
			if !strings.Contains(got, `"status":"`+next+`"`) {
				done <- fmt.Errorf("%s, want %s", got, next)
				return
			}
			done <- nil
		}()
		wait.Until(t, next+" is told", func() bool {
			index, _ := s.ArchiveWanted()
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
				return true
			default:
			}
			if index > s.ArchivedIndex() {
				s.SetArchived(index)
				waited++
			}
			return false
		})
	}
	if waited == 0 {
		t.Error("neither was held up by the archive")
	}
}

func TestWrittenButNotArchived(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{RequestTimeout: time.Second, Ack: ack.Dial{Archiving: true}})
	want := func() string { return fmt.Sprintf("written at %d.0@1, not archived", s.ReadIndex()) }
	if code, b := s.asks("archive", "POST", prefix+"prepare", fmt.Sprintf(tcc, "http")); code != 500 || b != `{"message":"`+want()+`"}` {
		t.Errorf("%d %s, want 500 %s", code, b, want())
	}
	rpc := `{"jsonrpc":"2.0","id":"1","method":"prepare","params":` + fmt.Sprintf(tcc, "rpc") + `}`
	if code, b := s.asks("archive", "POST", "/api/json-rpc", rpc); code != 200 || !strings.Contains(b, want()) || !strings.Contains(b, "-32603") {
		t.Errorf("%d %s, want %s", code, b, want())
	}
	err := s.calls("archive", "Prepare", "DtmRequest", `{"Gid":"grpc","TransType":"tcc"}`)
	if st := status.Convert(err); st.Code() != codes.Internal || st.Message() != want() {
		t.Errorf("%v, want %s", err, want())
	}
	for _, gid := range []string{"http", "rpc", "grpc"} {
		if s.find(gid) == nil {
			t.Errorf("%s did not take effect", gid)
		}
	}
	if code, b := s.asks("archive", "GET", prefix+"query?gid=http", ""); code != 503 || !strings.Contains(b, "cannot read now") {
		t.Errorf("%d %s", code, b)
	}
	if code, b := s.asks("archive", "GET", ownPrefix+"watch?gid=http", ""); code != 503 {
		t.Errorf("%d %s", code, b)
	}
	// A level that there is not is refused, and nothing is done.
	plain := serve(t, Options{})
	for _, c := range []struct {
		s     *served
		level string
	}{{s, "disk"}, {plain, "archive"}} {
		if code, b := c.s.asks(c.level, "POST", prefix+"prepare", fmt.Sprintf(tcc, "level")); code != 400 || !strings.Contains(b, "holdfast-ack") {
			t.Errorf("%s: %d %s", c.level, code, b)
		}
		if err := c.s.calls(c.level, "Prepare", "DtmRequest", `{"Gid":"level","TransType":"tcc"}`); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", c.level, err)
		}
		if x, err := c.s.saga.Find("level"); x != nil || err != nil {
			t.Errorf("%s: it was done (%v)", c.level, err)
		}
	}
}

// TestAWaitedOutcomeIsArchived: a submit that waits for the end of a pass tells what came of it. That is a later entry than its own, and
// archived when it is told.
func TestAWaitedOutcomeIsArchived(t *testing.T) {
	s := serve(t, Options{Ack: ack.Dial{Archiving: true}})
	for i, c := range []struct {
		endpoint string
		code     int
	}{{"ok", 200}, {"fail", 409}} {
		gid := fmt.Sprint("waited", i)
		done := make(chan error, 1)
		before := s.ReadIndex()
		go func() {
			code, b := s.asks("archive", "POST", prefix+"submit", saga1(gid, c.endpoint))
			if code != c.code {
				done <- fmt.Errorf("%s: %d %s", c.endpoint, code, b)
				return
			}
			done <- nil
		}()
		ended := uint64(0)
		wait.Until(t, "it has ended", func() bool {
			x, err := s.saga.Find(gid)
			ended = s.ReadIndex()
			return err == nil && x != nil && x.Status.Final()
		})
		if ended < before+2 {
			t.Fatalf("submit and outcome are one entry, %d", ended)
		}
		var index uint64
		wait.Until(t, "the answer waits for the archive", func() bool {
			index, _ = s.ArchiveWanted()
			return index > s.ArchivedIndex()
		})
		if index < ended {
			t.Errorf("%s: the outcome is in entry %d or before, and the answer waits for %d", c.endpoint, ended, index)
		}
		s.SetArchived(index)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
