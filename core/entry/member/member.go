// Package member defines the command parts of the member machine: the members of the cluster, with their names and addresses. Raft decides
// the voters. Additions and removals travel in raft's membership-change entries, whose context carries one of these parts.
package member

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/internal/wire"
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
	// RaiseLevel raises the level of the cluster. Members are those that have said that they know it: it takes effect only if there is
	// no other. A build before the first level does not know this part, so it is proposed only once every member has spoken.
	RaiseLevel struct {
		Level   uint16
		Members []uint64
	}
)

// Part is one member command part; exactly one pointer is set.
type Part struct {
	Add        *Add
	Remove     *Remove
	Promote    *Promote
	Publish    *Publish
	Claim      *Claim
	SetPeers   *SetPeers
	RaiseLevel *RaiseLevel
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
	LevelReached // the cluster is there already, or above
	LevelUnknown // a member has not said that it knows the level
)

const (
	kindAdd = 1 + iota
	kindRemove
	kindPromote
	kindPublish
	kindClaim
	kindSetPeers
	kindRaiseLevel
)

const (
	flagLearner = 1 << iota
	flagAutoPromote
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
		b = wire.AppendBytes(b, p.Publish.Name)
		return appendStrings(b, p.Publish.ClientURLs)
	case p.Claim != nil:
		b = binary.LittleEndian.AppendUint64(append(b, kindClaim), p.Claim.ID)
		b = binary.LittleEndian.AppendUint64(b, p.Claim.Nonce)
		return wire.AppendBytes(b, p.Claim.Name)
	case p.SetPeers != nil:
		b = binary.LittleEndian.AppendUint64(append(b, kindSetPeers), p.SetPeers.ID)
		return appendStrings(b, p.SetPeers.PeerURLs)
	case p.RaiseLevel != nil:
		b = binary.AppendUvarint(append(b, kindRaiseLevel), uint64(p.RaiseLevel.Level))
		b = binary.AppendUvarint(b, uint64(len(p.RaiseLevel.Members)))
		for _, id := range p.RaiseLevel.Members {
			b = binary.LittleEndian.AppendUint64(b, id)
		}
		return b
	}
	panic("empty member part")
}

// DecodePart decodes what AppendPart wrote.
func DecodePart(b []byte) (*Part, error) {
	r := wire.NewReader(b)
	p := &Part{}
	switch r.Byte() {
	case kindAdd:
		p.Add = &Add{Member: takeMember(&r)}
	case kindRemove:
		p.Remove = &Remove{ID: r.Uint64()}
	case kindPromote:
		p.Promote = &Promote{ID: r.Uint64()}
	case kindPublish:
		p.Publish = &Publish{ID: r.Uint64(), Name: r.Text(), ClientURLs: takeStrings(&r)}
	case kindClaim:
		p.Claim = &Claim{ID: r.Uint64(), Nonce: r.Uint64(), Name: r.Text()}
	case kindSetPeers:
		p.SetPeers = &SetPeers{ID: r.Uint64(), PeerURLs: takeStrings(&r)}
	case kindRaiseLevel:
		p.RaiseLevel = takeRaiseLevel(&r)
	default:
		r.Fail(ErrMalformed)
	}
	if r.End() != nil {
		return nil, ErrMalformed
	}
	return p, nil
}

func takeRaiseLevel(r *wire.Reader) *RaiseLevel {
	level := r.Uvarint()
	if level > math.MaxUint16 {
		r.Fail(ErrMalformed)
	}
	p := &RaiseLevel{Level: uint16(level)}
	for range r.Count(math.MaxInt32, 8) {
		p.Members = append(p.Members, r.Uint64())
	}
	return p
}

// AppendMember encodes m: the value of its row and the body of Add.
func AppendMember(b []byte, m *Member) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.ID)
	b = binary.LittleEndian.AppendUint64(b, m.Nonce)
	b = append(b, wire.Bit(m.Learner, flagLearner)|wire.Bit(m.AutoPromote, flagAutoPromote))
	b = wire.AppendBytes(b, m.Name)
	b = appendStrings(b, m.PeerURLs)
	return appendStrings(b, m.ClientURLs)
}

// DecodeMember decodes what AppendMember wrote.
func DecodeMember(b []byte) (Member, error) {
	r := wire.NewReader(b)
	m := takeMember(&r)
	if r.End() != nil {
		return Member{}, ErrMalformed
	}
	return m, nil
}

func appendStrings(b []byte, ss []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(ss)))
	for _, s := range ss {
		b = wire.AppendBytes(b, s)
	}
	return b
}

func takeStrings(r *wire.Reader) []string {
	n := r.Count(math.MaxInt32, 1)
	if n == 0 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = r.Text()
	}
	return out
}

func takeMember(r *wire.Reader) Member {
	m := Member{ID: r.Uint64(), Nonce: r.Uint64()}
	flags := r.Flags(flagLearner|flagAutoPromote, ErrMalformed)
	m.Learner, m.AutoPromote = flags&flagLearner != 0, flags&flagAutoPromote != 0
	m.Name, m.PeerURLs, m.ClientURLs = r.Text(), takeStrings(r), takeStrings(r)
	return m
}
