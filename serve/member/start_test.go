package member

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/serve/admin"
)

// The line to start an added member with names the port of a member that answers, and what else its machine needs.
func TestAnAddedMemberIsToldWhomToJoin(t *testing.T) {
	t.Parallel()
	n := func(id, role, state, peer string) admin.MemberStatus {
		m := admin.MemberStatus{ID: id, Name: "n" + id, Role: role, State: state}
		if peer != "" {
			m.Peer = []string{"http://" + peer}
		}
		return m
	}
	added := n("9", "not started", "unknown", "10.0.0.9:2380")
	for _, tc := range []struct {
		name string
		all  []admin.MemberStatus
		want string
		more string // "" = the line alone
	}{
		{"the leader", []admin.MemberStatus{n("1", "follower", "ok", "10.0.0.1:2380"), n("2", "leader", "ok", "10.0.0.2:2480"), added}, "--join 10.0.0.2:2480\n", ""},
		{"one that is down comes last", []admin.MemberStatus{n("1", "follower", "unreachable", "10.0.0.1:2380"), n("2", "follower", "ok", "10.0.0.2:2480"), added}, "--join 10.0.0.2:2480\n", ""},
		{"one that was never started is none", []admin.MemberStatus{n("1", "not started", "unknown", "10.0.0.1:2380"), n("2", "learner", "unknown", "10.0.0.2:2480"), added}, "--join 10.0.0.2:2480\n", ""},
		{"nobody is known", []admin.MemberStatus{added}, "--join HOST:PORT\n", ""},
		{"a leader without a port", []admin.MemberStatus{n("1", "leader", "ok", ""), n("2", "follower", "ok", "10.0.0.2:2480"), added}, "--join 10.0.0.2:2480\n", ""},
		{"loopback", []admin.MemberStatus{n("1", "leader", "ok", "127.0.0.1:2380"), added}, "--join 127.0.0.1:2380\n", "start n1 with a --peer address that 10.0.0.9 can dial"},
		{"one machine", []admin.MemberStatus{n("1", "leader", "ok", "10.0.0.9:2380"), added}, "--join 10.0.0.9:2380\n", "n1 runs on that machine too: give --kv, --tlog, --saga and --admin ports of their own"},
	} {
		text := howToStart(&added, "10.0.0.9:2380", tc.all, []string{"kv", "tlog", "saga"})
		if !strings.Contains(text, "--peer 10.0.0.9:2380 "+tc.want) || !strings.Contains(text, tc.more) || (tc.more == "") != strings.HasSuffix(text, tc.want) {
			t.Errorf("%s: %s", tc.name, text)
		}
	}
}

// The port of clients or operators is no --peer address.
func TestAMemberIsNotAddedAtAPortForClients(t *testing.T) {
	t.Parallel()
	all := []admin.MemberStatus{{ID: "1", Name: "n1", Peer: []string{"http://10.0.0.1:2380"}, Client: []string{"https://10.0.0.1:2379", "http://10.0.0.1:2025"}}}
	for peer, want := range map[string]string{"10.0.0.1:2379": "n1 answers clients", "10.0.0.1:2025": "n1 answers clients", "10.0.0.1:8080": "--admin address",
		"10.0.0.1:2480": "", "10.0.0.2:2379": ""} {
		err := refuseClientAddress(peer, "10.0.0.1:8080", all)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "; give the --peer address")) {
			t.Errorf("%s: %v, want %q", peer, err, want)
		}
	}
}
