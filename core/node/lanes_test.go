package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
)

// job is a queued command of a size; its sequence number is its name.
func job(lane Lane, name uint64, size int) *pending {
	return &pending{lane: lane, seq: name, size: size}
}

// testLanes are the system lane and two of doors, with one bound for all.
func testLanes(limit int) *lanes {
	l, err := newLanes([]LaneSpec{{Number: LaneKV, Name: "kv"}, {Number: LaneTlog, Name: "tlog"}}, limit)
	if err != nil {
		panic(err)
	}
	l.of[LaneSystem].limit = limit
	return l
}

// waiting is what waits in one lane.
func (l *lanes) waiting(number Lane) int { return l.of[number].bytes }

const laneCount = 3

func names(ps []*pending) string {
	out := ""
	for _, p := range ps {
		out += fmt.Sprintf("%d ", p.seq)
	}
	return out
}

func TestLaneIsBoundedInBytes(t *testing.T) {
	l := testLanes(100)
	if !l.push(job(LaneKV, 1, 500)) {
		t.Fatal("a command larger than the bound must fit into an empty lane, or it could never go")
	}
	if l.push(job(LaneKV, 2, 1)) {
		t.Fatal("a full lane took more")
	}
	if !l.push(job(LaneSystem, 3, 100)) {
		t.Fatal("a full lane closed another")
	}
	if got := names(l.take(nil, l.last(), 1000, 10)); got != "3 1 " {
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
	if want := []LaneUse{{"system", 0}, {"kv", 100}, {"tlog", 0}}; !slices.Equal(l.usage(), want) {
		t.Fatalf("usage %v, want %v", l.usage(), want)
	}
}

// The system lane goes first, with anything waiting in the others: leases and membership are never starved by a bulk load.
func TestSystemLaneGoesFirst(t *testing.T) {
	l := testLanes(1 << 20)
	for i := range uint64(5) {
		l.push(job(LaneKV, i, 10))
	}
	l.push(job(LaneSystem, 100, 10))
	l.push(job(LaneSystem, 101, 10))
	if got := names(l.take(nil, LaneSystem, 1000, 1)); got != "100 " { // the others may be held back
		t.Fatalf("took %s", got)
	}
	l.push(job(LaneSystem, 102, 10))
	if got := names(l.take(nil, l.last(), 40, 10)); got != "101 102 0 1 " {
		t.Fatalf("took %s", got)
	}
	if got := names(l.take(nil, l.last(), 1<<20, 2)); got != "2 3 " {
		t.Fatalf("took %s", got)
	}
	if got := names(l.take(nil, l.last(), 1, 10)); got != "4 " {
		t.Fatalf("took %q: one command always goes", got)
	}
	if got := l.take(nil, l.last(), 1<<20, 10); len(got) != 0 {
		t.Fatalf("took %s of nothing", names(got))
	}
}

// Commands that could not be proposed go back in front, in order, over the bound if need be.
func TestUnshiftKeepsOrder(t *testing.T) {
	l := testLanes(30)
	for i := range uint64(3) {
		l.push(job(LaneKV, i, 10))
	}
	taken := l.take(nil, l.last(), 1000, 2)
	l.push(job(LaneKV, 3, 20))
	l.unshift(taken)
	if l.waiting(LaneKV) != 50 {
		t.Fatalf("usage %v", l.usage())
	}
	if got := names(l.take(nil, l.last(), 1000, 10)); got != "0 1 2 3 " {
		t.Fatalf("took %s", got)
	}
}

// Against a model: every command that was taken in comes out once, in the order of its lane, and the byte counts return to zero.
func TestLanesAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := testLanes(2000)
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
			taken := l.take(nil, l.last(), 1+rng.IntN(2000), 1+rng.IntN(20))
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
		if got := [laneCount]int{l.waiting(0), l.waiting(1), l.waiting(2)}; got != bytes || l.total() != bytes[0]+bytes[1]+bytes[2] {
			t.Fatalf("usage %v, want %v", got, bytes)
		}
		if want := int64(len(model[0]) + len(model[1]) + len(model[2])); l.queued.Load() != want {
			t.Fatalf("%d queued, want %d", l.queued.Load(), want)
		}
	}
}

// A lane that is never empty, under lasting overload, costs what waits in it and not what ever went through it.
func TestBusyLaneDoesNotGrow(t *testing.T) {
	l := testLanes(1 << 20)
	for i := range uint64(100) {
		l.push(job(LaneKV, i, 1))
	}
	var taken []*pending
	for i := range uint64(1_000_000) {
		l.push(job(LaneKV, 100+i, 1))
		if taken = l.take(taken[:0], l.last(), 1, 1); taken[0].seq != i {
			t.Fatalf("took %d, due was %d", taken[0].seq, i)
		}
	}
	if c := cap(l.of[LaneKV].q); c > 1000 {
		t.Fatalf("room for %d where 100 wait", c)
	}
}

// The doors share the log by bytes. A bulk load through one, whose commands are a thousand times as large, leaves the other half of every
// stretch of the log. The other way round is the same.
func TestDoorsShareByBytes(t *testing.T) {
	l := testLanes(1 << 30)
	for range 200 {
		l.push(job(LaneTlog, 0, 512<<10))
	}
	for range 300_000 {
		l.push(job(LaneKV, 1, 300))
	}
	var got [laneCount]int
	for range 24 {
		for _, p := range l.take(nil, l.last(), packBytes, 1<<20) {
			got[p.lane] += p.size
		}
		if off := got[LaneTlog] - got[LaneKV]; off > 512<<10 || off < -512<<10 {
			t.Fatalf("after %d bytes of one and %d of the other", got[LaneTlog], got[LaneKV])
		}
	}
	// With at most so many commands in an entry the small ones fill some entries alone, and it comes to the same.
	for range 100 {
		for _, p := range l.take(nil, l.last(), packBytes, packCount) {
			got[p.lane] += p.size
		}
	}
	if off := got[LaneTlog] - got[LaneKV]; off > 512<<10 || off < -512<<10 || l.waiting(LaneTlog) == 0 || l.waiting(LaneKV) == 0 {
		t.Errorf("%d bytes of one and %d of the other; %v left", got[LaneTlog], got[LaneKV], l.usage())
	}
}

// However long a lane was alone, commands of the other go into the next entry; and idle time gives no claim to more than half.
func TestIdlenessIsNoClaim(t *testing.T) {
	for _, lanes := range [][2]Lane{{LaneKV, LaneTlog}, {LaneTlog, LaneKV}} {
		busy, idle := lanes[0], lanes[1]
		l := testLanes(1 << 30)
		l.push(job(idle, 0, 10))
		for range 10_000 {
			l.push(job(busy, 0, 400<<10))
		}
		for range 1000 { // the other has been empty for long
			l.take(nil, l.last(), packBytes, packCount)
		}
		l.push(job(idle, 7, 100))
		found := false
		for _, p := range l.take(nil, l.last(), packBytes, packCount) {
			found = found || p.seq == 7
		}
		if !found {
			t.Fatalf("a command in lane %d waits behind a bulk load in lane %d", idle, busy)
		}
		for range 1000 {
			l.push(job(idle, 8, 400<<10))
		}
		var got [laneCount]int
		for range 20 {
			for _, p := range l.take(nil, l.last(), packBytes, packCount) {
				got[p.lane] += p.size
			}
		}
		if off := got[idle] - got[busy]; off > 800<<10 || off < -800<<10 { // a command of each
			t.Errorf("%d bytes of lane %d beside %d of lane %d", got[idle], idle, got[busy], busy)
		}
	}
}

// A command too large for the rest of an entry is the first of the next one. Small ones do not slip past it for ever.
func TestLargeCommandsHaveTheirTurn(t *testing.T) {
	l := testLanes(1 << 30)
	for range 100 {
		l.push(job(LaneKV, 1, 1_500_000))
		l.push(job(LaneTlog, 2, 700_000))
	}
	var got [laneCount]int
	for range 60 {
		for _, p := range l.take(nil, l.last(), packBytes, packCount) {
			got[p.lane] += p.size
		}
	}
	if off := got[LaneKV] - got[LaneTlog]; off > 1_500_000 || off < -1_500_000 {
		t.Errorf("%d bytes of one, %d of the other", got[LaneKV], got[LaneTlog])
	}
}

// Through the whole node: while a transparency log's entries wait by the megabyte, a put is in the next entry of the log. While puts wait,
// an add is.
func TestABulkLoadThroughOneDoorDoesNotHoldUpAnother(t *testing.T) {
	m := newManual(t, 1)
	n := m.nodes[0]
	put := func(lane Lane, size int) *outcome {
		o := &outcome{}
		err := n.ProposeAsync(lane, 0, []entry.Part{putPart("k", strings.Repeat("x", size))}, func(r *entry.Result, err error) { o.done, o.res, o.err = true, r, err })
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, lanes := range [][2]Lane{{LaneTlog, LaneKV}, {LaneKV, LaneTlog}} { // what is in a command is nothing to the lanes
		var bulk []*outcome
		for range 40 {
			bulk = append(bulk, put(lanes[0], 100<<10))
		}
		m.step() // some are on their way
		before := n.appliedIdx
		o := put(lanes[1], 10)
		m.until("applied", func() bool { return o.done })
		if o.err != nil || o.res.Rejection != nil || o.res.Pos.Index > before+2 {
			t.Errorf("beside a bulk load in lane %d: %v after index %d, %v", lanes[0], o.res.Pos, before, o.err)
		}
		waiting := 0
		for _, b := range bulk {
			if !b.done {
				waiting++
			}
		}
		if waiting < 10 {
			t.Errorf("only %d of the bulk were behind it", waiting)
		}
		m.until("all applied", func() bool { return bulk[len(bulk)-1].done })
	}
}

// A number belongs to one door: two that claim it are refused where they are put together.
func TestALaneBelongsToOneDoor(t *testing.T) {
	_, err := newLanes([]LaneSpec{{Number: 1, Name: "kv"}, {Number: 1, Name: "toy"}}, 100)
	if err == nil || !strings.Contains(err.Error(), "of kv and of toy") {
		t.Errorf("two doors with one lane: %v", err)
	}
	l, err := newLanes([]LaneSpec{{Number: 7, Name: "toy", Bytes: 30}}, 100)
	if err != nil || l.spec(3) != nil || l.spec(200) != nil || l.spec(7).Name != "toy" || l.of[7].limit != 30 {
		t.Errorf("a lane far from the others: %v", err)
	}
}
