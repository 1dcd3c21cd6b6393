package node

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
)

// hourglass is a machine that writes down which time it hears of, and how far the kv machine was then.
type hourglass struct {
	level uint16
	ms    []int64
	at    []int64 // the tick
}

func (h *hourglass) Spec() *machine.Spec {
	return &machine.Spec{ID: 'h', Name: "hourglass", Level: h.level, Uncounted: func(ms int64) []byte { return binary.AppendVarint(nil, ms) }}
}

func (h *hourglass) Load(store.Store, *machine.Gate) error { return nil }

func (h *hourglass) Check(_ *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	ms, _ := binary.Varint(body)
	return ms, nil, nil
}

func (h *hourglass) Readable([]byte) error { return nil }

func (h *hourglass) Do(st *entry.Stamp, plan any, _ store.Batch, _ bool) (any, error) {
	h.ms, h.at = append(h.ms, plan.(int64)), append(h.at, st.TickMs)
	return nil, nil
}

func (h *hourglass) Publish(*entry.Stamp) {}

// TestTimeThatNobodyCounted: an only member that was away for an hour tells its machines so, once. It does so before the first command that
// follows; the tick stands still meanwhile. One of three says nothing: it cannot know whether the others were away too.
func TestTimeThatNobodyCounted(t *testing.T) {
	for _, k := range []int{1, 3} {
		m := newManual(t, k)
		glass := map[uint64]*hourglass{}
		m.more = func(id uint64, cfg *Config) {
			glass[id] = &hourglass{}
			cfg.Machines = append(cfg.Machines, glass[id])
		}
		for id := uint64(1); id <= uint64(k); id++ {
			m.crash(id)
		}
		open := func(away time.Duration, ids ...uint64) {
			m.clock.Advance(away)
			for _, id := range ids {
				m.open(id)
			}
			m.leader()
		}
		write := func() (tick int64) {
			o := m.propose(m.leader(), "k", "v")
			m.until("applied", func() bool { return o.done })
			m.same()
			return m.leader().Tick()
		}
		all := []uint64{1, 2, 3}[:k]
		open(0, all...)
		before := write()
		for _, h := range glass {
			h.ms, h.at = nil, nil
		}
		for _, id := range all {
			m.crash(id)
		}
		o := &outcome{}
		m.clock.Advance(time.Hour)
		for _, id := range all {
			n := m.open(id)
			if o == nil || id > 1 {
				continue
			}
			// It waits from the beginning: it may not come before the hour.
			if err := n.ProposeAsync(LaneKV, 0, []entry.Part{putPart("k", "first"), {Machine: 'h', Body: binary.AppendVarint(nil, -1)}},
				func(r *entry.Result, err error) { o.done, o.res, o.err = true, r, err }); err != nil {
				t.Fatal(err)
			}
		}
		m.until("applied", func() bool { return o.done })
		m.same()
		for id, h := range glass {
			if alone := len(h.ms) == 2 && h.ms[1] == -1 && h.ms[0] > 3_590_000 && h.ms[0] < 3_605_000; k == 1 && !alone || k == 3 && len(h.ms) != 1 {
				t.Errorf("%d members, %d heard of %v", k, id, h.ms)
			}
			if len(h.at) > 0 && h.at[0] > before+60_000 {
				t.Errorf("%d members: the tick went from %d to %d", k, before, h.at[0])
			}
		}
	}
}

// TestTimeIsTakenUp: what leads does with the tick.
func TestTimeIsTakenUp(t *testing.T) {
	const ms, wall = time.Millisecond, int64(1_700_000_000e9)
	for _, c := range []struct {
		what          string
		k             *ticking
		wallMs        int64 // since the newest stamp
		wantMs, wants int64 // wants: the tick at 300 ms
	}{
		{"a new cluster", &ticking{}, 1000, 0, 1200},
		{"was away for a minute", &ticking{lastWall: wall, heardMs: 1000}, 60_300, 60_100, 1200},
		{"was away, and its wall clock was put back", &ticking{lastWall: wall, heardMs: 1000}, -5000, 0, 1200},
		{"was away, and knew of a leader since", &ticking{lastWall: wall, heardMs: 1000, counted: true, agreed: true}, 60_300, 0, 1200},
		{"the leader before lagged behind by 100 ms", &ticking{lastWall: wall, heardMs: 1000, counted: true}, 100, 0, 1100},
		{"it lagged behind, and the wall clock was put back", &ticking{lastWall: wall, heardMs: 1000, counted: true}, -100, 0, 1000},
		{"a leader that nobody heard, and that did not lag behind", &ticking{lastWall: wall, heardMs: 1000, counted: true}, 500, 0, 1200},
	} {
		c.k.tick.Store(&tickPoint{base: 1000, mono: 100 * ms})
		if got := c.k.leads(300*ms, wall+c.wallMs*1e6); got != c.wantMs {
			t.Errorf("%s: %d ms that nobody counted, want %d", c.what, got, c.wantMs)
		}
		if got := c.k.tickAt(300 * ms); got != c.wants {
			t.Errorf("%s: the tick is %d, want %d", c.what, got, c.wants)
		}
		if c.k.leads(300*ms, wall+c.wallMs*1e6) != 0 {
			t.Errorf("%s: counted twice", c.what)
		}
	}
}

// TestAChangeOfLeaderCostsNoTime: the first entry of a term has no stamp. That is no sign that the previous leader lagged behind, nor that
// only the wall clock knows the time of its stamp.
func TestAChangeOfLeaderCostsNoTime(t *testing.T) {
	m := newManual(t, 3)
	leader := m.node(1)
	m.writeOn(leader, 1)
	m.same()
	m.clock.Advance(time.Second)
	before := map[uint64]int64{}
	for _, id := range []uint64{2, 3} {
		before[id] = m.node(id).Tick()
	}
	m.crash(leader.id)
	m.clock.Jump(-time.Hour)
	next := m.leader()
	m.writeOn(next, 1)
	if now := next.Tick(); now < before[next.id] {
		t.Errorf("the tick went from %d to %d", before[next.id], now)
	}
}
