package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
)

// model is what a log must hold: every state since the last sync is a legal outcome of a crash, and no other.
type model struct {
	at      position
	entries []Entry // from at.index+1
	hard    HardState
}

func (m model) clone() model {
	m.entries = append([]Entry(nil), m.entries...)
	return m
}

func (m model) last() uint64 { return m.at.index + uint64(len(m.entries)) }

func (m *model) append(b Batch) {
	if b.HardState != nil {
		m.hard = *b.HardState
	}
	if len(b.Entries) > 0 {
		m.entries = append(m.entries[:b.Entries[0].Index-m.at.index-1], b.Entries...)
	}
}

func (m *model) truncate(i uint64) {
	n := i - m.at.index
	m.at = position{i, m.entries[n-1].Term}
	m.entries = append([]Entry(nil), m.entries[n:]...)
}

// diff says how a log differs from the model, "" if it does not.
func (m model) diff(t testing.TB, l *WAL) string {
	t.Helper()
	if l.HardState() != m.hard {
		return fmt.Sprintf("hard state %+v, want %+v", l.HardState(), m.hard)
	}
	if l.FirstIndex() != m.at.index+1 || l.LastIndex() != m.last() {
		return fmt.Sprintf("entries %d to %d, want %d to %d", l.FirstIndex(), l.LastIndex(), m.at.index+1, m.last())
	}
	if term, err := l.Term(m.at.index); term != m.at.term || err != nil {
		return fmt.Sprintf("truncation point %d has term %d, %v, want %d", m.at.index, term, err, m.at.term)
	}
	got := []Entry{}
	for lo := m.at.index + 1; lo <= m.last(); {
		part, err := l.Entries(lo, m.last()+1, 1<<10)
		if err != nil {
			t.Fatalf("entries from %d: %v", lo, err)
		}
		got = append(got, part...)
		lo += uint64(len(part))
	}
	for i, e := range m.entries {
		g := got[i]
		if g.Index != e.Index || g.Term != e.Term || g.Type != e.Type || !bytes.Equal(g.Data, e.Data) {
			return fmt.Sprintf("entry %d@%d, want %d@%d", g.Index, g.Term, e.Index, e.Term)
		}
		if term, err := l.Term(e.Index); term != e.Term || err != nil {
			return fmt.Sprintf("term of %d is %d, %v, want %d", e.Index, term, err, e.Term)
		}
	}
	return ""
}

// driver does random things to a log and keeps track of what a crash may leave.
type driver struct {
	t     testing.TB
	rng   *rand.Rand
	fs    *disk.Mem
	opt   Options
	l     *WAL
	now   model
	legal []model // what a crash may bring back: the synced state and each one since
	term  uint64
}

func newDriver(t testing.TB, seed uint64) *driver {
	d := &driver{t: t, rng: rand.New(rand.NewPCG(seed, 7)), fs: disk.NewMem(), legal: []model{{}}, term: 1}
	d.opt = Options{SegmentBytes: 8 << 10, CacheBytes: 2 << 10, Manual: true, LogID: 42}
	d.reopen()
	return d
}

func (d *driver) reopen() {
	l, err := Open(d.fs, "wal", d.opt)
	if err != nil {
		d.t.Fatal(err)
	}
	d.l = l
	var diffs []string
	for _, m := range d.legal {
		diff := m.diff(d.t, l)
		if diff == "" {
			d.now, d.legal = m.clone(), []model{m.clone()}
			return
		}
		diffs = append(diffs, diff)
	}
	d.t.Fatalf("the log is in no legal state: %q", diffs)
}

func (d *driver) batch() Batch {
	var b Batch
	if d.rng.IntN(4) == 0 {
		d.term += uint64(d.rng.IntN(2))
	}
	if d.rng.IntN(3) > 0 {
		first := d.now.last() + 1
		if back := d.rng.IntN(8); back == 0 && len(d.now.entries) > 0 {
			first -= uint64(d.rng.IntN(min(len(d.now.entries), 20)))
			d.term++
		}
		size := 100
		if d.rng.IntN(30) == 0 {
			size = 20 << 10 // beyond a segment
		}
		for i := range 1 + d.rng.IntN(5) {
			data := make([]byte, d.rng.IntN(size))
			for j := range data {
				data[j] = byte(d.rng.Uint32())
			}
			b.Entries = append(b.Entries, Entry{Index: first + uint64(i), Term: d.term, Type: uint8(d.rng.IntN(3)), Data: data})
		}
	}
	if d.rng.IntN(3) == 0 || len(b.Entries) == 0 {
		b.HardState = &HardState{Term: d.term, Vote: d.rng.Uint64N(3), Commit: d.rng.Uint64N(100)}
	}
	return b
}

// step does one thing; it answers the error of a lost disk.
func (d *driver) step() error {
	switch r := d.rng.IntN(20); {
	case r == 0 && len(d.now.entries) > 0:
		synced := d.legal[0]
		if len(synced.entries) == 0 || synced.at != d.now.at {
			return nil
		}
		common := min(synced.last(), d.now.last())
		// A range overwritten since the sync is not durable in its new form.
		for i := d.now.at.index + 1; i <= common; i++ {
			if d.now.entries[i-d.now.at.index-1].Term != synced.entries[i-d.now.at.index-1].Term {
				common = i - 1
			}
		}
		if common <= d.now.at.index {
			return nil
		}
		i := d.now.at.index + 1 + d.rng.Uint64N(common-d.now.at.index)
		// Either truncation point may be found while it is being written.
		before := len(d.legal)
		for _, m := range d.legal[:before] {
			m = m.clone()
			m.truncate(i)
			d.legal = append(d.legal, m)
		}
		if err := d.l.Truncate(i); err != nil {
			return err
		}
		d.legal = d.legal[before:]
		d.now.truncate(i)
	case r == 1 && d.rng.IntN(3) == 0:
		m := model{at: position{d.now.last() + d.rng.Uint64N(50), d.term}, hard: HardState{Term: d.term, Commit: d.now.last()}}
		d.legal = append(d.legal, m)
		if err := d.l.Reset(m.at.index, m.at.term, m.hard); err != nil {
			return err
		}
		d.now, d.legal = m.clone(), []model{m.clone()}
	case r < 8:
		if err := d.l.Sync(); err != nil {
			return err
		}
		d.legal = []model{d.now.clone()}
	default:
		b := d.batch()
		d.now.append(b)
		d.legal = append(d.legal, d.now.clone())
		return d.l.Append(b)
	}
	return nil
}

// TestCrashAgainstModel crashes a log at random operations of the disk, with random fates for everything unsynced. What
// was synced is never lost and nothing is invented.
func TestCrashAgainstModel(t *testing.T) {
	runs := uint64(400)
	if testing.Short() {
		runs = 40
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d := newDriver(t, seed)
			for range 6 {
				d.fs.PowerOffAfter(d.rng.IntN(120))
				var err error
				for err == nil {
					err = d.step()
				}
				if !errors.Is(err, disk.ErrPowerOff) {
					t.Fatal(err)
				}
				d.l.Close()
				d.fs.Crash(d.rng)
				// Recovery itself may lose power too.
				for d.rng.IntN(2) == 0 {
					d.fs.PowerOffAfter(d.rng.IntN(6))
					if l, err := Open(d.fs, "wal", d.opt); err == nil {
						l.Close()
					} else if !errors.Is(err, disk.ErrPowerOff) {
						t.Fatal(err)
					}
					d.fs.Crash(d.rng)
				}
				d.reopen()
			}
			for range 50 {
				if err := d.step(); err != nil {
					t.Fatal(err)
				}
			}
			if diff := d.now.diff(t, d.l); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}
