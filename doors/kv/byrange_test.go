package kv

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestADeleteGoesByRangeFromItsLevelOn: members of the build before would stop at it. Nothing is gained where keys are to be returned, or for one key.
func TestADeleteGoesByRangeFromItsLevelOn(t *testing.T) {
	m := newFakeMember()
	m.propose = func(context.Context) (*entry.Result, error) {
		return &entry.Result{Term: 3, Bodies: []entry.Body{{Machine: entry.MachineKV, Value: &kvpart.DeleteResult{Revision: 5}}}}, nil
	}
	c := pb.NewKVClient(serveFake(t, m, Options{}))
	for _, step := range []struct {
		level uint16
		req   *pb.DeleteRangeRequest
		want  bool
	}{
		{kvpart.ByRangeLevel - 1, &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("b")}, false},
		{kvpart.ByRangeLevel, &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("b")}, true},
		{kvpart.ByRangeLevel + 1, &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte{0}}, true},
		{kvpart.ByRangeLevel, &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("b"), PrevKv: true}, false},
		{kvpart.ByRangeLevel, &pb.DeleteRangeRequest{Key: []byte("a")}, false},
	} {
		m.mu.Lock()
		m.level = step.level
		m.mu.Unlock()
		if _, err := c.DeleteRange(context.Background(), step.req); err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		p, err := kvpart.Decode(m.parts[0].Body)
		m.mu.Unlock()
		if err != nil || p.Delete == nil || p.Delete.ByRange != step.want {
			t.Errorf("at level %d %v became %s, %v; by range should be %v", step.level, step.req, p, err, step.want)
		}
	}
}
