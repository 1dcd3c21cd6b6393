// Package member is the deterministic machine of the cluster's members. It does not decide who votes: raft does, when the membership-change
// entry that carries a part of this machine is applied.
package member

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
)

// Machine is the member machine. Changes happen on the apply goroutine; readers take mu.
type Machine struct {
	mu      sync.RWMutex
	members map[uint64]emember.Member // the readers' map; guarded by mu
	removed map[uint64]struct{}       // ids used up for good; guarded by mu

	level   atomic.Uint32 // of the cluster; written by the apply goroutine
	changes atomic.Uint64 // how often members or removed changed; written by the apply goroutine

	raised   uint16                     // to which level by this entry; 0: not. Apply goroutine only.
	pending  map[uint64]*emember.Member // changed in this entry; nil = removed. Apply goroutine only.
	accepted bool                       // the last Do carried out an Add, Remove or Promote. Apply goroutine only.
}

// New returns an empty machine; Load fills it.
func New() *Machine { return &Machine{pending: map[uint64]*emember.Member{}} }

// Store keys: 'm' 'm' id → member, 'm' 'r' id → removed marker.
func memberKey(id uint64) []byte  { return binary.BigEndian.AppendUint64([]byte{'m', 'm'}, id) }
func removedKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'m', 'r'}, id) }

// Spec is what others must know of this machine. It has no Restore: the restore itself sets the members of the new cluster.
var Spec = machine.Spec{ID: entry.MachineMember, Name: "member", DescribePart: emember.Describe, DescribeRow: DescribeRow}

// Spec implements machine.Machine.
func (m *Machine) Spec() *machine.Spec { return &Spec }

// Load implements machine.Machine.
func (m *Machine) Load(r store.Store, _ *machine.Gate) error {
	members, removed := map[uint64]emember.Member{}, map[uint64]struct{}{}
	level, err := readLevel(r)
	if err != nil {
		return err
	}
	err = each(r, func(mb emember.Member) { members[mb.ID] = mb }, func(id uint64) { removed[id] = struct{}{} })
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.members, m.removed = members, removed
	m.level.Store(uint32(level))
	m.mu.Unlock()
	m.changes.Add(1)
	clear(m.pending)
	m.raised = 0
	return nil
}

// Changes counts how often the list of members was changed or loaded in this process. It is no part of the state. Safe for concurrent use.
func (m *Machine) Changes() uint64 { return m.changes.Load() }

// Read lists the members that a View holds, and the ids that are used up, both by id.
func Read(r store.Reader) (members []emember.Member, removed []uint64, err error) {
	err = each(r, func(mb emember.Member) { members = append(members, mb) }, func(id uint64) { removed = append(removed, id) })
	return members, removed, err
}

// each walks the machine's rows, by id.
func each(r store.Reader, member func(emember.Member), removed func(uint64)) error {
	it, err := r.NewIter([]byte{'m'}, []byte{'m' + 1})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k := it.Key()
		if string(k) == string(levelKey) {
			continue
		}
		if len(k) != 10 {
			return fmt.Errorf("member machine: unknown key %q", k)
		}
		id := binary.BigEndian.Uint64(k[2:])
		if bytes.HasPrefix(k, []byte{'m', 'r'}) {
			removed(id)
			continue
		}
		v, err := it.Value()
		if err != nil {
			return err
		}
		mb, err := emember.DecodeMember(v)
		if err != nil {
			return fmt.Errorf("member %x: %w", id, err)
		}
		mb.ID = id
		member(mb)
	}
	return it.Error()
}

// Bootstrap writes the first members into a batch, before there is a log.
func Bootstrap(b store.Batch, members []emember.Member) {
	for i := range members {
		b.Set(memberKey(members[i].ID), emember.AppendMember(nil, &members[i]))
	}
}

// Row is a member's row in the store.
func Row(m *emember.Member) (key, value []byte) { return memberKey(m.ID), emember.AppendMember(nil, m) }

// get sees earlier commands of the same entry. Apply goroutine only.
func (m *Machine) get(id uint64) (emember.Member, bool) {
	if p, ok := m.pending[id]; ok {
		if p == nil {
			return emember.Member{}, false
		}
		return *p, true
	}
	mb, ok := m.members[id]
	return mb, ok
}

func (m *Machine) ids() []uint64 {
	set := map[uint64]struct{}{}
	for id := range m.members { // any order: a set
		set[id] = struct{}{}
	}
	for id, p := range m.pending { // any order: a set
		if p == nil {
			delete(set, id)
		} else {
			set[id] = struct{}{}
		}
	}
	out := make([]uint64, 0, len(set))
	for id := range set { // any order: sorted below
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// peerURLTaken finds another member with one of the addresses.
func (m *Machine) peerURLTaken(self uint64, urls []string) bool {
	for _, id := range m.ids() {
		if id == self {
			continue
		}
		mb, _ := m.get(id)
		for _, u := range urls {
			if slices.Contains(mb.PeerURLs, u) {
				return true
			}
		}
	}
	return false
}

// gone reports whether id was removed, in this entry or before.
func (m *Machine) gone(id uint64) bool {
	if p, changed := m.pending[id]; changed && p == nil {
		return true
	}
	_, gone := m.removed[id]
	return gone
}

// otherVoter reports whether a member other than id votes.
func (m *Machine) otherVoter(id uint64) bool {
	for _, o := range m.ids() {
		if mb, _ := m.get(o); o != id && !mb.Learner {
			return true
		}
	}
	return false
}

// Check implements machine.Machine.
func (m *Machine) Check(st *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	p, err := emember.DecodePart(body)
	if err != nil {
		return nil, nil, fmt.Errorf("member part at %s: %w", st.Pos, err)
	}
	no := func(c entry.Code, f string, a ...any) (any, *entry.Rejection, error) {
		return nil, &entry.Rejection{Machine: entry.MachineMember, Code: c, Detail: fmt.Sprintf(f, a...)}, nil
	}
	switch {
	case p.Add != nil:
		id := p.Add.Member.ID
		if _, ok := m.get(id); ok {
			return no(emember.Exists, "member %x exists", id)
		}
		if m.gone(id) {
			return no(emember.WasRemoved, "member %x was removed; ids are never reused", id)
		}
		if m.peerURLTaken(id, p.Add.Member.PeerURLs) {
			return no(emember.PeerURLExists, "peer address %v exists", p.Add.Member.PeerURLs)
		}
	case p.Remove != nil:
		if _, ok := m.get(p.Remove.ID); !ok {
			return no(emember.NotFound, "member %x not found", p.Remove.ID)
		}
		// Two removals may each have been allowed when they were asked for. Raft cannot live without a voter, and panics.
		if !m.otherVoter(p.Remove.ID) {
			return no(emember.LastVoter, "member %x is the last one that votes", p.Remove.ID)
		}
	case p.Promote != nil:
		mb, ok := m.get(p.Promote.ID)
		if !ok {
			return no(emember.NotFound, "member %x not found", p.Promote.ID)
		}
		if !mb.Learner {
			return no(emember.NotLearner, "member %x is not a learner", p.Promote.ID)
		}
	case p.Publish != nil:
		if _, ok := m.get(p.Publish.ID); !ok {
			return no(emember.NotFound, "member %x not found", p.Publish.ID)
		}
	case p.Claim != nil:
		mb, ok := m.get(p.Claim.ID)
		if !ok {
			return no(emember.NotFound, "member %x not found", p.Claim.ID)
		}
		if mb.Name != "" || mb.Nonce != 0 && mb.Nonce != p.Claim.Nonce {
			return no(emember.Claimed, "member %x has been started already", p.Claim.ID)
		}
	case p.SetPeers != nil:
		if _, ok := m.get(p.SetPeers.ID); !ok {
			return no(emember.NotFound, "member %x not found", p.SetPeers.ID)
		}
		if m.peerURLTaken(p.SetPeers.ID, p.SetPeers.PeerURLs) {
			return no(emember.PeerURLExists, "peer address %v exists", p.SetPeers.PeerURLs)
		}
	case p.RaiseLevel != nil:
		if at := max(m.Level(), m.raised); p.RaiseLevel.Level <= at {
			return no(emember.LevelReached, "the cluster is at level %d", at)
		}
		for _, id := range m.ids() {
			if !slices.Contains(p.RaiseLevel.Members, id) {
				return no(emember.LevelUnknown, "member %x has not said that it knows level %d", id, p.RaiseLevel.Level)
			}
		}
	}
	return p, nil, nil
}

// Readable implements machine.Machine.
func (m *Machine) Readable(body []byte) error {
	if _, err := emember.DecodePart(body); err != nil {
		return fmt.Errorf("member part: %w", err)
	}
	return nil
}

// Do implements machine.Machine.
func (m *Machine) Do(st *entry.Stamp, plan any, b store.Batch, wanted bool) (any, error) {
	p := plan.(*emember.Part)
	put := func(mb emember.Member) {
		m.pending[mb.ID] = &mb
		b.Set(memberKey(mb.ID), emember.AppendMember(nil, &mb))
	}
	switch {
	case p.Add != nil:
		put(p.Add.Member)
		m.accepted = true
	case p.Remove != nil:
		m.pending[p.Remove.ID] = nil
		b.Delete(memberKey(p.Remove.ID))
		b.Set(removedKey(p.Remove.ID), nil)
		m.accepted = true
	case p.Promote != nil:
		mb, _ := m.get(p.Promote.ID)
		mb.Learner, mb.AutoPromote = false, false
		put(mb)
		m.accepted = true
	case p.Publish != nil:
		mb, _ := m.get(p.Publish.ID)
		mb.Name, mb.ClientURLs = p.Publish.Name, p.Publish.ClientURLs
		put(mb)
	case p.Claim != nil:
		mb, _ := m.get(p.Claim.ID)
		mb.Nonce = p.Claim.Nonce
		put(mb)
	case p.SetPeers != nil:
		mb, _ := m.get(p.SetPeers.ID)
		mb.PeerURLs = p.SetPeers.PeerURLs
		put(mb)
	case p.RaiseLevel != nil:
		m.raised = p.RaiseLevel.Level
		b.Set(levelKey, appendLevel(nil, m.raised))
	}
	return nil, nil
}

// TakeAccepted reports whether a membership change was carried out since the last call. The node asks between Do and the end of the batch,
// and lets raft make the same change effective. Apply goroutine only.
func (m *Machine) TakeAccepted() bool {
	a := m.accepted
	m.accepted = false
	return a
}

// Publish implements machine.Machine. Its readers take no gate: they see members a moment early or late, which no promise forbids.
func (m *Machine) Publish(*entry.Stamp) {
	if len(m.pending) == 0 && m.raised == 0 {
		return
	}
	m.mu.Lock()
	if m.raised != 0 {
		m.level.Store(uint32(m.raised))
		m.raised = 0
	}
	for id, p := range m.pending { // any order: each id is one entry of a map
		if p == nil {
			delete(m.members, id)
			m.removed[id] = struct{}{}
		} else {
			m.members[id] = *p
		}
	}
	m.mu.Unlock()
	if len(m.pending) > 0 {
		m.changes.Add(1)
	}
	clear(m.pending)
}

// List returns all members by id.
func (m *Machine) List() []emember.Member {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]emember.Member, 0, len(m.members))
	for _, mb := range m.members { // any order: sorted below
		out = append(out, mb)
	}
	slices.SortFunc(out, func(a, b emember.Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}

// Get returns one member.
func (m *Machine) Get(id uint64) (emember.Member, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	mb, ok := m.members[id]
	return mb, ok
}

// AllRemoved returns the ids of all that were members once and are no more, in their order; the slice is the caller's. Safe for concurrent use.
func (m *Machine) AllRemoved() []uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.removed))
}

// Removed reports whether id was a member once and is no more.
func (m *Machine) Removed(id uint64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, gone := m.removed[id]
	return gone
}
