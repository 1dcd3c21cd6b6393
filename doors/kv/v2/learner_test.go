package v2

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/node"
)

// asLearner is a member that says it is a learner.
type asLearner struct{ *node.Node }

func (l asLearner) Status() node.Status {
	s := l.Node.Status()
	s.Learner = true
	return s
}

// A learner answers about members and health, and neither reads, watches, writes nor changes members. A client goes on to the next member
// at a 503, and v3 does the same.
func TestALearnerServesNoKeys(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.do("PUT /v2/keys/k value=v")
	s.handler.node = asLearner{s.node}
	refused := `503 {"errorCode":300,"message":"Raft Internal Error","cause":"etcdserver: rpc not supported for learner","index":0}`
	for _, line := range []string{"GET /v2/keys/k", "HEAD /v2/keys/k", "GET /v2/keys/k?quorum=true", "GET /v2/keys/k?wait=true",
		"GET /v2/keys/k?wait=true&stream=true", "PUT /v2/keys/k value=w", "POST /v2/keys/k value=w", "DELETE /v2/keys/k"} {
		want := refused
		if strings.HasPrefix(line, "HEAD") {
			want = "503 "
		}
		s.want(line, want)
	}
	before := len(s.node.Members())
	for _, line := range []string{"POST /v2/members {}", "PUT /v2/members/12 {}", "DELETE /v2/members/12"} {
		s.want(line, `503 {"message":"etcdserver: rpc not supported for learner"}`)
	}
	if n := len(s.node.Members()); n != before {
		t.Errorf("%d members, then %d", before, n)
	}
	for _, path := range []string{"/v2/members", "/v2/members/leader", "/v2/machines", "/v2/stats/store", "/v2/stats/self"} {
		if a := s.do("GET " + path); a.status != 200 {
			t.Errorf("%s: %s", path, a)
		}
	}
	s.handler.node = s.node // promoted
	if a := s.do("GET /v2/keys/k"); a.status != 200 || !strings.Contains(a.body, `"value":"v"`) || !strings.Contains(a.body, `"modifiedIndex":4`) {
		t.Errorf("after all: %s", a)
	}
}
