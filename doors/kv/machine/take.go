package machine

import (
	"fmt"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// The functions below fill an empty machine with the history of another server, with its revisions. It is no command: no client can ask for
// it, and no log carries it. An import or restore calls them between Check and Finish of an entry (machine.Applier.ApplyWith). So the rows
// are those which the same history would have left here. Apply goroutine only.

// Take adds one version of a key, or a deletion, to the entry. They come in the order of revisions; versions left by compaction come as
// they are, without their predecessors. The value must stay as it is until Publish.
func (m *Machine) Take(v *Version) error {
	if v.KV.ModRevision < m.now.rev {
		return fmt.Errorf("take revision %d after %d", v.KV.ModRevision, m.now.rev)
	}
	s, err := m.slot(v.KV.Key)
	if err != nil {
		return err
	}
	next := meta{mod: v.KV.ModRevision, sub: v.Sub}
	if !v.Deleted {
		next.create, next.version, next.lease = v.KV.CreateRevision, v.KV.Version, v.KV.Lease
		next.valLen = uint32(len(v.KV.Value))
	}
	m.entry.add(s, next, v.KV.Value)
	m.now.rev = max(m.now.rev, next.mod)
	m.dirty = true
	return nil
}

// TakeRevision raises the current revision and sets the compacted one, 0 for none. Entries that follow drop what is below, as
// after any compaction (Unfinished).
func (m *Machine) TakeRevision(current, compacted int64) {
	m.now.rev = max(m.now.rev, current, compacted)
	if compacted > 0 {
		m.now.compacted = compacted
	}
	m.dirty = true
}

// TakeLease adds a lease.
func (m *Machine) TakeLease(l Lease) { m.logLease(leaseWrite{id: l.ID, ttl: l.TTL}) }

// TakeAlarm raises an alarm.
func (m *Machine) TakeAlarm(a kvpart.AlarmState) {
	m.alarmLog = append(m.alarmLog, alarmWrite{AlarmState: a, on: true})
}
