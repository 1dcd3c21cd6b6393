package agent

import (
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// long is a database that is followed, and whose WAL only grows where the test says so.
type long struct {
	*hand
	db *sql.DB
}

// pageBytes is the size of its pages, the smallest that SQLite has.
const pageBytes = 512

func newLong(t *testing.T) *long {
	r := newRig(t)
	db, err := sql.Open("sqlite", "file:"+r.path+"?_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	for _, text := range []string{"pragma page_size = 512", "pragma journal_mode = wal", "pragma wal_autocheckpoint = 0", "create table t (x)", "insert into t values (1)"} {
		r.exec(db, text)
	}
	return &long{r.followed(gate.Local), db}
}

// grow makes the WAL so many frames long, and stores them.
func (l *long) grow(frames uint32) {
	l.t.Helper()
	have, _ := l.files.WAL()
	if left := int(frames - have); left > 20 { // most of them at once: a page holds 508 bytes of a long value
		l.r.exec(l.db, "insert into t values (zeroblob(?))", (left-10)*508)
		have, _ = l.files.WAL()
	}
	for ; have < frames; have, _ = l.files.WAL() {
		l.r.exec(l.db, "update t set x = x + 1 where rowid = 1")
	}
	if have != frames {
		l.t.Fatalf("the WAL has %d frames, want %d", have, frames)
	}
	g, err := l.files.Capture()
	if err != nil {
		l.t.Fatal(err)
	}
	if g != nil {
		l.ship(g)
		l.work()
	}
}

// checkpoint copies what the WAL has into the database.
func (l *long) checkpoint() {
	l.t.Helper()
	l.r.exec(l.db, "pragma wal_checkpoint(passive)")
}

// TestAWALIsStartedAnew when it has a thousand frames and all but an eighth of that is copied into the database: SQLite copies the rest,
// most likely.
func TestAWALIsStartedAnew(t *testing.T) {
	for name, c := range map[string]struct {
		copied, frames uint32
		set            func(l *long)
		tried, anew    bool
		read           bool // something reads the database
	}{
		"it is shorter":                          {restartFrames - 1, restartFrames - 1, nil, false, false, false},
		"all of it is copied":                    {restartFrames, restartFrames, nil, true, true, false},
		"an eighth is not":                       {restartFrames - restartFrames/8, restartFrames, nil, true, false, false},
		"more is not":                            {restartFrames - restartFrames/8 - 1, restartFrames, nil, false, false, false},
		"the file of a level reads the database": {restartFrames, restartFrames, func(l *long) { l.view = true }, false, false, true},
		"a group reads the database":             {restartFrames, restartFrames, func(l *long) { l.streams = 1 }, false, false, true},
		"no other group may be on its way":       {restartFrames, restartFrames, func(l *long) { l.bytes = mostKept + 1 }, false, false, false},
		"it was tried a moment ago":              {restartFrames, restartFrames, func(l *long) { l.holding.tried = l.now().Add(1 - time.Millisecond) }, false, false, false},
		"it was tried a millisecond ago":         {restartFrames, restartFrames, func(l *long) { l.holding.tried = l.now().Add(-time.Millisecond) }, true, true, false},
		"tries have failed before": {restartFrames, restartFrames, func(l *long) {
			l.holding.pause, l.holding.tried = 8*time.Millisecond, l.now().Add(1-8*time.Millisecond)
		}, false, false, false},
	} {
		l := newLong(t)
		view, streams, bytes := l.view, l.streams, l.bytes
		l.grow(c.copied)
		l.checkpoint()
		l.grow(c.frames)
		l.time.Advance(time.Minute)
		if frames, _ := l.files.WAL(); frames != c.frames {
			t.Fatalf("%s: it has %d frames", name, frames)
		}
		l.holding = holding{}
		if c.set != nil {
			c.set(l)
		}
		next := l.restart(l.now())
		frames, _ := l.files.WAL()
		if want := (map[bool]time.Duration{true: lookForOthers, false: 10 * time.Millisecond})[c.anew || c.frames < restartFrames || c.read]; next != want {
			t.Errorf("%s: the next turn comes after %v, want %v", name, next, want)
		}
		if tried := l.holding.tried.Equal(l.now()); tried != c.tried || (frames == 0) != c.anew {
			t.Errorf("%s: it is tried: %v; it has %d frames", name, tried, frames)
		}
		if c.anew && l.holding.pause != 0 {
			t.Errorf("%s: the next try comes %v later", name, l.holding.pause)
		}
		l.view, l.streams, l.bytes = view, streams, bytes
	}
}

// TestTriesThatFailBecomeRare while transactions do not wait: a millisecond, then twice as long each time, up to 100 ms. While they wait every
// millisecond is used.
func TestTriesThatFailBecomeRare(t *testing.T) {
	l := newLong(t)
	l.grow(restartFrames)
	l.checkpoint()
	l.grow(restartFrames + 1) // a frame that is not copied
	l.holding = holding{}
	var pauses []time.Duration
	for range 9 {
		l.time.Advance(time.Second)
		l.restart(l.now())
		pauses = append(pauses, l.holding.pause/time.Millisecond)
	}
	if want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 100, 100}; !slices.Equal(pauses, want) {
		t.Errorf("the pauses are %d ms, want %d", pauses, want)
	}
	if got := l.between(false); got != restartMostPause {
		t.Errorf("the next try comes %v later", got)
	}
	if got := l.between(true); got != time.Millisecond {
		t.Errorf("while transactions wait the next try comes %v later", got)
	}
}

// TestTransactionsWait when a WAL has grown to four thousand frames, for a quarter of a second, and two seconds later again.
func TestTransactionsWait(t *testing.T) {
	l := newLong(t)
	c := l.joins(gate.Hello{})
	waits := func() bool { return l.hold }
	l.grow(holdFrames - 1)
	now := l.now()
	if l.restart(now); waits() {
		t.Error("they wait before the WAL is long enough")
	}
	l.grow(holdFrames)
	now = l.now()
	l.holding.next = now
	if l.restart(now); waits() {
		t.Error("they wait again before it is time")
	}
	l.Leave(c.Conn)
	if l.restart(now.Add(1)); waits() {
		t.Error("they wait and there is no connection")
	}
	l.joins(gate.Hello{})
	if next := l.restart(now.Add(1)); !waits() || next != time.Millisecond {
		t.Errorf("they do not wait; the next turn comes after %v", next)
	}
	began := now.Add(1)
	if l.restart(began.Add(holdMost)); !waits() {
		t.Error("they have waited for a quarter of a second, and do not wait to its end")
	}
	end := began.Add(holdMost + 1)
	if l.restart(end); waits() {
		t.Error("they wait for longer than a quarter of a second")
	}
	if !l.holding.next.Equal(end.Add(2 * time.Second)) {
		t.Errorf("they may wait again %v later, want two seconds", l.holding.next.Sub(end))
	}
	l.holding.since = end
	l.setHold(true)
	l.checkpoint()
	l.time.Advance(end.Add(time.Second).Sub(l.now()))
	if next := l.restart(l.now()); waits() || next != lookForOthers {
		t.Errorf("the WAL was started anew, and they wait; the next turn comes after %v", next)
	}
	if !l.holding.next.Equal(l.now().Add(250 * time.Millisecond)) {
		t.Errorf("they may wait again %v later, want a quarter of a second", l.holding.next.Sub(l.now()))
	}
	l.holding.since = l.now()
	l.setHold(true)
	if l.restart(l.now()); waits() || !l.holding.next.Equal(l.now().Add(2*time.Second)) {
		t.Errorf("the WAL is short again, and they wait; they may wait again %v later", l.holding.next.Sub(l.now()))
	}
	l.r.exec(l.db, "update t set x = x + 1 where rowid = 1")
}

// TestOneIsLetGoAtATime: while transactions wait and the rest of the WAL would not be copied, one connection after the other may begin one,
// four milliseconds apart. None may while a commit waits.
func TestOneIsLetGoAtATime(t *testing.T) {
	l := newLong(t)
	l.letOneGo() // no connection is there
	var all []*heardBy
	for range 3 {
		all = append(all, l.joins(gate.Hello{}))
	}
	l.grow(holdFrames)
	now := l.now()
	l.holding.since = now
	l.setHold(true)
	l.enter(gate.Open, "")
	let := func(at time.Time) (n int) {
		for _, c := range all {
			c.states = nil
		}
		l.restart(at)
		for _, c := range all {
			if slices.Equal(c.states, []string{"\x00\x00", "\x00\x01"}) {
				n++
			} else if len(c.states) != 0 {
				t.Errorf("a connection hears %q", c.states)
			}
		}
		return n
	}
	if n := let(now); n != 1 {
		t.Errorf("%d are let go at first", n)
	}
	if n := let(now.Add(letAgain - 1)); n != 0 {
		t.Errorf("%d are let go right after that", n)
	}
	if n := let(now.Add(letAgain)); n != 1 {
		t.Errorf("%d are let go after %v", n, letAgain)
	}
	l.waiters = make([]*waiter, 1)
	if n := let(now.Add(3 * letAgain)); n != 0 {
		t.Errorf("%d are let go while a commit waits", n)
	}
	l.waiters = nil
	l.checkpoint()
	l.files.Loose() // no mark: the WAL is not started anew by the agent
	if n := let(now.Add(3 * letAgain)); n != 0 {
		t.Errorf("%d are let go although all of the WAL is copied", n)
	}
}

// TestTheLastOfThoseThatWaitIsHeldBack for eight milliseconds while transactions wait, once all commits are ready: the others would be in its way.
func TestTheLastOfThoseThatWaitIsHeldBack(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	conn := gate.NewConn(gate.Hello{}, nil)
	ready := func() *waiter { return &waiter{conn: conn, known: true} }
	d := &database{}
	d.waiters = []*waiter{ready(), ready(), {known: true}} // the last one is a caller of Sync
	if d.holdBack(now) != nil {
		t.Error("one is held back and transactions do not wait")
	}
	d.holding.since = now
	if d.holdBack(now) != d.waiters[1] {
		t.Error("the last connection is not held back")
	}
	if d.holdBack(now.Add(holdBackFor)) != d.waiters[1] {
		t.Error("it is not held back for eight milliseconds")
	}
	if d.holdBack(now.Add(holdBackFor+1)) != nil {
		t.Error("it is held back for longer")
	}
	d.holding.since = time.Time{}
	d.holdBack(now)
	d.holding.since = now
	if d.holdBack(now.Add(holdBackFor+1)) != d.waiters[1] {
		t.Error("when transactions wait again none is held back")
	}
	d.waiters[0].known = false
	if d.holdBack(now) != nil {
		t.Error("one is held back before all are ready")
	}
	d.waiters = []*waiter{{known: true}}
	if d.holdBack(now) != nil {
		t.Error("a caller of Sync is held back")
	}
}

// TestAnothersCheckpointGetsItsWay: it waits for the agent's mark, and keeps everybody from writing. After ten milliseconds the mark is
// released, and the next capture holds one again.
func TestAnothersCheckpointGetsItsWay(t *testing.T) {
	l := newLong(t)
	l.grow(10)
	l.checkpointing = true
	now := l.now()
	const soon = giveWayAfter / 2
	if next := l.restart(now); next != soon || !l.files.Held() {
		t.Errorf("at first: the next turn comes after %v, the mark is held: %v", next, l.files.Held())
	}
	if next := l.restart(now.Add(giveWayAfter - 1)); next != soon || !l.files.Held() {
		t.Errorf("before ten milliseconds: the next turn comes after %v, the mark is held: %v", next, l.files.Held())
	}
	l.streams = 1
	if next := l.restart(now.Add(giveWayAfter)); next != soon || !l.files.Held() {
		t.Errorf("beside a group that reads the database: the next turn comes after %v, the mark is held: %v", next, l.files.Held())
	}
	l.streams = 0
	for _, held := range []bool{true, false} { // for as long as another group may not be on its way
		l.bytes = map[bool]int64{true: mostKept + 1}[held]
		if l.restart(now.Add(giveWayAfter)); l.files.Held() != held {
			t.Errorf("another group may not be on its way: %v, and the mark is held: %v", held, l.files.Held())
		}
	}
	if due := l.taken.Add(l.agent.cfg.Interval); !due.Equal(now.Add(2 * giveWayAfter)) {
		t.Errorf("the next capture is due %v after the mark was let go", due.Sub(now.Add(giveWayAfter)))
	}
	l.checkpointing = false
	l.time.Advance(giveWayAfter)
	l.restart(l.now())
	l.turns(func() bool { return l.files.Held() })
	// It waits the whole time again when it comes the next time.
	l.checkpointing = true
	if l.restart(l.now().Add(time.Hour)); !l.files.Held() {
		t.Error("the next checkpoint gets its way at once")
	}
}

// TestAnotherProgramGetsTheDatabaseForItself: it waits until no other program has it open. Its first commits are stored, and the files
// are closed.
func TestAnotherProgramGetsTheDatabaseForItself(t *testing.T) {
	l := newLong(t)
	l.wanted = true
	now := l.now()
	l.restart(now)
	l.r.exec(l.db, "update t set x = x + 1 where rowid = 1")
	head := l.head.TXID
	if next := l.restart(now.Add(giveWayAfter)); next != l.agent.cfg.Interval || l.files.Open() {
		t.Errorf("the next turn comes after %v; the files are open: %v", next, l.files.Open())
	}
	if l.head.TXID != head+1 {
		t.Error("the last commit is not captured before")
	}
}

// TestAWALThatIsNotStoredIsLetGoOf: it has more bytes than may wait, the bucket has taken nothing for half a second, and no commit waits.
func TestAWALThatIsNotStoredIsLetGoOf(t *testing.T) {
	l := newLong(t)
	l.grow(restartFrames)
	l.agent.cfg.MaxUnstored = restartFrames*pageBytes - 1
	for name, c := range map[string]struct {
		set  func()
		want bool
	}{
		"no group is on its way":              {func() { l.ships = nil }, false},
		"the oldest group has just been made": {func() { l.ships[0].made = l.now().Add(-2 * holdMost) }, false},
		"the WAL is as long as it may be":     {func() { l.agent.cfg.MaxUnstored++ }, false},
		"a commit waits":                      {func() { l.waiters = make([]*waiter, 1) }, false},
		"nobody waits":                        {func() {}, true},
	} {
		if err := l.files.Hold(); err != nil {
			t.Fatal(err)
		}
		l.ships = []*ship{{made: l.now().Add(-2*holdMost - 1)}}
		c.set()
		l.holding.tried = l.now()
		l.restart(l.now())
		if l.files.Held() == c.want {
			t.Errorf("%s: the mark is held: %v", name, l.files.Held())
		}
		l.ships, l.waiters, l.agent.cfg.MaxUnstored = nil, nil, restartFrames*pageBytes-1
	}
}
