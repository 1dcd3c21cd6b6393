package machine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// plan is what Check hands to Do. Its writes stand in the machine's entryWrites from start on, already judged.
//
// Check of a Txn must know the effect of each operation on later ones. "Delete from b on; put b/3 keeping its value" has to be refused
// although b/3 exists beforehand. Judging operations one by one against the state before the Txn, as etcd does, finds that out while
// carrying it out, too late to refuse. So Check carries the writes out in memory, where they can be undone, and Do only makes them count.
type plan struct {
	part    *kvpart.Part
	start   int   // index of its first write
	runs    int   // of the entry before it
	rev     int64 // the machine's revision after it
	path    []bool
	deleted []int32 // keys of each delete carried out, in order
	rest    *sweep  // the part of a delete of very many keys left for Do; mostly nil
	revoked []int64
	alarms  []alarmWrite

	puts, putBytes, ranges uint64 // operations in it, for Stats
}

// Check implements machine.Machine.
func (m *Machine) Check(_ *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	m.dropPlan()
	part, err := m.decoder.Decode(body)
	if err != nil {
		if errors.Is(err, kvpart.ErrKind) {
			return nil, nil, err
		}
		return nil, reject(kvpart.Malformed, err.Error()), nil
	}
	p := &m.plan
	p.part, p.start, p.runs, p.rev = part, len(m.entry.writes), len(m.entry.runs), m.now.rev
	p.path, p.deleted, p.revoked, p.alarms = p.path[:0], p.deleted[:0], p.revoked[:0], p.alarms[:0]
	p.puts, p.putBytes, p.ranges, p.rest = 0, 0, 0, nil
	m.open = true
	rej, err := m.judge(p)
	if rej != nil || err != nil {
		m.dropPlan()
		return nil, rej, err
	}
	return p, nil, nil
}

// decoders serve Readable. A decoder keeps the memory of its last part, so decoders that had large parts are not reused.
var decoders = sync.Pool{New: func() any { return new(kvpart.Decoder) }}

const maxKeptPart = 16 << 10

// Readable implements machine.Machine.
func (m *Machine) Readable(body []byte) error {
	if kvpart.Plain(body) {
		return nil
	}
	d := decoders.Get().(*kvpart.Decoder)
	_, err := d.Decode(body)
	if len(body) <= maxKeptPart {
		decoders.Put(d)
	}
	if errors.Is(err, kvpart.ErrKind) {
		return err
	}
	return nil // malformed in another way: Check rejects it
}

// dropPlan takes back the writes of a plan that was not carried out: another part of its command was rejected.
func (m *Machine) dropPlan() {
	if m.open {
		m.entry.runs = m.entry.runs[:m.plan.runs]
		m.entry.undo(m.plan.start)
		m.open = false
	}
}

func reject(code entry.Code, detail string) *entry.Rejection {
	text := kvpart.CodeText(code)
	if detail != "" {
		text += ": " + detail
	}
	return &entry.Rejection{Code: code, Detail: text}
}

func (m *Machine) judge(p *plan) (*entry.Rejection, error) {
	if p.part.Within != nil {
		if rej, err := m.judgeWithin(p.part); rej != nil || err != nil {
			return rej, err
		}
	}
	switch part := p.part; {
	case part.Put != nil:
		return m.judgePut(p, part.Put)
	case part.Delete != nil:
		return m.judgeDelete(p, part.Delete)
	case part.Txn != nil:
		return m.judgeTxn(p, part.Txn)
	case part.Compact != nil:
		switch rev := part.Compact.Revision; {
		case rev <= m.now.compacted:
			return reject(kvpart.Compacted, fmt.Sprintf("compacted to %d", m.now.compacted)), nil
		case rev > m.now.rev:
			return reject(kvpart.FutureRevision, fmt.Sprintf("current revision is %d", m.now.rev)), nil
		}
		return nil, nil
	case part.Grant != nil:
		switch _, exists := m.leaseTTL(part.Grant.ID); {
		case part.Grant.ID == 0:
			return reject(kvpart.Malformed, "lease id 0"), nil
		case exists:
			return reject(kvpart.LeaseExists, fmt.Sprintf("lease %x", uint64(part.Grant.ID))), nil
		}
		return nil, nil
	case part.Revoke != nil:
		return m.judgeRevoke(p, part.Revoke)
	case part.Alarm != nil:
		p.alarms = m.planAlarms(p.alarms, part.Alarm)
		return nil, nil
	}
	return nil, fmt.Errorf("kv part without content: %w", kvpart.ErrKind)
}

// known returns the slot of key if there is one.
func (m *Machine) known(key []byte) *slot {
	if s := m.cache.get(key); s != nil {
		return s
	}
	return m.entry.runs.get(key)
}

// slot returns what is known of key, reading the store if it was not seen lately.
func (m *Machine) slot(key []byte) (*slot, error) {
	if s := m.known(key); s != nil {
		return s, nil
	}
	if m.filter.absent(key) || m.entry.swept(key, 0) {
		return m.cache.add(key, meta{}, nil), nil
	}
	m.key = appendCurrentKey(m.key[:0], key)
	row, ok, err := m.st.Get(m.row[:0], m.key)
	if err != nil {
		return nil, fmt.Errorf("read current row: %w", err)
	}
	m.row = row[:0]
	if !ok {
		return m.cache.add(key, meta{}, nil), nil
	}
	mt, value, _, err := decodeCurrentRow(row)
	if err != nil {
		return nil, err
	}
	return m.cache.add(key, mt, value), nil
}

// sub is the place within its revision of the next write of the plan.
func (p *plan) sub(e *entryWrites, first int) uint32 { return uint32(len(e.writes) - first) }

func (m *Machine) judgePut(p *plan, put *kvpart.Put) (*entry.Rejection, error) {
	if len(put.Key) == 0 {
		return reject(kvpart.Malformed, "empty key"), nil
	}
	lease := put.Lease
	if lease != 0 {
		if _, ok := m.leaseTTL(lease); !ok {
			return reject(kvpart.LeaseNotFound, fmt.Sprintf("lease %x", uint64(lease))), nil
		}
	}
	s, err := m.slot(put.Key)
	if err != nil {
		return nil, err
	}
	if (put.IgnoreValue || put.IgnoreLease) && !s.exists() {
		return reject(kvpart.KeyNotFound, ""), nil
	}
	value := put.Value
	if put.IgnoreValue {
		if value, err = m.valueNow(s); err != nil {
			return nil, err
		}
	}
	if put.IgnoreLease {
		lease = s.lease
	}
	rev := m.now.rev + 1
	next := meta{create: rev, mod: rev, version: 1, lease: lease, sub: p.sub(&m.entry, p.start), valLen: uint32(len(value))}
	if s.exists() {
		next.create, next.version = s.create, s.version+1
	}
	m.entry.add(s, next, value)
	p.rev = rev
	p.puts++
	p.putBytes += uint64(len(put.Key) + len(value))
	return nil, nil
}

func (m *Machine) judgeDelete(p *plan, d *kvpart.DeleteRange) (*entry.Rejection, error) {
	if len(d.Key) == 0 {
		return reject(kvpart.Malformed, "empty key"), nil
	}
	rev := m.now.rev + 1
	before := len(m.entry.writes)
	if len(d.End) == 0 {
		s, err := m.slot(d.Key)
		if err != nil {
			return nil, err
		}
		m.deleteSlot(s, rev, p.start)
	} else {
		sc, err := m.entryScan(d.Key, d.End, before, 0)
		if err != nil {
			return nil, err
		}
		defer sc.close()
		lent := false
		for n := 1; ; n++ {
			ok, err := sc.next()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			v, err := sc.version()
			if err != nil {
				return nil, err
			}
			var s *slot
			if !lent || sc.written() { // else the entry has no write of it, and so it has no slot
				s = m.known(v.key)
			}
			if s == nil {
				var value []byte
				if v.later() {
					if value, err = sc.value(); err != nil {
						return nil, err
					}
				}
				if lent {
					s = m.entry.runs.add(v.key, v.meta, value)
				} else {
					s = m.cache.add(v.key, v.meta, value)
				}
			}
			m.deleteSlot(s, rev, p.start)
			if n == m.fewDeletes {
				swept := d.ByRange && !d.PrevKV && m.leave(p, d, before)
				m.cache.only(m.entry.writes)
				if swept {
					p.rev, p.deleted = rev, append(p.deleted, 0)
					return nil, nil
				}
				m.entry.runs.begin()
				lent = true
				if err := sc.readAhead(m.st, d.End); err != nil {
					return nil, err
				}
			}
		}
	}
	n := len(m.entry.writes) - before
	p.deleted = append(p.deleted, int32(n))
	if n > 0 {
		p.rev = rev
	}
	return nil, nil
}

// deleteSlot records the deletion of a key at rev, with its first write at index first; nothing if it does not exist.
func (m *Machine) deleteSlot(s *slot, rev int64, first int) {
	if s.exists() {
		m.entry.add(s, meta{mod: rev, sub: uint32(len(m.entry.writes) - first)}, nil)
	}
}

// valueNow returns the value of a key that exists, as this entry left it. The memory lasts until Publish.
func (m *Machine) valueNow(s *slot) ([]byte, error) {
	if s.last != 0 {
		return m.entry.writes[s.last-1].value, nil
	}
	return m.storedValue(&m.entry.held, s, &s.meta)
}

// storedValue copies the value the store has of a key into mem. mt is that version: the newest before this entry.
func (m *Machine) storedValue(mem *arena, s *slot, mt *meta) ([]byte, error) {
	switch {
	case mt.valLen == 0:
		return nil, nil
	case mt.later():
		return mem.copy(s.kept), nil
	}
	row, value, err := historyValue(m.st, m.row, s.key, mt)
	if err != nil {
		return nil, err
	}
	m.row = row[:0]
	return mem.copy(value), nil
}
