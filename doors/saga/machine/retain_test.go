package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// end begins n transactions and ends them, all in one entry. Some have branches in rows of their own.
func (r *rig) end(n int) {
	r.T.Helper()
	var parts []*sagapart.Part
	for i := range n {
		g := &sagapart.BeginPart{Status: sagapart.Submitted, Definition: sagapart.Definition{Gid: fmt.Sprintf("g-%d-%d", r.Index, i), Mode: sagapart.Saga}, Branches: steps(1, 0)}
		if i%10 == 0 {
			g.Branches = steps(1, inlineBytes)
		}
		parts = append(parts, &sagapart.Part{Kind: sagapart.Begin, Begin: g},
			&sagapart.Part{Kind: sagapart.Change, Change: &sagapart.ChangePart{Gid: g.Gid, From: sagapart.Open, To: sagapart.Status(3 + i%2*2)}})
	}
	for _, res := range r.apply(parts...) {
		if res.Rejection != nil {
			r.T.Fatal(res.Rejection)
		}
	}
}

// rows counts the machine's rows.
func (r *rig) rows() int { return strings.Count(r.Dump(), "\"g") }

// TestWhatHasEndedIsForgottenInPieces: a day after a busy hour no entry is held up by all its ended transactions. A restart continues where
// the last process stopped.
func TestWhatHasEndedIsForgottenInPieces(t *testing.T) {
	const n = 1000
	opt := Options{RetentionMs: 1000}
	r := openRig(t, store.NewMem(), opt)
	r.end(n)
	r.Tick += 10
	r.end(3)
	all := r.rows()
	r.Tick += 989
	if r.Apply(); r.rows() != all || r.m.Unfinished() {
		t.Fatalf("before its time %d of %d rows are left", r.rows(), all)
	}
	r.Tick += 5
	pieces := 0
	for left := all; ; pieces++ {
		r.Apply()
		now := r.rows()
		if most := forgetRows + retiredRows + retiredOf; left-now > most {
			t.Fatalf("one entry deleted %d rows, more than %d", left-now, most)
		}
		if left = now; !r.m.Unfinished() {
			break
		}
		if pieces == 1 {
			r.reopen(opt)
		}
	}
	if pieces < 2 {
		t.Errorf("%d pieces", pieces+1)
	}
	if got := r.m.Counts(); got.Succeed != 2 || got.Failed != 1 {
		t.Errorf("left are %+v", got)
	}
	r.Tick += 10
	if r.Apply(); r.m.Unfinished() || r.rows() != 1 || r.m.Counts() != (Counts{}) { // the counters
		t.Errorf("in the end %+v, and\n%s", r.m.Counts(), r.Dump())
	}
}

// TestEachIsKeptItsWholeTime: the end of one's time is not the end of the next one's.
func TestEachIsKeptItsWholeTime(t *testing.T) {
	r := openRig(t, store.NewMem(), Options{RetentionMs: 1000})
	for _, gid := range []string{"a", "b", "c"} {
		r.must("begin "+gid+" saga submitted", "change "+gid+" to=succeed")
		r.Tick += 10
	}
	r.Tick += 970
	for _, want := range []string{"c b", "c", ""} {
		r.Apply()
		all, _, err := r.list(0, 10, Filter{})
		var left []string
		for _, one := range all {
			left = append(left, one.Gid)
		}
		if got := strings.Join(left, " "); got != want || err != nil {
			t.Errorf("at %d left are %q, want %q, %v", r.Tick, got, want, err)
		}
		r.Tick += 10
	}
}

// TestATransactionOfManyRowsIsForgotten with all of them, and stands for as much work as it is.
func TestATransactionOfManyRowsIsForgotten(t *testing.T) {
	r := openRig(t, store.NewMem(), Options{RetentionMs: 1000})
	for _, gid := range []string{"a", "b"} {
		r.must("begin " + gid + " tcc prepared")
		for i := range 600 {
			r.must(fmt.Sprintf("register %s branch=%d,cancel,u", gid, i))
		}
	}
	r.apply(parse(t, "change a to=failed"), parse(t, "change b to=succeed"))
	all := r.rows()
	r.Tick += 1000
	if r.Apply(); all-r.rows() > forgetRows+retiredRows+retiredOf {
		t.Errorf("one entry deleted %d rows", all-r.rows())
	}
	for r.m.Unfinished() {
		r.Apply()
	}
	if r.rows() != 1 {
		t.Errorf("left are\n%s", r.Dump())
	}
}

// TestOpenTransactionsAreNeverForgotten, in any status, after any time, and over a restart. Years after all others are gone each has its
// rows and its one timer, and can still be ended.
func TestOpenTransactionsAreNeverForgotten(t *testing.T) {
	const year = 365 * 86_400_000
	opt := Options{RetentionMs: 1000}
	r := openRig(t, store.NewMem(), opt)
	r.must("begin p msg prepared first=500", "begin s saga submitted steps=2", "begin d msg submitted first=5000",
		"begin a tcc prepared", "register a branch=01,cancel,u", "change a to=aborting next=100", "begin gone saga submitted", "change gone to=succeed")
	timers := fmt.Sprint(r.due())
	for range 5 {
		for range 20 {
			r.Tick += year / 10
			r.Apply()
		}
		r.reopen(opt)
	}
	if got := fmt.Sprint(r.due()); got != timers || len(r.due()) != 4 {
		t.Errorf("timers %s, and they were %s", got, timers)
	}
	want := Counts{Prepared: 1, Submitted: 2, Aborting: 1}
	if got := r.m.Counts(); got != want {
		t.Errorf("left are %+v", got)
	}
	if gone, err := r.m.Find("gone"); gone != nil || err != nil {
		t.Errorf("what has ended is kept: %+v, %v", gone, err)
	}
	for _, gid := range []string{"p", "s", "d", "a"} {
		r.find(gid)
		r.must("change " + gid + " to=failed")
	}
	for range 4 {
		r.Tick += 1000
		r.Apply()
	}
	if got := r.m.Counts(); got != (Counts{}) || len(r.due()) != 0 {
		t.Errorf("ended, and left are %+v with timers %v", got, r.due())
	}
}

// TestHowLongWhatEndsIsKept: a Retain is for later ends, the same on every member, over a restart and in a restored cluster. Transactions
// that ended earlier keep their time.
func TestHowLongWhatEndsIsKept(t *testing.T) {
	opt := Options{RetentionMs: 10_000}
	r := openRig(t, store.NewMem(), opt)
	if got := r.m.Retention(); got != 10_000 {
		t.Errorf("nobody has said, and it is %d ms", got)
	}
	r.must("begin before saga submitted", "change before to=succeed", "retain ms=1000", "begin short saga submitted", "change short to=succeed")
	short := r.Tick
	r.reopen(opt)
	if got := r.m.Retention(); got != 1000 {
		t.Errorf("after a restart it is %d ms", got)
	}
	r.must("retain ms=30000", "begin long saga submitted", "change long to=failed")
	long := r.Tick
	for _, c := range []struct {
		at   int64
		left string
	}{{short + 999, "long short before"}, {short + 1000, "long before"}, {11_010, "long"}, {long + 29_999, "long"}, {long + 30_000, ""}} {
		for r.Tick = c.at; ; {
			if r.Apply(); !r.m.Unfinished() {
				break
			}
		}
		all, _, err := r.list(0, 10, Filter{})
		var left []string
		for _, one := range all {
			left = append(left, one.Gid)
		}
		if got := strings.Join(left, " "); got != c.left || err != nil {
			t.Errorf("at %d left are %q, want %q, %v", c.at, got, c.left, err)
		}
	}
	row, _, err := r.Store.Get(nil, countersKey)
	if err != nil {
		t.Fatal(err)
	}
	row, _, err = restoreRow(countersKey, row)
	if c, broken := decodeCounters(row); err != nil || broken != nil || !c.held || c.retention != 30_000 {
		t.Errorf("restored it is %+v, %v, %v", c, err, broken)
	}
	only := counters{next: 1, retention: 5}
	row, _, err = restoreRow(countersKey, appendCounters(nil, &only))
	if c, broken := decodeCounters(row); err != nil || broken != nil || c.held || c.retention != 5 {
		t.Errorf("one without transactions is restored as %+v, %v, %v", c, err, broken)
	}
}
