package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

func pages(keys ...string) *scanner {
	s := &scanner{ended: true}
	for _, k := range keys {
		s.page = append(s.page, &mvccpb.KeyValue{Key: []byte(k)})
	}
	return s
}

func TestJoinMeetsEveryKeyOnce(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"a c d", "b c e", "a- -b cc d- -e"},
		{"", "a b", "-a -b"},
		{"a b", "", "a- b-"},
		{"a", "a", "aa"},
		{"", "", ""},
	} {
		var got []string
		name := func(kv *mvccpb.KeyValue) string {
			if kv == nil {
				return "-"
			}
			return string(kv.Key)
		}
		err := join(context.Background(), pages(strings.Fields(c.a)...), pages(strings.Fields(c.b)...), func(a, b *mvccpb.KeyValue) error {
			got = append(got, name(a)+name(b))
			return nil
		})
		if s := strings.Join(got, " "); err != nil || s != c.want {
			t.Errorf("%q with %q: %q, %v; want %q", c.a, c.b, s, err, c.want)
		}
	}
	n := 0
	err := join(context.Background(), pages("a"), nil, func(_, b *mvccpb.KeyValue) error { n++; return nil })
	if err != nil || n != 1 {
		t.Errorf("an empty side: %d, %v", n, err)
	}
}

func TestABatchHoldsTheLastStateOfEachKey(t *testing.T) {
	var b batch
	b.add(op{key: []byte("a"), value: []byte("1")})
	b.add(op{key: []byte("b"), value: []byte("2")})
	b.add(op{key: []byte("a"), gone: true})
	if len(b.ops) != 2 || !b.ops[0].gone || b.bytes != b.ops[0].size()+b.ops[1].size() {
		t.Errorf("%+v", b)
	}
	if !b.fits(batchOps-2, 1) || b.fits(batchOps-1, 1) || b.fits(1, batchBytes) {
		t.Error("the bounds of a batch")
	}
	var empty batch
	if !empty.fits(1, 2*batchBytes) {
		t.Error("a value larger than a batch has to go alone")
	}
}

// A revision must reach the target in one piece, however the source cut it into messages, and nothing beyond the cut-over may.
func TestRevisionsStayWholeAndNothingPassesTheCutOver(t *testing.T) {
	ctx := context.Background()
	key := 0
	message := func(more bool, revisions ...int64) *etcdserverpb.WatchResponse {
		r := &etcdserverpb.WatchResponse{Fragment: more}
		for _, rev := range revisions {
			key++
			kv := &mvccpb.KeyValue{Key: fmt.Appendf(nil, "%d", key), ModRevision: rev}
			r.Events = append(r.Events, &mvccpb.Event{Kv: kv})
		}
		return r
	}
	f := &follower{run: &run{}, until: 7}
	for _, step := range []struct {
		r           *etcdserverpb.WatchResponse
		batch, rest int
		last        int64
	}{
		{&etcdserverpb.WatchResponse{Created: true}, 0, 0, 0},
		{message(false, 5), 1, 0, 5},
		{message(true, 6, 6), 1, 2, 5},
		{message(true, 6, 7), 4, 1, 6},
		{message(false, 7, 8, 9), 6, 0, 7},
		{message(false, 10), 6, 0, 7},
	} {
		if err := f.message(ctx, step.r); err != nil {
			t.Fatal(err)
		}
		if len(f.b.ops) != step.batch || len(f.whole) != step.rest || f.bRev != step.last {
			t.Errorf("after %v: %d in the batch up to revision %d, %d received; want %d, %d, %d", step.r, len(f.b.ops), f.bRev, len(f.whole),
				step.batch, step.last, step.rest)
		}
	}
	if err := f.message(ctx, &etcdserverpb.WatchResponse{Canceled: true, CompactRevision: 9}); err == nil {
		t.Error("a compacted watch goes on")
	}
}

// A node whose time is up shows that it ends, but no time left, until the server comes to remove it.
func TestANodeThatIsAboutToEndIsNotOneThatStays(t *testing.T) {
	for body, want := range map[string]int64{
		`{"key":"/a","expiration":"2026-01-01T00:00:00Z"}`:            1,
		`{"key":"/a","expiration":"2026-01-01T00:00:00Z","ttl":-2}`:   1,
		`{"key":"/a","expiration":"2026-01-01T00:00:00Z","ttl":1000}`: 1000,
		`{"key":"/a"}`: 0,
	} {
		var n treeNode
		if err := json.Unmarshal([]byte(body), &n); err != nil || n.mortal().TTL != want {
			t.Errorf("%s: %d s, %v; want %d", body, n.mortal().TTL, err, want)
		}
	}
}
