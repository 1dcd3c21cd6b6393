package machine

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// alarmWrite raises or clears one alarm in the entry being applied.
type alarmWrite struct {
	kvpart.AlarmState
	on bool
}

// alarmOn looks an alarm up as this entry left it. Apply goroutine only.
func (m *Machine) alarmOn(a kvpart.AlarmState) bool {
	for i := len(m.alarmLog) - 1; i >= 0; i-- {
		if w := &m.alarmLog[i]; w.AlarmState == a {
			return w.on
		}
	}
	return slices.Contains(m.alarms, a)
}

// planAlarms appends what a changes. Raising one that is already raised changes nothing but is answered with it, as in etcd.
// Clearing for member 0 clears every member's alarm of that type; a type of 0 stands for all types, when clearing only.
func (m *Machine) planAlarms(ws []alarmWrite, a *kvpart.Alarm) []alarmWrite {
	if a.On {
		if a.Type == 0 {
			return ws
		}
		return append(ws, alarmWrite{kvpart.AlarmState{Member: a.Member, Type: a.Type}, true})
	}
	candidates := slices.Clone(m.alarms)
	for i := range m.alarmLog {
		candidates = append(candidates, m.alarmLog[i].AlarmState)
	}
	sortAlarms(candidates)
	for _, c := range slices.Compact(candidates) {
		if m.alarmOn(c) && (a.Member == 0 || a.Member == c.Member) && (a.Type == 0 || a.Type == c.Type) {
			ws = append(ws, alarmWrite{c, false})
		}
	}
	return ws
}

func sortAlarms(as []kvpart.AlarmState) {
	slices.SortFunc(as, func(a, b kvpart.AlarmState) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Type, b.Type))
	})
}

func (m *Machine) writeAlarms(b store.Batch) {
	for i := range m.alarmLog {
		w := &m.alarmLog[i]
		m.key = appendAlarmKey(m.key[:0], w.Member, byte(w.Type))
		if w.on {
			b.Set(m.key, nil)
		} else {
			b.Delete(m.key)
		}
	}
}

// publishAlarms shows them to readers; the gate is closed. Readers may hold the old slice, so it is replaced.
func (m *Machine) publishAlarms() {
	next := slices.Clone(m.alarms)
	for i := range m.alarmLog {
		w := &m.alarmLog[i]
		next = slices.DeleteFunc(next, func(a kvpart.AlarmState) bool { return a == w.AlarmState })
		if w.on {
			next = append(next, w.AlarmState)
		}
	}
	sortAlarms(next)
	m.alarms, m.alarmLog = next, m.alarmLog[:0]
}

func loadAlarms(st store.Reader) ([]kvpart.AlarmState, error) {
	it, err := st.NewIter(spaceBounds(spaceAlarm))
	if err != nil {
		return nil, fmt.Errorf("load alarms: %w", err)
	}
	defer it.Close()
	var alarms []kvpart.AlarmState
	for ok := it.First(); ok; ok = it.Next() {
		k := it.Key()
		if len(k) != 11 {
			return nil, fmt.Errorf("alarm row %x: %w", clip(k), errCorrupt)
		}
		alarms = append(alarms, kvpart.AlarmState{Member: binary.BigEndian.Uint64(k[2:]), Type: kvpart.AlarmType(k[10])})
	}
	return alarms, it.Error()
}
