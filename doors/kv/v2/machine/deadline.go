package machine

import (
	"bytes"
	"fmt"
	"math"
)

// never is the earliest deadline where no node has one.
const never = math.MaxInt64

// NextDeadline returns the next tick at which a node expires, math.MaxInt64 if there is none. The channel is closed when a node may have
// got an earlier one. Safe for concurrent use; meant for one worker, which asks again at the tick or when the channel is closed.
func (m *Machine) NextDeadline() (tick int64, sooner <-chan struct{}, err error) {
	m.gate.Lock()
	// Later entries add no deadline before the tick of the last published one, so the search need not go back behind it.
	edge := appendDeadlineKey(nil, m.pubTick.Load(), []byte("/"))
	it, err := m.st.NewIter(m.pubCursor, []byte{letter, spaceDeadline + 1})
	if m.sooner == nil {
		m.sooner = make(chan struct{})
	}
	// Until the first row is read any new deadline counts as an earlier one.
	m.soonest = never
	ch := m.sooner
	m.gate.Unlock()
	if err != nil {
		return 0, ch, fmt.Errorf("read deadlines: %w", err)
	}
	defer it.Close()
	tick = never
	if it.First() {
		if bytes.Compare(it.Key(), edge) < 0 {
			edge = bytes.Clone(it.Key())
		}
		if tick, _, err = splitDeadlineKey(it.Key()); err != nil {
			return 0, ch, err
		}
	}
	if err := it.Error(); err != nil {
		return 0, ch, fmt.Errorf("read deadlines: %w", err)
	}
	m.gate.Lock()
	defer m.gate.Unlock()
	if m.sooner == ch {
		m.soonest = tick
	}
	// There is nothing before the first row, and there will not be before edge.
	if bytes.Compare(edge, m.pubCursor) > 0 {
		m.pubCursor = edge
	}
	return tick, ch, nil
}
