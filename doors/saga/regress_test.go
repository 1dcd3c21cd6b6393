package saga

import (
	"strings"
	"testing"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// Bugs of the original, by the number of their issue or their letter in the reference. Here they must not be.

// TestIssue549WorkflowProgressIsRecorded: DTM on redis and boltdb lost the progress of a workflow whose client had not said sync.
func TestIssue549WorkflowProgressIsRecorded(t *testing.T) {
	s := serve(t, Options{})
	s.want(200, "", "POST", "prepareWorkflow", `{"gid":"w","trans_type":"workflow","custom_data":"{\"name\":\"n\"}"}`)
	s.want(200, success, "POST", "registerBranch", `{"gid":"w","trans_type":"workflow","branch_id":"01","op":"action","status":"succeed","data":"result"}`)
	_, _, b := s.do("POST", prefix+"prepareWorkflow", `{"gid":"w","trans_type":"workflow"}`)
	if !strings.Contains(b, `"bin_data":"cmVzdWx0"`) || !strings.Contains(b, `"status":"succeed"`) {
		t.Errorf("the step is gone: %s", b)
	}
}

// TestDefectAGidThatBeginsAnother: DTM's default store lost branches of a gid that is the beginning of another one's.
func TestDefectAGidThatBeginsAnother(t *testing.T) {
	s := serve(t, Options{})
	for _, gid := range []string{"order-100", "order-10", "order-1", "order-1000"} {
		s.want(200, success, "POST", "submit", `{"gid":"`+gid+`","trans_type":"saga","steps":[{"action":"http://a/ok","compensate":"http://a/`+gid+`"},{"action":"http://b/ok","compensate":"http://b/ok"}],"payloads":["1","2"],"wait_result":true}`)
	}
	for _, gid := range []string{"order-1", "order-10", "order-100", "order-1000"} {
		if saga := s.find(gid); len(saga.Branches) != 4 || saga.Branches[0].URL != "http://a/"+gid {
			t.Errorf("%s has branches %+v", gid, saga.Branches)
		}
		if _, _, b := s.do("GET", prefix+"query?gid="+gid, ""); strings.Count(b, `"branch_id"`) != 4 || strings.Count(b, `"status":"succeed"`) != 3 {
			t.Errorf("%s is shown as %s", gid, b)
		}
	}
	// The tcc that was answered SUCCESS without a single confirmation.
	for _, gid := range []string{"pay-200", "pay-2"} {
		s.want(200, success, "POST", "prepare", `{"gid":"`+gid+`","trans_type":"tcc"}`)
		for _, branch := range []string{"01", "02"} {
			s.want(200, success, "POST", "registerBranch", `{"gid":"`+gid+`","trans_type":"tcc","branch_id":"`+branch+`","data":"{}","confirm":"http://a/ok","cancel":"http://a/ok"}`)
		}
	}
	s.want(200, success, "POST", "submit", `{"gid":"pay-2","trans_type":"tcc","wait_result":true}`)
	confirmed := 0
	for _, b := range s.find("pay-2").Branches {
		if b.Op == sagapart.OpConfirm && b.Status == sagapart.Succeed {
			confirmed++
		}
	}
	if confirmed != 2 || s.find("pay-200").Status != sagapart.Prepared {
		t.Errorf("%d branches confirmed, the other one is %s", confirmed, s.find("pay-200").Status)
	}
}

// TestAnUnsubscribedTopicIsNotSentTo: DTM reads topics into a cache from which nothing is ever taken away.
func TestAnUnsubscribedTopicIsNotSentTo(t *testing.T) {
	s := serve(t, Options{})
	message := func(gid string) string {
		return `{"gid":"` + gid + `","trans_type":"msg","steps":[{"action":"topic://news"}],"payloads":["{}"],"wait_result":true}`
	}
	s.want(200, success, "GET", "subscribe?topic=news&url=http://a/ok", "")
	s.want(200, success, "GET", "subscribe?topic=news&url=http://b/ok", "")
	s.want(200, success, "POST", "submit", message("both"))
	s.want(200, success, "GET", "unsubscribe?topic=news&url=http://a/ok", "")
	s.want(200, success, "POST", "submit", message("one"))
	if all := s.find("one").Branches; len(all) != 1 || all[0].URL != "http://b/ok" || all[0].ID != "01" {
		t.Errorf("sent to %+v", all)
	}
	s.want(200, success, "DELETE", "topic/news", "")
	s.want(500, `{"message":"topic not found"}`, "POST", "submit", message("none"))
	// A message that was prepared goes to whom it was prepared for: what is in the log does not change.
	if all := s.find("both").Branches; len(all) != 2 {
		t.Errorf("%+v", all)
	}
}

// TestAGidIsNoSQL: DTM builds a statement out of the gid of resetNextCronTime.
func TestAGidIsNoSQL(t *testing.T) {
	s := serve(t, Options{})
	s.want(425, "", "POST", "submit", saga1("kept", "ongoing"))
	s.want(500, `{"message":"no TransGlobal with gid: x' or 'a'='a found"}`, "POST", "resetNextCronTime", `{"gid":"x' or 'a'='a"}`)
	if due := s.find("kept").DueTick; due != 10_000 {
		t.Errorf("the other one is due at %d", due)
	}
	s.want(200, success, "POST", "submit", strings.Replace(saga1("g", "ok"), `"g"`, `"a;b' \u0026\u003d/?"`, 1))
	if _, _, b := s.do("GET", prefix+"query?gid=a%3Bb%27%20%26%3D%2F%3F", ""); !strings.Contains(b, `"status":"succeed"`) {
		t.Error(b)
	}
}
