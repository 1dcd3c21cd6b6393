package etcd2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/entry"
)

// The machine's key space (docs/formats/store.md). All keys begin with the machine's letter and a letter for the space.
//
//	e n <path>            a node
//	e t <tick> <path>     a node whose time is up at that tick
//	e h <index>           the events of one entry, by the index of the last
//	e i                   the index
//
// A path in a key has 00 for every "/" but the first, so that a directory's nodes lie together right behind it and whole
// subtrees are one range; 00 and 01 in names become 01 01 and 01 02, which keeps the order of names.
const (
	letter        = byte(entry.MachineEtcd2)
	spaceNode     = 'n'
	spaceDeadline = 't'
	spaceHistory  = 'h'
	spaceIndex    = 'i'
)

var (
	indexKey   = []byte{letter, spaceIndex}
	errCorrupt = errors.New("etcd2 row does not decode")
)

// appendPath appends a path in the form of keys.
func appendPath(dst, path []byte) []byte {
	for _, c := range path[1:] {
		switch c {
		case '/':
			dst = append(dst, 0)
		case 0:
			dst = append(dst, 1, 1)
		case 1:
			dst = append(dst, 1, 2)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// decodePath appends the path of its form in keys.
func decodePath(dst, k []byte) ([]byte, error) {
	dst = append(dst, '/')
	for i := 0; i < len(k); i++ {
		switch c := k[i]; {
		case c == 0:
			dst = append(dst, '/')
		case c != 1 && c != '/':
			dst = append(dst, c)
		case c == 1 && i+1 < len(k) && (k[i+1] == 1 || k[i+1] == 2):
			i++
			dst = append(dst, k[i]-1)
		default:
			return nil, fmt.Errorf("path %x: %w", clip(k), errCorrupt)
		}
	}
	return dst, nil
}

func appendNodeKey(dst, path []byte) []byte {
	return appendPath(append(dst, letter, spaceNode), path)
}

// appendSubtree appends the lower bound of everything below path; with its last byte one higher it is the upper bound.
func appendSubtree(dst, path []byte) []byte {
	dst = appendNodeKey(dst, path)
	if len(path) > 1 {
		dst = append(dst, 0)
	}
	return dst
}

// subtreeBounds returns the bounds of everything below path.
func subtreeBounds(path []byte) (lower, upper []byte) {
	lower = appendSubtree(nil, path)
	upper = bytes.Clone(lower)
	upper[len(upper)-1]++
	return lower, upper
}

func appendDeadlineKey(dst []byte, deadline int64, path []byte) []byte {
	return appendPath(binary.BigEndian.AppendUint64(append(dst, letter, spaceDeadline), uint64(deadline)), path)
}

func splitDeadlineKey(k []byte) (deadline int64, path []byte, err error) {
	if len(k) < 10 {
		return 0, nil, fmt.Errorf("deadline key %x: %w", k, errCorrupt)
	}
	path, err = decodePath(nil, k[10:])
	return int64(binary.BigEndian.Uint64(k[2:])), path, err
}

func appendHistoryKey(dst []byte, last uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, letter, spaceHistory), last)
}

// Flag bits of node rows.
const (
	rowDir = 1 << iota
	rowDeadline
)

// appendNode encodes a node: flags, created u, modified-created u, writes u, [deadline u64, expiration u64], value.
func appendNode(dst []byte, n *node) []byte {
	flags := byte(0)
	if n.dir {
		flags |= rowDir
	}
	if n.deadline != 0 {
		flags |= rowDeadline
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, n.created)
	dst = binary.AppendUvarint(dst, n.modified-n.created)
	dst = binary.AppendUvarint(dst, uint64(n.writes))
	if n.deadline != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n.deadline))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n.expiration))
	}
	return append(dst, n.value...)
}

// decodeNode is its inverse. The value aliases row.
func decodeNode(row []byte) (node, error) {
	r := rowReader{b: row}
	flags := r.byte()
	n := node{exists: true, dir: flags&rowDir != 0}
	n.created = r.uvarint()
	n.modified = n.created + r.uvarint()
	n.writes = uint32(r.uvarint())
	if flags&rowDeadline != 0 {
		n.deadline, n.expiration = r.fixed64(), r.fixed64()
	}
	n.value = r.b
	if r.bad || flags&^(rowDir|rowDeadline) != 0 || n.dir && len(n.value) > 0 {
		return node{}, fmt.Errorf("node row %x: %w", clip(row), errCorrupt)
	}
	return n, nil
}

const indexVersion = 1

func appendIndex(dst []byte, index uint64) []byte {
	return binary.AppendUvarint(append(dst, indexVersion), index)
}

func decodeIndex(row []byte) (uint64, error) {
	r := rowReader{b: row}
	version, index := r.byte(), r.uvarint()
	if version != indexVersion || r.bad || len(r.b) != 0 {
		return 0, fmt.Errorf("index row %x: %w", clip(row), errCorrupt)
	}
	return index, nil
}

// Flag bits of events in history rows.
const (
	eventDir = 1 << iota
	eventRefresh
	eventPrev
	eventPrevDir
	eventExpires
	eventPrevExpires
)

// appendEvent encodes an event: action, flags, index u, created u, path, value, [expiration u64, ttl z], and of the node
// before it [created u, modified u, value, [expiration u64, ttl z]].
func appendEvent(dst []byte, e *Event) []byte {
	flags := byte(0)
	set := func(on bool, flag byte) {
		if on {
			flags |= flag
		}
	}
	set(e.Node.Dir, eventDir)
	set(e.Refresh, eventRefresh)
	set(e.HasPrev, eventPrev)
	set(e.Prev.Dir, eventPrevDir)
	set(e.Node.Expiration != 0, eventExpires)
	set(e.Prev.Expiration != 0, eventPrevExpires)
	dst = append(dst, byte(e.Action), flags)
	dst = binary.AppendUvarint(dst, e.Node.Modified)
	dst = binary.AppendUvarint(dst, e.Node.Created)
	dst = appendString(dst, e.Node.Path)
	dst = appendView(dst, &e.Node)
	if e.HasPrev {
		dst = binary.AppendUvarint(dst, e.Prev.Created)
		dst = binary.AppendUvarint(dst, e.Prev.Modified)
		dst = appendView(dst, &e.Prev)
	}
	return dst
}

func appendView(dst []byte, n *Node) []byte {
	dst = appendString(dst, n.Value)
	if n.Expiration != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n.Expiration))
		dst = binary.AppendVarint(dst, n.TTL)
	}
	return dst
}

func appendString(dst, s []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// decodeEvents decodes a history row. The events share the row's memory.
func decodeEvents(row []byte) (evs []*Event, err error) {
	r := rowReader{b: row}
	for len(r.b) > 0 && !r.bad {
		e := &Event{Action: Action(r.byte())}
		flags := r.byte()
		e.Node = Node{Dir: flags&eventDir != 0, Modified: r.uvarint(), Created: r.uvarint(), Path: r.string()}
		r.view(&e.Node, flags&eventExpires != 0)
		e.Refresh, e.HasPrev = flags&eventRefresh != 0, flags&eventPrev != 0
		if e.HasPrev {
			e.Prev = Node{Path: e.Node.Path, Dir: flags&eventPrevDir != 0, Created: r.uvarint(), Modified: r.uvarint()}
			r.view(&e.Prev, flags&eventPrevExpires != 0)
		}
		e.AllGone = e.Prev.Dir
		evs = append(evs, e)
	}
	if r.bad {
		return nil, fmt.Errorf("history row %x: %w", clip(row), errCorrupt)
	}
	return evs, nil
}

func clip(b []byte) []byte { return b[:min(len(b), 40)] }

// rowReader takes values off the front of b; what is missing reads as zero and sets bad.
type rowReader struct {
	b   []byte
	bad bool
}

func (r *rowReader) fail() { r.b, r.bad = nil, true }

func (r *rowReader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *rowReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *rowReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *rowReader) fixed64() int64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := int64(binary.LittleEndian.Uint64(r.b))
	r.b = r.b[8:]
	return v
}

func (r *rowReader) bigEndian() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *rowReader) string() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *rowReader) view(n *Node, expires bool) {
	n.Value = r.string()
	if expires {
		n.Expiration, n.TTL = r.fixed64(), r.varint()
	}
}
