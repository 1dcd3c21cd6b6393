package saga

import (
	"encoding/json"
	"strings"
	"testing"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestOperatorsSeeAttemptsAndErrors on paths of their own; DTM's rows stay as they are. One that was stopped has a reason and no error.
func TestOperatorsSeeAttemptsAndErrors(t *testing.T) {
	leads := true
	s := serve(t, Options{Leader: func() string { return "n2" }, Trouble: func(number uint64, _ sagapart.Status) (of Trouble, l bool) {
		if number == 0 || !leads {
			return of, leads
		}
		return Trouble{URL: "http://b/pack", Text: "connection refused", Call: Call{URL: "http://b/pack", Op: "action", BranchID: "01", Running: true}}, leads
	}})
	s.want(425, "", "POST", "submit", saga1("slow", "ongoing"))
	s.passed()
	type row struct {
		Attempts                uint32
		Status, Rollback_reason string
		Last_error              *string
		Last_error_url          *string
		Last_call               *shownCall
	}
	get := func(path string) (leads bool, r row) {
		t.Helper()
		code, _, body := s.do("GET", path, "")
		var a struct {
			Leads        bool
			Leader       string
			Transaction  *row
			Transactions []row
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil || code != 200 || a.Leader != "n2" {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		if a.Transaction != nil {
			return a.Leads, *a.Transaction
		}
		return a.Leads, a.Transactions[0]
	}
	paths := []string{ownPrefix + "all", ownPrefix + "query?gid=slow"}
	for _, path := range paths {
		if l, r := get(path); !l || r.Attempts != 1 || r.Last_error == nil || *r.Last_error != "connection refused" || *r.Last_error_url != "http://b/pack" ||
			r.Last_call == nil || r.Last_call.Time.IsZero() || r.Last_call.URL != "http://b/pack" || r.Last_call.Op != "action" || r.Last_call.BranchID != "01" || !r.Last_call.UnderWay {
			t.Errorf("%s on the leader: %v %+v", path, l, r)
		}
	}
	leads = false
	for _, path := range paths {
		if l, r := get(path); l || r.Attempts != 1 || r.Last_error != nil || r.Last_error_url != nil || r.Last_call != nil {
			t.Errorf("%s on another member: %v %+v", path, l, r)
		}
	}
	leads = true
	for _, path := range []string{prefix + "all", prefix + "query?gid=slow"} {
		if _, _, body := s.do("GET", path, ""); strings.Contains(body, "attempts") || strings.Contains(body, "last_") {
			t.Errorf("%s has fields that DTM has not: %s", path, body)
		}
	}
	s.want(200, success, "POST", "forceStop", `{"gid":"slow"}`)
	for _, path := range paths {
		if _, r := get(path); r.Status != "failed" || r.Rollback_reason != forceStopped || r.Last_error != nil {
			t.Errorf("%s of what was stopped: %+v", path, r)
		}
	}
}
