package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// dice draws requests of one script. Keys, values and revisions are few, so that requests meet; odd ones are rare, so that
// most requests get beyond the first check.
type dice struct {
	r      *rand.Rand
	prefix string
	script int

	revision  int64   // the last one heard of, relative to the script's first
	compacted int64   // the last compacted revision, likewise; far below zero if the script has not compacted
	leases    []int64 // asked for in this script, whether or not granted: ids, or marks
	named     int     // leases whose id the server chose
}

func newDice(r *rand.Rand, script int) *dice {
	return &dice{r: r, prefix: fmt.Sprintf("s%d/", script), script: script, compacted: math.MinInt32}
}

func (d *dice) chance(percent int) bool { return d.r.IntN(100) < percent }

// rarely is once in a thousand.
func (d *dice) rarely(n int) bool { return d.r.IntN(1000) < n }

func one[T any](d *dice, of ...T) T { return of[d.r.IntN(len(of))] }

func (d *dice) name() string {
	if d.rarely(3) {
		return d.prefix + strings.Repeat("k", 5000)
	}
	return d.prefix + one(d, "a", "b", "c", "d", "a", "b", "c", "a/b", "a\x00", "", "ü", "\xff\xfe")
}

func (d *dice) key() []byte {
	if d.chance(2) {
		return one(d, nil, []byte{}, []byte{0}, []byte{0xff}, []byte{0, 0}, []byte(strings.TrimSuffix(d.prefix, "/")))
	}
	return []byte(d.name())
}

// end draws the end of a range that begins at key: none, the prefix's, a key's (often before key), the last.
func (d *dice) end(key []byte) []byte {
	switch k := d.r.IntN(100); {
	case k < 30:
		return nil
	case k < 65:
		return []byte(strings.TrimSuffix(d.prefix, "/") + "0")
	case k < 85:
		return []byte(d.name())
	case k < 92:
		return []byte{0}
	case k < 95:
		return bytes.Clone(key)
	case k < 97:
		return append(bytes.Clone(key), 0)
	}
	return one(d, []byte{}, []byte{0, 0}, []byte{0xff}, []byte{0xff, 0xff, 0xff})
}

func (d *dice) value() []byte {
	if d.rarely(4) {
		return bytes.Repeat([]byte{byte(d.r.IntN(256))}, one(d, 1000, 70_000, 700_000))
	}
	return []byte(one(d, "v1", "v2", "v3", "v1", "v2", "", "\x00\xff", "ünï"))
}

// at draws a revision of the script.
func (d *dice) at() int64 { return revisionMark + d.r.Int64N(max(d.revision, 0)+3) }

// readAt draws a revision to read at.
func (d *dice) readAt() int64 {
	switch k := d.r.IntN(100); {
	case k < 55:
		return 0
	case k < 90:
		return d.at()
	case k < 94 && d.compacted > 0:
		return revisionMark + d.compacted + d.r.Int64N(3) - 1
	}
	return one(d, -1, -2, 1, revisionMark-1, revisionMark+d.revision+1, math.MaxInt64, math.MinInt64)
}

func (d *dice) readRange() *pb.RangeRequest {
	key := d.key()
	r := &pb.RangeRequest{Key: key, RangeEnd: d.end(key), Revision: d.readAt(), Serializable: d.chance(25), KeysOnly: d.chance(15), CountOnly: d.chance(10)}
	if d.chance(35) {
		r.Limit = one(d, int64(1), 2, 3, 5, 1, 2, 11, 100, -1, math.MaxInt64, math.MinInt64)
	}
	if d.chance(40) {
		r.SortOrder = pb.RangeRequest_SortOrder(d.r.IntN(3))
		r.SortTarget = pb.RangeRequest_SortTarget(d.r.IntN(5))
	}
	if d.rarely(8) {
		r.SortOrder = one(d, pb.RangeRequest_SortOrder(3), -1, 256, 0)
		r.SortTarget = one(d, pb.RangeRequest_SortTarget(5), -1, 256, 0)
	}
	if d.chance(15) {
		for _, p := range []*int64{&r.MinModRevision, &r.MaxModRevision, &r.MinCreateRevision, &r.MaxCreateRevision} {
			if d.chance(35) {
				*p = d.at()
			}
			if d.rarely(10) {
				*p = one(d, int64(-1), math.MaxInt64, math.MinInt64)
			}
		}
	}
	return r
}

// streamed draws a Range to be streamed, mostly without the options that a stream refuses.
func (d *dice) streamed() *pb.RangeRequest {
	r := d.readRange()
	if d.chance(80) {
		r.SortOrder, r.SortTarget = pb.RangeRequest_SortOrder(d.r.IntN(2)), pb.RangeRequest_KEY
		r.MinModRevision, r.MaxModRevision, r.MinCreateRevision, r.MaxCreateRevision = 0, 0, 0, 0
	}
	return r
}

func (d *dice) put() *pb.PutRequest {
	p := &pb.PutRequest{Key: d.key(), Value: d.value(), PrevKv: d.chance(30)}
	if d.chance(12) {
		p.Lease = d.lease()
	}
	if d.chance(6) {
		p.IgnoreValue = true
		if d.chance(80) {
			p.Value = nil
		}
	}
	if d.chance(6) {
		p.IgnoreLease = true
		if d.chance(80) {
			p.Lease = 0
		}
	}
	return p
}

func (d *dice) delete() *pb.DeleteRangeRequest {
	key := d.key()
	r := &pb.DeleteRangeRequest{Key: key, PrevKv: d.chance(40)}
	if d.chance(50) {
		r.RangeEnd = d.end(key)
	}
	return r
}

// lease draws the id of a lease of this script, rarely of none.
func (d *dice) lease() int64 {
	if len(d.leases) == 0 || d.chance(8) {
		return one(d, int64(1), -1, 404, math.MaxInt64, math.MinInt64)
	}
	return one(d, d.leases...)
}

func (d *dice) grant() *pb.LeaseGrantRequest {
	g := &pb.LeaseGrantRequest{TTL: one(d, int64(1000), 500, 60, 100_000)}
	switch k := d.r.IntN(100); {
	case k < 50:
		g.ID = int64(d.script)*1000 + 7_000_000 + d.r.Int64N(4)
	case k < 52:
		g.ID = -(int64(d.script)*1000 + 7_000_000)
	}
	if d.rarely(40) {
		g.TTL = one(d, int64(9_000_000_000), 9_000_000_001, math.MaxInt64, 8_999_999_999)
	}
	if g.ID == 0 {
		d.leases = append(d.leases, leaseMark+int64(d.named))
		d.named++
	} else {
		d.leases = append(d.leases, g.ID)
	}
	return g
}

func (d *dice) compact() *pb.CompactionRequest {
	c := &pb.CompactionRequest{Physical: d.chance(50), Revision: d.at()}
	switch k := d.r.IntN(100); {
	case k < 20:
		c.Revision = revisionMark + d.revision
	case k < 30:
		c.Revision = revisionMark + d.revision + 1
	case k < 40:
		c.Revision = one(d, int64(0), -1, 1, math.MaxInt64, math.MinInt64)
	}
	return c
}

func (d *dice) watch() *pb.WatchCreateRequest {
	key := d.key()
	w := &pb.WatchCreateRequest{Key: key, RangeEnd: d.end(key), PrevKv: d.chance(35), Fragment: d.chance(15), ProgressNotify: d.chance(10)}
	switch k := d.r.IntN(100); {
	case k < 45:
	case k < 82:
		w.StartRevision = d.at()
	case k < 90:
		w.StartRevision = revisionMark + d.revision + 1 + d.r.Int64N(4)
	case k < 94 && d.compacted > 0:
		w.StartRevision = revisionMark + d.compacted + d.r.Int64N(3) - 1
	case k < 95:
		w.StartRevision = one(d, int64(-1), math.MinInt64, math.MaxInt64, 1)
	}
	if d.chance(15) {
		w.Filters = append(w.Filters, one(d, pb.WatchCreateRequest_NOPUT, pb.WatchCreateRequest_NODELETE, 2))
	}
	if d.chance(3) {
		w.Filters = append(w.Filters, pb.WatchCreateRequest_NOPUT, pb.WatchCreateRequest_NODELETE)
	}
	if d.chance(12) {
		w.WatchId = one(d, int64(1), 2, 3, 7, 100, -2, math.MaxInt64)
	}
	return w
}
