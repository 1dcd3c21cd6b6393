package etcd2

import (
	"fmt"
	"math"
)

// never is the deadline of a tree in which everything stays.
const never = math.MaxInt64

// NextDeadline returns the tick at which the next node's time is up, math.MaxInt64 if there is none, and a channel that is
// closed when a node may have got an earlier one. Safe for concurrent use; meant for one worker, which asks again after
// either has come.
func (m *Machine) NextDeadline() (tick int64, sooner <-chan struct{}, err error) {
	m.mu.Lock()
	cursor, now := m.pubCursor.Load(), m.pubTick.Load()
	it, err := m.st.NewIter(appendDeadlineKey(nil, cursor, []byte("/")), []byte{letter, spaceDeadline + 1})
	if m.sooner == nil {
		m.sooner = make(chan struct{})
	}
	// Until the first row is read any new deadline counts as an earlier one.
	m.soonest = never
	ch := m.sooner
	m.mu.Unlock()
	if err != nil {
		return 0, ch, fmt.Errorf("read deadlines: %w", err)
	}
	defer it.Close()
	tick = never
	if it.First() {
		if tick, _, err = splitDeadlineKey(it.Key()); err != nil {
			return 0, ch, err
		}
	}
	if err := it.Error(); err != nil {
		return 0, ch, fmt.Errorf("read deadlines: %w", err)
	}
	// There is nothing before the first row, and there will not be before the tick of the entry it was read after.
	for to := min(tick, now); ; {
		old := m.pubCursor.Load()
		if to <= old || m.pubCursor.CompareAndSwap(old, to) {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sooner == ch {
		m.soonest = tick
	}
	return tick, ch, nil
}
