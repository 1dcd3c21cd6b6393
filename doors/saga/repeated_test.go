package saga

import (
	"fmt"
	"strings"
	"testing"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestTheSameSentAgain: a client that heard no answer hears what it would have heard, and another transaction under its gid is refused by what
// differs.
func TestTheSameSentAgain(t *testing.T) {
	s := serve(t, Options{})
	saga := func(gid, path, payload, more string) string {
		return fmt.Sprintf(`{"gid":%q,"trans_type":"saga","steps":[{"action":"http://busi/%s","compensate":"http://busi/ok"},{"action":"http://busi/ok","compensate":"http://busi/undo"}],`+
			`"payloads":[%q,"{}"],"branch_headers":{"a":"1","b":"2"}%s}`, gid, path, payload, more)
	}
	for _, of := range []struct {
		gid, path string
		status    sagapart.Status
	}{{"done", "ok", sagapart.Succeed}, {"open", "never", sagapart.Submitted}} {
		send := func(path, payload, more string) (int, string) {
			code, _, body := s.do("POST", prefix+"submit", saga(of.gid, path, payload, more))
			return code, body
		}
		if code, body := send(of.path, "{}", ""); code != 200 {
			t.Fatalf("%s: %d %s", of.gid, code, body)
		}
		if of.status.Final() {
			s.passes.Wait()
		}
		if got := s.find(of.gid).Status; got != of.status {
			t.Fatalf("%s is %s", of.gid, got)
		}
		for _, more := range []string{"", `,"branch_headers":{"b":"2","a":"1"}`, `,"branch_headers":{"traceparent":"9"},"retry_interval":77`} {
			if code, body := send(of.path, "{}", more); code != 200 || body != success {
				t.Errorf("%s, the same again: %d %s", of.gid, code, body)
			}
		}
		if of.status.Final() {
			if code, body := send(of.path, "{}", `,"wait_result":true`); code != 200 {
				t.Errorf("%s, the same again, waiting: %d %s", of.gid, code, body)
			}
		}
		for _, other := range []struct{ path, payload, more, says string }{
			{"other", "{}", "", "another action in step 01"},
			{of.path, `{"n":1}`, "", "another payload in step 01"},
			{of.path, "{}", `,"custom_data":"{\"concurrent\":true}"`, "other custom_data"},
			{of.path, "{}", `,"protocol":"grpc"`, "its protocol is"},
			{of.path, "{}", `,"trans_type":"msg"`, "its trans_type is saga"},
			{of.path, "{}", `,"steps":[{"action":"http://busi/ok"}],"payloads":["{}"]`, "4 branches and not 2"},
		} {
			code, body := send(other.path, other.payload, other.more)
			if code != 409 || !strings.Contains(body, other.says) || !strings.Contains(body, "current status '"+of.status.String()+"', cannot sumbmit") {
				t.Errorf("%s with %s: %d %s", of.gid, other.says, code, body)
			}
		}
		if got := s.find(of.gid).Status; got != of.status {
			t.Errorf("%s is %s", of.gid, got)
		}
	}
	// A failure is final for every client.
	s.want(409, "", "POST", "submit", `{"gid":"bad","trans_type":"saga","steps":[{"action":"http://busi/fail","compensate":"http://busi/ok"}],"payloads":["{}"],"wait_result":true}`)
	if code, _, body := s.do("POST", prefix+"submit", `{"gid":"bad","trans_type":"saga","steps":[{"action":"http://busi/fail","compensate":"http://busi/ok"}],"payloads":["{}"]}`); code != 409 || !strings.Contains(body, "current status 'failed'") {
		t.Errorf("%d %s", code, body)
	}
	// A message that was prepared is submitted by its gid alone.
	s.want(200, success, "POST", "prepare", `{"gid":"m","trans_type":"msg","steps":[{"action":"http://busi/ok"}],"payloads":["{}"],"query_prepared":"http://busi/ok"}`)
	for range 2 {
		s.want(200, success, "POST", "submit", `{"gid":"m","trans_type":"msg","steps":[{"action":"http://busi/ok"}],"payloads":["{}"],"query_prepared":"http://busi/ok"}`)
		s.passes.Wait()
	}
	s.want(200, success, "POST", "submit", `{"gid":"m","trans_type":"msg"}`)
}
