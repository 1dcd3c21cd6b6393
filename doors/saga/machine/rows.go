package machine

import (
	"encoding/binary"
	"errors"
	"fmt"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// The machine's key space (docs/formats/store.md). All keys begin with the machine's letter and a letter for the space. Numbers are 8
// bytes, big endian; a chunk's are 4.
//
//	g c                   the counters
//	g n <gid>             the number of the transaction that has the gid
//	g d <number>          what it began with: head, definition, and its branches if they are small
//	g h <number>          its head, from the first change on
//	g b <number> <chunk>  branches that were given together, and their payloads
//	g t <tick> <number>   its timer, while it is open
//	g r <tick> <number>   transactions to forget at that tick, by the number of the first
//	g q <topic>           a topic
const (
	letter          = byte(sagapart.Machine)
	spaceCounters   = 'c'
	spaceGid        = 'n'
	spaceDefinition = 'd'
	spaceHead       = 'h'
	spaceBranches   = 'b'
	spaceTimer      = 't'
	spaceRetired    = 'r'
	spaceTopic      = 'q'
)

var (
	countersKey  = []byte{letter, spaceCounters}
	retiredSpace = []byte{letter, spaceRetired}
	errCorrupt   = errors.New("saga row does not decode")
)

func clip(b []byte) []byte { return b[:min(len(b), 40)] }

func appendGidKey(dst []byte, gid string) []byte {
	return append(append(dst, letter, spaceGid), gid...)
}

func appendTopicKey(dst []byte, topic string) []byte {
	return append(append(dst, letter, spaceTopic), topic...)
}

func appendDefinitionKey(dst []byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, letter, spaceDefinition), number)
}

func appendHeadKey(dst []byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, letter, spaceHead), number)
}

func appendBranchesKey(dst []byte, number uint64, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(append(dst, letter, spaceBranches), number), chunk)
}

// appendTimerKey appends the key of a timer in one of the two spaces that are ordered by tick.
func appendTimerKey(dst []byte, space byte, t Timer) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, letter, space), uint64(t.Tick))
	return binary.BigEndian.AppendUint64(dst, t.Number)
}

func splitTimerKey(k []byte) (Timer, error) {
	if len(k) != 18 {
		return Timer{}, fmt.Errorf("timer key %x: %w", clip(k), errCorrupt)
	}
	return Timer{int64(binary.BigEndian.Uint64(k[2:])), binary.BigEndian.Uint64(k[10:])}, nil
}

func splitNumberKey(k []byte) (uint64, error) {
	if len(k) != 10 {
		return 0, fmt.Errorf("transaction key %x: %w", clip(k), errCorrupt)
	}
	return binary.BigEndian.Uint64(k[2:]), nil
}

// appendNumber encodes the row of a gid: number u.
func appendNumber(dst []byte, number uint64) []byte { return binary.AppendUvarint(dst, number) }

func decodeNumber(row []byte) (uint64, error) {
	r := wire.NewReader(row)
	number := r.Uvarint()
	if r.End() != nil || number == 0 {
		return 0, fmt.Errorf("gid row %x: %w", clip(row), errCorrupt)
	}
	return number, nil
}

// counters are the machine's counters: the next number to give, and how many there are of each. One row.
type counters struct {
	next    uint64
	held    bool
	elapsed int64 // ms
	// retention is how long ended transactions are kept, in ms; 0: not set.
	retention int64
	counts    [lastCount]int64
}

// countTopics is the place of the number of topics; below it are those of transactions, by status.
const (
	countTopics = int(sagapart.Failed) + 1
	lastCount   = countTopics + 1
)

// transactions is how many there are.
func (c *counters) transactions() (n int64) {
	for _, of := range c.counts[:countTopics] {
		n += of
	}
	return n
}

const (
	countersVersion = 1
	flagHeld        = 1
	flagElapsed     = 2
	flagRetention   = 4
)

// appendCounters encodes the counters: version, flags, next u, then a u for each status from prepared on, topics u. Then elapsed u and
// retention u if they are not 0: builds that do not know them have no cluster of a level with them.
func appendCounters(dst []byte, c *counters) []byte {
	dst = append(dst, countersVersion, wire.Bit(c.held, flagHeld)|wire.Bit(c.elapsed != 0, flagElapsed)|wire.Bit(c.retention != 0, flagRetention))
	dst = binary.AppendUvarint(dst, c.next)
	for _, n := range c.counts[1:] {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	if c.elapsed != 0 {
		dst = binary.AppendUvarint(dst, uint64(c.elapsed))
	}
	if c.retention != 0 {
		dst = binary.AppendUvarint(dst, uint64(c.retention))
	}
	return dst
}

func decodeCounters(row []byte) (c counters, err error) {
	r := wire.NewReader(row)
	version := r.Byte()
	flags := r.Flags(flagHeld|flagElapsed|flagRetention, errCorrupt)
	c.held = flags&flagHeld != 0
	c.next = r.Uvarint()
	for i := range c.counts[1:] {
		c.counts[1+i] = int64(r.Uvarint())
	}
	if flags&flagElapsed != 0 {
		if c.elapsed = int64(r.Uvarint()); c.elapsed <= 0 {
			r.Fail(errCorrupt)
		}
	}
	if flags&flagRetention != 0 {
		if c.retention = int64(r.Uvarint()); c.retention <= 0 {
			r.Fail(errCorrupt)
		}
	}
	if version != countersVersion || r.End() != nil || c.next == 0 {
		return counters{}, fmt.Errorf("counters row %x: %w", clip(row), errCorrupt)
	}
	return c, nil
}

// inlineBytes is the largest size of a transaction's first branches in its definition's row. Most sagas then have one row less, and a List
// does not read all large ones.
const inlineBytes = 1 << 10

// appendDefinition encodes what a transaction begins with: its head as bytes, its definition, and its branches if the row holds them.
func appendDefinition(dst []byte, h *head, d *sagapart.Definition, inline []byte) []byte {
	at := len(dst)
	dst = appendHead(dst, h)
	n := len(dst) - at
	// The length comes before the head. The head's size is known only now. It is moved up by as much as its length takes.
	var length [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(length[:], uint64(n))
	dst = append(dst, length[:size]...)
	copy(dst[at+size:], dst[at:at+n])
	copy(dst[at:], length[:size])
	return append(sagapart.AppendDefinition(dst, d), inline...)
}

// splitDefinition splits a definition's row into its head and what follows.
func splitDefinition(row []byte) (head, rest []byte, err error) {
	r := wire.NewReader(row)
	head = r.Bytes()
	if r.Err() != nil {
		return nil, nil, fmt.Errorf("definition row %x: %w", clip(row), errCorrupt)
	}
	return head, r.Rest(), nil
}

// definition is a definition's row: a transaction's first state.
type definition struct {
	head
	sagapart.Definition
	inline []byte // its branches, encoded; nothing if they have rows of their own. It aliases the row
}

func decodeDefinition(row []byte) (d definition, err error) {
	first, rest, err := splitDefinition(row)
	if err != nil {
		return d, err
	}
	if d.head, err = decodeHead(first); err != nil {
		return d, err
	}
	if d.Definition, d.inline, err = sagapart.TakeDefinition(rest); err != nil {
		return d, fmt.Errorf("definition row %x: %w: %w", clip(row), errCorrupt, err)
	}
	return d, nil
}

// takeBranches appends the branches of a row to dst. Their payloads alias it.
func takeBranches(dst []sagapart.Branch, row []byte) ([]sagapart.Branch, error) {
	all, rest, err := sagapart.TakeBranches(dst, row)
	if err == nil && len(rest) > 0 {
		err = wire.ErrTrailing
	}
	if err != nil {
		return nil, fmt.Errorf("branches row %x: %w: %w", clip(row), errCorrupt, err)
	}
	return all, nil
}

// retired is a transaction that has ended, as the row that makes it be forgotten names it: nothing else need be read for that.
type retired struct {
	number uint64
	status sagapart.Status
	chunks uint32
	gid    string
}

// appendRetired encodes one: number u, status, chunks u, gid.
func appendRetired(dst []byte, t *retired) []byte {
	dst = append(binary.AppendUvarint(dst, t.number), byte(t.status))
	return wire.AppendBytes(binary.AppendUvarint(dst, uint64(t.chunks)), t.gid)
}

// decodeRetired decodes a row of them.
func decodeRetired(row []byte) (all []retired, err error) {
	r := wire.NewReader(row)
	for r.Len() > 0 {
		t := retired{number: r.Uvarint(), status: sagapart.Status(r.Byte()), chunks: uint32(r.Uvarint()), gid: r.Text()}
		if !t.status.Final() || t.chunks > sagapart.MaxBranches {
			r.Fail(errCorrupt)
		}
		all = append(all, t)
	}
	if r.Err() != nil {
		return nil, fmt.Errorf("retired row %x: %w", clip(row), errCorrupt)
	}
	return all, nil
}

// appendTopic encodes a topic: id u, version u, created u64, updated-created u, u subscribers, each: url, remark.
func appendTopic(dst []byte, t *Topic) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, t.ID), t.Version)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Created))
	dst = binary.AppendUvarint(dst, uint64(t.Updated-t.Created))
	dst = binary.AppendUvarint(dst, uint64(len(t.Subscribers)))
	for i := range t.Subscribers {
		dst = wire.AppendBytes(wire.AppendBytes(dst, t.Subscribers[i].URL), t.Subscribers[i].Remark)
	}
	return dst
}

// decodeTopic is its inverse; name is from the key.
func decodeTopic(name string, row []byte) (*Topic, error) {
	r := wire.NewReader(row)
	t := &Topic{Name: name, ID: r.Uvarint(), Version: r.Uvarint(), Created: int64(r.Uint64())}
	t.Updated = t.Created + int64(r.Uvarint())
	if n := r.Count(sagapart.MaxSubscribers, 2); n > 0 {
		t.Subscribers = make([]Subscriber, n)
		for i := range t.Subscribers {
			t.Subscribers[i] = Subscriber{URL: r.Text(), Remark: r.Text()}
		}
	}
	if r.End() != nil {
		return nil, fmt.Errorf("topic row %x: %w", clip(row), errCorrupt)
	}
	return t, nil
}
