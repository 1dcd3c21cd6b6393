// Package member defines the command parts of the member machine: who belongs to the cluster, under which name and
// addresses. Who votes is raft's business; additions and removals travel in raft's membership-change entries, whose
// context carries one of these parts.
package member

import (
	"encoding/binary"
	"errors"

	"github.com/holdfastdb/holdfast/entry"
)

// Member is one member as the log knows it.
type Member struct {
	ID uint64
	// Name is a label; empty until the member has started once.
	Name       string
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
	// Nonce is the claim of the process that started as this member: only it may come back under this id while starting
	// (DECISIONS A5). 0 = not claimed.
	Nonce uint64
	// AutoPromote: the leader promotes this learner once it has caught up.
	AutoPromote bool
}

// Add, Remove and Promote are the contexts of membership changes. Publish makes a started member's name and addresses
// known; Claim ties an added member to the process that starts as it.
type (
	Add     struct{ Member Member }
	Remove  struct{ ID uint64 }
	Promote struct{ ID uint64 }
	Publish struct {
		ID         uint64
		Name       string
		ClientURLs []string
	}
	Claim struct {
		ID, Nonce uint64
		Name      string
	}
	// SetPeers changes a member's peer addresses.
	SetPeers struct {
		ID       uint64
		PeerURLs []string
	}
)

// Part is one member command part; exactly one pointer is set.
type Part struct {
	Add      *Add
	Remove   *Remove
	Promote  *Promote
	Publish  *Publish
	Claim    *Claim
	SetPeers *SetPeers
}

// Rejection codes of the member machine.
const (
	NotFound entry.Code = 200 + iota
	Exists
	PeerURLExists
	NotLearner
	Claimed
	WasRemoved
	LastVoter
)

const (
	kindAdd = 1 + iota
	kindRemove
	kindPromote
	kindPublish
	kindClaim
	kindSetPeers
)

// ErrMalformed is returned by decoders.
var ErrMalformed = errors.New("malformed member part")

// AppendPart encodes p. Byte table: docs/formats/entry.md.
func AppendPart(b []byte, p *Part) []byte {
	switch {
	case p.Add != nil:
		return AppendMember(append(b, kindAdd), &p.Add.Member)
	case p.Remove != nil:
		return binary.LittleEndian.AppendUint64(append(b, kindRemove), p.Remove.ID)
	case p.Promote != nil:
		return binary.LittleEndian.AppendUint64(append(b, kindPromote), p.Promote.ID)
	case p.Publish != nil:
		b = binary.LittleEndian.AppendUint64(append(b, kindPublish), p.Publish.ID)
		b = appendString(b, p.Publish.Name)
		return appendStrings(b, p.Publish.ClientURLs)
	case p.Claim != nil:
		b = binary.LittleEndian.AppendUint64(append(b, kindClaim), p.Claim.ID)
		b = binary.LittleEndian.AppendUint64(b, p.Claim.Nonce)
		return appendString(b, p.Claim.Name)
	case p.SetPeers != nil:
		b = binary.LittleEndian.AppendUint64(append(b, kindSetPeers), p.SetPeers.ID)
		return appendStrings(b, p.SetPeers.PeerURLs)
	}
	panic("empty member part")
}

// DecodePart decodes what AppendPart wrote.
func DecodePart(b []byte) (*Part, error) {
	d := &decoder{b: b}
	p := &Part{}
	switch d.byte() {
	case kindAdd:
		p.Add = &Add{Member: d.member()}
	case kindRemove:
		p.Remove = &Remove{ID: d.u64()}
	case kindPromote:
		p.Promote = &Promote{ID: d.u64()}
	case kindPublish:
		p.Publish = &Publish{ID: d.u64(), Name: d.str(), ClientURLs: d.strs()}
	case kindClaim:
		p.Claim = &Claim{ID: d.u64(), Nonce: d.u64(), Name: d.str()}
	case kindSetPeers:
		p.SetPeers = &SetPeers{ID: d.u64(), PeerURLs: d.strs()}
	default:
		d.bad = true
	}
	if d.bad || len(d.b) != 0 {
		return nil, ErrMalformed
	}
	return p, nil
}

// AppendMember encodes m: the value of its row and the body of Add.
func AppendMember(b []byte, m *Member) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.ID)
	b = binary.LittleEndian.AppendUint64(b, m.Nonce)
	var flags byte
	if m.Learner {
		flags |= 1
	}
	if m.AutoPromote {
		flags |= 2
	}
	b = append(b, flags)
	b = appendString(b, m.Name)
	b = appendStrings(b, m.PeerURLs)
	return appendStrings(b, m.ClientURLs)
}

// DecodeMember decodes what AppendMember wrote.
func DecodeMember(b []byte) (Member, error) {
	d := &decoder{b: b}
	m := d.member()
	if d.bad || len(d.b) != 0 {
		return Member{}, ErrMalformed
	}
	return m, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendStrings(b []byte, ss []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(ss)))
	for _, s := range ss {
		b = appendString(b, s)
	}
	return b
}

// decoder reads fields; the first error sticks.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.bad, d.b = true, nil }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) u64() uint64 {
	if len(d.b) < 8 {
		d.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) length() int {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > uint64(len(d.b)-n) {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return int(v)
}

func (d *decoder) str() string {
	n := d.length()
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) strs() []string {
	n := d.length()
	var out []string
	for range n {
		if d.bad {
			return nil
		}
		out = append(out, d.str())
	}
	return out
}

func (d *decoder) member() Member {
	m := Member{ID: d.u64(), Nonce: d.u64()}
	flags := d.byte()
	m.Learner, m.AutoPromote = flags&1 != 0, flags&2 != 0
	if flags&^3 != 0 {
		d.fail()
	}
	m.Name, m.PeerURLs, m.ClientURLs = d.str(), d.strs(), d.strs()
	return m
}
