package machine

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// model is the machine as a plain map, written without regard to speed: what Machine does must be what it does.
type model struct {
	next  uint64
	tick  int64
	gids  map[string]*Transaction
	until map[string]int64 // when what has ended is forgotten
}

const modelRetention = 5_000

func newModel() *model {
	return &model{next: 1, gids: map[string]*Transaction{}, until: map[string]int64{}}
}

func (m *model) wall() int64 { return machinetest.Epoch + m.tick*1e6 }

// forget drops what was kept long enough; the machine does so at the end of each entry.
func (m *model) forget() {
	for gid, until := range m.until {
		if until <= m.tick {
			delete(m.gids, gid)
			delete(m.until, gid)
		}
	}
}

func (m *model) timer(t *Transaction, ms, interval int64) {
	t.DueTick, t.IntervalMs = m.tick+ms, interval
}

func (m *model) result(t *Transaction, place int, status sagapart.Status) {
	b := &t.Branches[place]
	b.Status, b.Updated, b.Finished = status, m.wall(), 0
	if status != sagapart.Prepared {
		b.Finished = m.wall()
	}
}

func (m *model) join(t *Transaction, b sagapart.Branch) {
	t.Branches = append(t.Branches, Branch{Branch: b, Created: m.wall(), Updated: m.wall()})
	m.result(t, len(t.Branches)-1, b.Status)
}

func (m *model) do(p *sagapart.Part) string {
	switch p.Kind {
	case sagapart.Begin:
		return m.begin(p.Begin)
	case sagapart.Submit:
		if t := m.gids[p.Begin.Gid]; t != nil && t.Status == sagapart.Prepared && !p.Begin.Fresh {
			m.take(t, p.Begin)
			m.begin(p.Begin)
			t.IntervalMs = p.Begin.IntervalMs
			if o := t.Options; o.RetryIntervalMs > 0 {
				t.IntervalMs = o.RetryIntervalMs
			} else if o.TimeoutMs > 0 && o.TimeoutMs < t.IntervalMs {
				t.IntervalMs = o.TimeoutMs
			}
			return fmt.Sprintf("%d prepared → submitted", t.Number)
		}
		return m.begin(p.Begin)
	case sagapart.Change:
		return m.change(p.Change)
	default:
		return m.register(p.Register)
	}
}

func (m *model) begin(g *sagapart.BeginPart) string {
	t := m.gids[g.Gid]
	if t == nil {
		t = &Transaction{Number: m.next, Definition: g.Definition, Head: Head{Status: g.Status, Created: m.wall(), Updated: m.wall(), CreatedTick: m.tick}}
		m.next++
		for _, b := range g.Branches {
			m.join(t, b)
		}
		m.timer(t, g.FirstMs, g.IntervalMs)
		m.gids[g.Gid] = t
		return fmt.Sprintf("%d new → %s", t.Number, t.Status)
	}
	was := t.Status
	switch {
	case g.Fresh:
		return "702 " + was.String()
	case was == sagapart.Prepared && g.Status == sagapart.Submitted:
		t.Status, t.Updated = sagapart.Submitted, m.wall()
		m.timer(t, g.FirstMs, g.IntervalMs)
	case was != g.Status && !g.Exists:
		return "702 " + was.String()
	}
	return fmt.Sprintf("%d %s → %s", t.Number, was, t.Status)
}

// take gives a prepared transaction what its submit gives.
func (m *model) take(t *Transaction, g *sagapart.BeginPart) {
	o, given := &t.Options, &g.Options
	o.Concurrent = o.Concurrent || given.Concurrent
	for _, of := range []struct{ to, from *int64 }{{&o.TimeoutMs, &given.TimeoutMs}, {&o.RequestTimeoutMs, &given.RequestTimeoutMs},
		{&o.RetryIntervalMs, &given.RetryIntervalMs}, {&o.RetryLimit, &given.RetryLimit}} {
		if *of.from != 0 {
			*of.to = *of.from
		}
	}
	if g.CustomData != "" {
		t.CustomData = g.CustomData
	}
	if len(g.Headers) > 0 {
		t.Headers = g.Headers
	}
}

func (m *model) change(c *sagapart.ChangePart) string {
	t := m.gids[c.Gid]
	switch {
	case t == nil:
		return "701 " + c.Gid
	case c.Number != 0 && c.Number != t.Number:
		return fmt.Sprintf("701 %s is %d by now and not %d", c.Gid, t.Number, c.Number)
	case t.Status == sagapart.Succeed || t.Status == sagapart.Failed || c.From&sagapart.Of(t.Status) == 0:
		return "702 " + t.Status.String()
	}
	for _, r := range c.Results {
		if int(r.Branch) >= len(t.Branches) {
			return fmt.Sprintf("708 branch %d of %d", r.Branch, len(t.Branches))
		}
	}
	was := t.Status
	t.Updated = m.wall()
	for _, r := range c.Results {
		m.result(t, int(r.Branch), r.Status)
	}
	if c.Reason != "" {
		t.Reason = c.Reason
	}
	if c.Result != "" {
		t.Result = c.Result
	}
	if c.Retries != 0 {
		t.Retries = c.Retries
	}
	if c.Pass {
		t.Passes++
	}
	if c.To != 0 {
		t.Status = c.To
	}
	if c.Timer {
		m.timer(t, c.NextMs, c.IntervalMs)
	}
	switch t.Status {
	case sagapart.Succeed:
		t.Finished = m.wall()
	case sagapart.Failed:
		t.RolledBack = m.wall()
	}
	if t.Finished+t.RolledBack != 0 {
		m.until[c.Gid] = m.tick + modelRetention
		if c.Timer { // the interval of one that has ended means nothing
			t.IntervalMs = 0
		}
		t.DueTick = Never
	}
	return fmt.Sprintf("%d %s → %s", t.Number, was, t.Status)
}

func (m *model) register(g *sagapart.RegisterPart) string {
	t := m.gids[g.Gid]
	switch {
	case t == nil:
		return "701 " + g.Gid
	case t.Status != sagapart.Prepared:
		return "702 " + t.Status.String()
	}
	t.Updated = m.wall()
	for _, b := range g.Branches {
		i := slices.IndexFunc(t.Branches, func(o Branch) bool { return o.ID == b.ID && o.Op == b.Op })
		if i >= 0 {
			m.result(t, i, b.Status)
		} else {
			m.join(t, b)
		}
	}
	return fmt.Sprintf("%d %s → %s", t.Number, t.Status, t.Status)
}

// state prints every transaction by number, and every timer.
func (m *model) state() string {
	var all []*Transaction
	for _, t := range m.gids {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Transaction) int { return int(a.Number) - int(b.Number) })
	return showState(all)
}

func showState(all []*Transaction) string {
	var b strings.Builder
	var timers []Timer
	for _, t := range all {
		show := *t
		if show.DueTick == Never {
			show.IntervalMs = 0
		} else {
			timers = append(timers, Timer{t.DueTick, t.Number})
		}
		b.WriteString(showTransaction(&show) + "\n")
	}
	slices.SortFunc(timers, func(a, b Timer) int {
		if a.Tick != b.Tick {
			return int(a.Tick - b.Tick)
		}
		return int(a.Number) - int(b.Number)
	})
	return b.String() + fmt.Sprint(timers)
}

// state prints what readers see of every transaction, through List and Find, and every timer; counts and census of it must agree.
func (r *rig) state() string {
	r.T.Helper()
	var all []*Transaction
	var n Counts
	for next := uint64(0); ; {
		some, more, err := r.list(next, 7, Filter{})
		if err != nil {
			r.T.Fatal(err)
		}
		for _, t := range some {
			whole := r.find(t.Gid)
			if whole.Head != t.Head || whole.Number != t.Number {
				r.T.Fatalf("List says %+v, Find %+v", t, whole)
			}
			all = append(all, whole)
			switch t.Status {
			case sagapart.Prepared:
				n.Prepared++
			case sagapart.Submitted:
				n.Submitted++
			case sagapart.Succeed:
				n.Succeed++
			case sagapart.Aborting:
				n.Aborting++
			case sagapart.Failed:
				n.Failed++
			}
		}
		if next = more; next == 0 {
			break
		}
	}
	if got := r.m.Counts(); got != n {
		r.T.Fatalf("counted %+v, there are %+v", got, n)
	}
	slices.Reverse(all)
	text := showState(all)
	due := fmt.Sprint(r.due())
	if !strings.HasSuffix(text, due) {
		r.T.Fatalf("timers are %s in\n%s", due, text)
	}
	return text
}

// Gids are one another's beginnings, as DTM's default store could not tell apart.
var modelGids = []string{"o", "order-1", "order-10", "order-100", "order-1000", "order-1\x00", "p"}

// randomOptions gives each option to half of the definitions.
func randomOptions(r *rand.Rand, d *sagapart.Definition) {
	number := func() int64 { return int64(r.Intn(2) * r.Intn(3) * 20) }
	d.Options = sagapart.Options{WaitResult: r.Intn(2) == 0, Concurrent: r.Intn(2) == 0, TimeoutMs: number(), RequestTimeoutMs: number(),
		RetryIntervalMs: number(), RetryLimit: number()}
	if r.Intn(2) == 0 {
		d.CustomData = fmt.Sprintf(`{"delay":%d}`, r.Intn(3))
	}
	for range r.Intn(3) {
		d.Headers = append(d.Headers, sagapart.Header{Name: "X", Value: fmt.Sprint(r.Intn(3))})
	}
}

func randomPart(r *rand.Rand, m *model) *sagapart.Part {
	gid := modelGids[r.Intn(len(modelGids))]
	branch := func() sagapart.Branch {
		b := sagapart.Branch{ID: fmt.Sprint(r.Intn(6)), Op: []string{sagapart.OpAction, sagapart.OpCancel, "own"}[r.Intn(3)], URL: "http://s", Status: sagapart.Prepared}
		if r.Intn(3) == 0 {
			b.Status = sagapart.Succeed
		}
		if r.Intn(3) == 0 {
			b.Payload = []byte(strings.Repeat(b.ID, 1+r.Intn(3)))
		}
		return b
	}
	open := []sagapart.Status{sagapart.Prepared, sagapart.Submitted, sagapart.Aborting}
	switch r.Intn(10) {
	case 0, 1, 2:
		g := &sagapart.BeginPart{Definition: sagapart.Definition{Gid: gid, Mode: sagapart.Mode(1 + r.Intn(5)), Protocol: "http"}, Status: open[r.Intn(2)],
			Exists: r.Intn(5) == 0, Fresh: r.Intn(5) == 0, FirstMs: int64(r.Intn(1000)), IntervalMs: int64(r.Intn(100)), Branches: steps(r.Intn(4), r.Intn(3))}
		if r.Intn(10) == 0 {
			g.Branches = steps(2, 2000) // too large for the definition's row
		}
		randomOptions(r, &g.Definition)
		if r.Intn(2) == 0 {
			g.Status = sagapart.Submitted
			return &sagapart.Part{Kind: sagapart.Submit, Begin: g}
		}
		return &sagapart.Part{Kind: sagapart.Begin, Begin: g}
	case 3, 4, 5:
		g := &sagapart.RegisterPart{Gid: gid}
		for range r.Intn(4) {
			g.Branches = append(g.Branches, branch())
		}
		return &sagapart.Part{Kind: sagapart.Register, Register: g}
	}
	c := &sagapart.ChangePart{Gid: gid, From: sagapart.Open, Pass: r.Intn(4) == 0, Retries: int64(r.Intn(3)), Timer: r.Intn(2) == 0,
		NextMs: int64(r.Intn(2000)), IntervalMs: int64(r.Intn(100))}
	switch r.Intn(5) {
	case 0:
		c.From = sagapart.Of(open[r.Intn(3)])
	case 1:
		c.Number = uint64(r.Intn(int(m.next) + 1))
		if t := m.gids[gid]; t != nil && r.Intn(2) == 0 {
			c.Number = t.Number
		}
	}
	if r.Intn(2) == 0 {
		c.To = []sagapart.Status{sagapart.Submitted, sagapart.Aborting, sagapart.Succeed, sagapart.Failed}[r.Intn(4)]
	}
	if r.Intn(4) == 0 {
		c.Reason, c.Result = fmt.Sprint("reason", r.Intn(9)), fmt.Sprint("result", r.Intn(9))
	}
	if t := m.gids[gid]; t != nil {
		for range r.Intn(3) {
			if n := len(t.Branches); n > 0 {
				c.Results = append(c.Results, sagapart.BranchResult{Branch: uint32(r.Intn(n + n/6)), Status: []sagapart.Status{sagapart.Succeed, sagapart.Failed}[r.Intn(2)]})
			}
		}
	}
	return &sagapart.Part{Kind: sagapart.Change, Change: c}
}

// TestAgainstModel feeds machine and model the same random commands, many to an entry, with restarts. A second machine with next to no
// cache must come to the same rows, byte for byte: its writes may not depend on its memory.
func TestAgainstModel(t *testing.T) {
	opt := Options{RetentionMs: modelRetention}
	for seed := range int64(20) {
		rnd := rand.New(rand.NewSource(seed))
		r := openRig(t, store.NewMem(), opt)
		other := openRig(t, store.NewMem(), Options{CacheBytes: 1, FilterBytes: 1, RecentTimers: 1, RetentionMs: modelRetention})
		m := newModel()
		for step := range 150 {
			r.Tick += int64(rnd.Intn(400))
			other.Tick, m.tick = r.Tick, r.Tick
			var parts []*sagapart.Part
			var want []string
			for range 1 + rnd.Intn(12) {
				p := randomPart(rnd, m)
				parts = append(parts, p)
				want = append(want, m.do(p))
			}
			m.forget()
			other.apply(parts...)
			for i, res := range r.apply(parts...) {
				if got := show(res); got != want[i] {
					t.Fatalf("seed %d step %d: %s\n got %s\nwant %s", seed, step, parts[i], got, want[i])
				}
			}
			if got, want := r.state(), m.state(); got != want {
				t.Fatalf("seed %d step %d:\n%s\nwant\n%s", seed, step, got, want)
			}
			if rnd.Intn(40) == 0 {
				r.reopen(opt)
				if got, want := r.state(), m.state(); got != want {
					t.Fatalf("seed %d step %d, after a restart:\n%s\nwant\n%s", seed, step, got, want)
				}
			}
		}
		if a, b := r.Dump(), other.Dump(); a != b {
			t.Fatalf("seed %d: two members differ:\n%s\n%s", seed, a, b)
		}
	}
}
