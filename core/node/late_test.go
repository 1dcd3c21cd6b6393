package node

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/wal"
)

// telling is a network on which everybody gives one answer.
type telling struct{ answer helloAnswer }

func (*telling) SetPeer(uint64, string, ...string)                     {}
func (*telling) RemovePeer(uint64)                                     {}
func (*telling) Send(uint64, peer.Channel, []byte) bool                { return false }
func (*telling) SendStream(uint64, func(io.Writer) error, func(error)) {}
func (*telling) ConnectedFor(uint64) int64                             { return 0 }
func (*telling) Contact(uint64) (peer.Contact, bool)                   { return peer.Contact{}, false }
func (*telling) Traffic(uint64) *peer.Traffic                          { return nil }
func (*telling) Close() error                                          { return nil }
func (*telling) Start(peer.Handler)                                    {}
func (*telling) Identify(uint64, uint64)                               {}
func (n *telling) Ask(context.Context, string, []byte) ([]byte, error) { return json.Marshal(n.answer) }

// TestAFirstMemberThatComesLate: one of the first members of a cluster is started when the others have long decided. It finds the members
// of that moment in their answer. It begins with the first state only if they are still those. Otherwise it gets the state from the others,
// like a joining member: another cluster's first state would differ from theirs.
func TestAFirstMemberThatComesLate(t *testing.T) {
	first := []emember.Member{
		{ID: 1, Name: "n1", PeerURLs: []string{"http://10.0.0.1:2380"}},
		{ID: 2, Name: "n2", PeerURLs: []string{"http://10.0.0.2:2380"}},
		{ID: 3, Name: "n3", PeerURLs: []string{"http://10.0.0.3:2380"}}}
	change := func(f func(ms []emember.Member) []emember.Member) []emember.Member {
		return f(append([]emember.Member(nil), first...))
	}
	for name, c := range map[string]struct {
		now   []emember.Member
		empty bool
	}{
		"nothing has changed": {first, false},
		"client addresses are known by now": {change(func(ms []emember.Member) []emember.Member {
			ms[0].ClientURLs = []string{"http://10.0.0.1:2379"}
			return []emember.Member{ms[2], ms[0], ms[1]}
		}), false},
		"a learner was added": {change(func(ms []emember.Member) []emember.Member {
			return append(ms, emember.Member{ID: 4, PeerURLs: []string{"http://10.0.0.4:2380"}, Learner: true})
		}), true},
		"one was removed": {first[:2], true},
		"an address is another": {change(func(ms []emember.Member) []emember.Member {
			ms[0].PeerURLs = []string{"http://10.0.0.9:2380"}
			return ms
		}), true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := house(Config{FS: disk.NewMem(), Dir: "/data", Store: func(string) (store.Store, error) { return store.NewMem(), nil }})
			cfg.defaults()
			ident := &Identity{Format: FormatVersion, Name: "n2", Member: 2, PeerAddr: "10.0.0.2:2380"}
			opt := &StartOptions{Name: "n2", PeerAddr: ident.PeerAddr, Peers: map[string]string{"n1": "10.0.0.1:2380", "n2": ident.PeerAddr},
				Notify: func(string) {}}
			net := &telling{helloAnswer{Name: "n1", Member: 1, Cluster: clusterID(first), Members: c.now}}
			if err := bootstrap(t.Context(), &cfg, net, ident, opt); err != nil {
				t.Fatal(err)
			}
			w, err := wal.Open(cfg.FS, cfg.walDir(), wal.Options{Manual: true})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			want, addr := uint64(1), ""
			if c.empty {
				want, addr = 0, dialable(c.now[0].PeerURLs)
			}
			if w.LastIndex() != want || ident.Cluster != clusterID(first) || ident.Peers[1] != addr {
				t.Errorf("the log ends at %d, want %d; cluster %x; peers %v", w.LastIndex(), want, ident.Cluster, ident.Peers)
			}
		})
	}
}
