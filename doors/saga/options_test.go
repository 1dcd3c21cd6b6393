package saga

import (
	"fmt"
	"testing"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestOptionsOfASubmitWaitForTheLevel: below it a submit leaves a prepared transaction's options, because a member of the previous build
// would stop at the part with new ones. From it on the options are taken, for every mode that is prepared.
func TestOptionsOfASubmitWaitForTheLevel(t *testing.T) {
	s := serve(t, Options{})
	for _, level := range []uint16{sagapart.Level, sagapart.SubmitLevel - 1, sagapart.SubmitLevel, sagapart.SubmitLevel + 1} {
		s.level.Store(uint32(level))
		for _, mode := range []string{"msg", "tcc", "xa", "saga"} {
			gid := fmt.Sprintf("%s-%d", mode, level)
			steps := ""
			switch mode {
			case "msg":
				steps = `,"steps":[{"action":"http://b/never"}],"payloads":["{}"]`
			case "saga":
				steps = `,"steps":[{"action":"http://b/never","compensate":"http://b/ok"}],"payloads":["{}"]`
			}
			s.want(200, `{"dtm_result":"SUCCESS"}`, "POST", "prepare", `{"gid":"`+gid+`","trans_type":"`+mode+`"`+steps+`}`)
			s.want(200, `{"dtm_result":"SUCCESS"}`, "POST", "submit", `{"gid":"`+gid+`","trans_type":"`+mode+`"`+steps+`,"branch_headers":{"X-Tenant":"t1"},"concurrent":true,"request_timeout":9}`)
			s.passed()
			got := s.find(gid)
			taken := len(got.Headers) == 1 && got.Headers[0] == sagapart.Header{Name: "X-Tenant", Value: "t1"} && got.Options.Concurrent && got.Options.RequestTimeoutMs == 9000
			left := len(got.Headers) == 0 && got.Options == sagapart.Options{}
			if got.Status == sagapart.Prepared || level >= sagapart.SubmitLevel && !taken || level < sagapart.SubmitLevel && !left {
				t.Errorf("level %d: %s is %s with %+v, headers %v", level, gid, got.Status, got.Options, got.Headers)
			}
		}
	}
}
