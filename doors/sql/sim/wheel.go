package sim

import (
	"encoding/binary"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/sim"
)

// The table wheel has some spokes, and each says how often the wheel was turned. A turn writes all of them, so that it is by far the largest transaction of a
// run. Its last row lies under the number of the turn, so that a turn deletes one row and inserts another.
const spokeCount = 24

// turned is what a transaction has done to the wheel: how often it has turned it, and after how many turns of all transactions it has left it.
type turned struct{ times, at uint64 }

// lastSpoke is the key of the row that goes with a number of turns.
func lastSpoke(turns uint64) []byte { return idKey(1<<32 + turns) }

func spoke(i int) []byte { return idKey(uint64(i)) }

func turnsValue(turns uint64, by *transaction) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, turns), uint32(by.n))
}

func turnsOf(c *cell) uint64 {
	if !c.exists {
		return 0
	}
	return binary.BigEndian.Uint64(c.value)
}

// turnWheel turns the wheel once.
func (t *transaction) turnWheel() error {
	first, err := t.lock(wheel, 0, spoke(0), lock.Exclusive)
	if err != nil {
		return err
	}
	was := turnsOf(first)
	t.turned = turned{t.turned.times + 1, was + 1}
	for i := range spokeCount {
		c := first
		if i > 0 {
			if c, err = t.lock(wheel, 0, spoke(i), lock.Exclusive); err != nil {
				return err
			}
		}
		if turnsOf(c) != was {
			seen := turnsOf(c)
			t.claim(func() {
				t.b.w.Fail(HalfSeen, "%s: %s turns the wheel, and finds %d turns at spoke %d, and %d at the first", t.h.Name(), t, seen, i, was)
			})
		}
		if err := c.put(turnsValue(was+1, t)); err != nil {
			return err
		}
		if t.b.r.IntN(40) == 0 {
			t.think()
		}
	}
	if was > 0 {
		c, err := t.lock(wheel, 0, lastSpoke(was), lock.Exclusive)
		if err != nil {
			return err
		}
		if !c.exists {
			t.claim(func() {
				t.b.w.Fail(HalfSeen, "%s: %s turns the wheel after %d turns, and the last row is not there", t.h.Name(), t, was)
			})
			return errTakenBack
		}
		if err := c.delete(); err != nil {
			return err
		}
	}
	c, err := t.lock(wheel, 0, lastSpoke(was+1), lock.Exclusive)
	if err != nil {
		return err
	}
	t.b.w.Count(Turns, 1)
	return c.put(turnsValue(was+1, t))
}

// readSpokes reads two spokes with locks.
func (t *transaction) readSpokes() error {
	known, r := t.b.known.turns, t.b.r
	i, j := r.IntN(spokeCount), r.IntN(spokeCount)
	a, err := t.lock(wheel, 0, spoke(i), lock.Shared)
	if err != nil {
		return err
	}
	b, err := t.lock(wheel, 0, spoke(j), lock.Shared)
	if err != nil {
		return err
	}
	one, two := turnsOf(a), turnsOf(b)
	t.claim(func() {
		if one != two {
			t.b.w.Fail(HalfSeen, "%s: %s reads %d turns at spoke %d and %d at spoke %d", t.h.Name(), t, one, i, two, j)
		}
		if one < known {
			t.b.w.Fail(StaleRead, "%s: %s reads %d turns with locks, and there were %d before", t.h.Name(), t, one, known)
		}
	})
	return nil
}

// readWheel reads the whole wheel from the snapshot, forwards or backwards, and a spoke by its key.
func (t *transaction) readWheel() error {
	s, err := t.look(wheel, t.turned.times > 0)
	if err != nil {
		return err
	}
	tab := table(t.h, wheel)
	it, err := t.x.Scan(tab.ID, 0, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close() // what went wrong is in Error
	move, ok := it.Next, false
	if t.b.r.IntN(2) == 0 {
		ok = it.First()
	} else {
		move, ok = it.Prev, it.Last()
	}
	var turns []uint64
	for ; ok; ok = move() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		turns = append(turns, binary.BigEndian.Uint64(v))
	}
	if err := it.Error(); err != nil {
		return err
	}
	i := t.b.r.IntN(spokeCount)
	v, exists, err := t.x.Get(tab.ID, 0, spoke(i))
	if err != nil {
		return err
	}
	if exists {
		turns = append(turns, binary.BigEndian.Uint64(v))
	}
	t.b.w.Count(Wheels, 1)
	if n := len(turns); n != 0 && n != spokeCount+2 {
		t.b.w.Fail(HalfSeen, "%s: %s sees %d rows of the wheel", t.h.Name(), t, n)
	}
	for _, n := range turns {
		if n != turns[0] {
			t.b.w.Fail(HalfSeen, "%s: %s sees the wheel after %v turns", t.h.Name(), t, turns)
		}
	}
	if seen := append(turns, 0)[0]; seen < s.known.turns {
		t.b.w.Fail(StaleRead, "%s: %s sees the wheel after %d turns, and there were %d before", t.h.Name(), t, seen, s.known.turns)
	}
	return nil
}

// checkWheel checks that the wheel was turned as often as transactions that took effect have turned it.
func (b *book) checkWheel(h *sim.Member, took map[*transaction]bool) {
	var want uint64
	for _, t := range b.txs {
		if took[t] {
			want += t.turned.times
		}
	}
	all := b.read(h, wheel, 0)
	if want == 0 && len(all) == 0 {
		return
	}
	if len(all) != spokeCount+1 {
		b.w.Fail(CommitLost, "the wheel has %d rows in the end", len(all))
	}
	for _, p := range all {
		if is := binary.BigEndian.Uint64(p.value); is != want {
			b.w.Fail(CommitLost, "the wheel was turned %d times, and row %x says %d", want, p.key, is)
		}
	}
}
