package node

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// job is a queued command of a size; its sequence number is its name.
func job(lane Lane, name uint64, size int) *pending {
	return &pending{lane: lane, seq: name, size: size}
}

func newLanes(limit int) *lanes {
	l := &lanes{}
	for i := range l.limit {
		l.limit[i] = limit
	}
	return l
}

func names(ps []*pending) string {
	out := ""
	for _, p := range ps {
		out += fmt.Sprintf("%d ", p.seq)
	}
	return out
}

func TestLaneIsBoundedInBytes(t *testing.T) {
	l := newLanes(100)
	if !l.push(job(LaneKV, 1, 500)) {
		t.Fatal("a command larger than the bound must fit into an empty lane, or it could never go")
	}
	if l.push(job(LaneKV, 2, 1)) {
		t.Fatal("a full lane took more")
	}
	if !l.push(job(LaneSystem, 3, 100)) {
		t.Fatal("a full lane closed another")
	}
	if got := names(l.take(nil, LaneKV, 1000, 10)); got != "3 1 " {
		t.Fatalf("took %s", got)
	}
	for range 10 {
		if !l.push(job(LaneKV, 4, 10)) {
			t.Fatal("refused below the bound")
		}
	}
	if l.push(job(LaneKV, 5, 10)) {
		t.Fatal("taken over the bound")
	}
	if got := l.usage(); got[LaneKV] != 100 || got[LaneSystem] != 0 {
		t.Fatalf("usage %v", got)
	}
}

// The system lane goes first, whatever waits in the others: leases and membership are never starved by a bulk load.
func TestSystemLaneGoesFirst(t *testing.T) {
	l := newLanes(1 << 20)
	for i := range uint64(5) {
		l.push(job(LaneKV, i, 10))
	}
	l.push(job(LaneSystem, 100, 10))
	l.push(job(LaneSystem, 101, 10))
	if got := names(l.take(nil, LaneSystem, 1000, 1)); got != "100 " { // the others may be held back
		t.Fatalf("took %s", got)
	}
	l.push(job(LaneSystem, 102, 10))
	if got := names(l.take(nil, LaneKV, 40, 10)); got != "101 102 0 1 " {
		t.Fatalf("took %s", got)
	}
	if got := names(l.take(nil, LaneKV, 1<<20, 2)); got != "2 3 " {
		t.Fatalf("took %s", got)
	}
	if got := names(l.take(nil, LaneKV, 1, 10)); got != "4 " {
		t.Fatalf("took %q: one command always goes", got)
	}
	if got := l.take(nil, LaneKV, 1<<20, 10); len(got) != 0 {
		t.Fatalf("took %s of nothing", names(got))
	}
}

// What could not be proposed goes back in front, in order, over the bound if need be.
func TestUnshiftKeepsOrder(t *testing.T) {
	l := newLanes(30)
	for i := range uint64(3) {
		l.push(job(LaneKV, i, 10))
	}
	taken := l.take(nil, LaneKV, 1000, 2)
	l.push(job(LaneKV, 3, 20))
	l.unshift(taken)
	if u := l.usage(); u[LaneKV] != 50 {
		t.Fatalf("usage %v", u)
	}
	if got := names(l.take(nil, LaneKV, 1000, 10)); got != "0 1 2 3 " {
		t.Fatalf("took %s", got)
	}
}

// Against a model: every command that was taken in comes out once, in the order of its lane, and the byte counts return to zero.
func TestLanesAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := newLanes(2000)
	var model [laneCount][]uint64
	var bytes [laneCount]int
	size := map[uint64]int{}
	next := uint64(0)
	for range 20_000 {
		switch rng.IntN(3) {
		case 0, 1:
			p := job(Lane(rng.IntN(laneCount)), next, 1+rng.IntN(300))
			want := bytes[p.lane] == 0 || bytes[p.lane]+p.size <= 2000
			if got := l.push(p); got != want {
				t.Fatalf("push of %d bytes onto %d: %v", p.size, bytes[p.lane], got)
			}
			if want {
				model[p.lane] = append(model[p.lane], next)
				bytes[p.lane] += p.size
				size[next] = p.size
				next++
			}
		case 2:
			taken := l.take(nil, LaneKV, 1+rng.IntN(2000), 1+rng.IntN(20))
			for _, p := range taken {
				if len(model[p.lane]) == 0 || model[p.lane][0] != p.seq {
					t.Fatalf("lane %d gave %d, due was %v", p.lane, p.seq, model[p.lane])
				}
				model[p.lane] = model[p.lane][1:]
				bytes[p.lane] -= p.size
			}
			if rng.IntN(4) == 0 { // the proposal was refused
				l.unshift(taken)
				for i := len(taken) - 1; i >= 0; i-- {
					p := taken[i]
					model[p.lane] = append([]uint64{p.seq}, model[p.lane]...)
					bytes[p.lane] += p.size
				}
			}
		}
		if got := l.usage(); got != bytes {
			t.Fatalf("usage %v, want %v", got, bytes)
		}
		if want := int64(len(model[0]) + len(model[1])); l.queued.Load() != want {
			t.Fatalf("%d queued, want %d", l.queued.Load(), want)
		}
	}
}

// A lane that is never empty, under lasting overload, costs what waits in it and not what ever went through it.
func TestBusyLaneDoesNotGrow(t *testing.T) {
	l := newLanes(1 << 20)
	for i := range uint64(100) {
		l.push(job(LaneKV, i, 1))
	}
	var taken []*pending
	for i := range uint64(1_000_000) {
		l.push(job(LaneKV, 100+i, 1))
		if taken = l.take(taken[:0], LaneKV, 1, 1); taken[0].seq != i {
			t.Fatalf("took %d, due was %d", taken[0].seq, i)
		}
	}
	if c := cap(l.q[LaneKV]); c > 1000 {
		t.Fatalf("room for %d where 100 wait", c)
	}
}
