package machine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// The machine's key space (docs/formats/store.md). All keys begin with the machine's letter and a letter for the space.
//
//	e n <path>            a node
//	e t <tick> <path>     a node whose time is up at that tick
//	e h <index>           the events of one entry, by the index of the last
//	e i                   the index
//
// A path in a key has 00 for every "/" but the first. So a directory's nodes lie together right behind it, and whole subtrees are one
// range. 00 and 01 in names become 01 01 and 01 02, which keeps the order of names.
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

func splitHistoryKey(k []byte) (last uint64, err error) {
	if len(k) != 10 {
		return 0, fmt.Errorf("history key %x: %w", clip(k), errCorrupt)
	}
	return binary.BigEndian.Uint64(k[2:]), nil
}

// Flag bits of node rows.
const (
	rowDir = 1 << iota
	rowDeadline
)

// appendNode encodes a node: flags, created u, modified-created u, writes u, [deadline u64, expiration u64], value.
func appendNode(dst []byte, n *node) []byte {
	dst = append(dst, wire.Bit(n.dir, rowDir)|wire.Bit(n.deadline != 0, rowDeadline))
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
	r := wire.NewReader(row)
	flags := r.Byte()
	n := node{exists: true, dir: flags&rowDir != 0}
	n.created = r.Uvarint()
	n.modified = n.created + r.Uvarint()
	n.writes = uint32(r.Uvarint())
	if flags&rowDeadline != 0 {
		n.deadline, n.expiration = int64(r.Uint64()), int64(r.Uint64())
	}
	n.value = r.Rest()
	if r.Err() != nil || flags&^(rowDir|rowDeadline) != 0 || n.dir && len(n.value) > 0 {
		return node{}, fmt.Errorf("node row %x: %w", clip(row), errCorrupt)
	}
	return n, nil
}

const indexVersion = 1

func appendIndex(dst []byte, index uint64) []byte {
	return binary.AppendUvarint(append(dst, indexVersion), index)
}

func decodeIndex(row []byte) (uint64, error) {
	r := wire.NewReader(row)
	version, index := r.Byte(), r.Uvarint()
	if version != indexVersion || r.End() != nil {
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

// appendEvent encodes an event: action, flags, index u, created u, path, value, [expiration u64, ttl z]. The previous node follows:
// [created u, modified u, value, [expiration u64, ttl z]].
func appendEvent(dst []byte, e *Event) []byte {
	flags := wire.Bit(e.Node.Dir, eventDir) | wire.Bit(e.Refresh, eventRefresh) | wire.Bit(e.HasPrev, eventPrev) |
		wire.Bit(e.Prev.Dir, eventPrevDir) | wire.Bit(e.Node.Expiration != 0, eventExpires) |
		wire.Bit(e.Prev.Expiration != 0, eventPrevExpires)
	dst = append(dst, byte(e.Action), flags)
	dst = binary.AppendUvarint(dst, e.Node.Modified)
	dst = binary.AppendUvarint(dst, e.Node.Created)
	dst = wire.AppendBytes(dst, e.Node.Path)
	dst = appendView(dst, &e.Node)
	if e.HasPrev {
		dst = binary.AppendUvarint(dst, e.Prev.Created)
		dst = binary.AppendUvarint(dst, e.Prev.Modified)
		dst = appendView(dst, &e.Prev)
	}
	return dst
}

func appendView(dst []byte, n *Node) []byte {
	dst = wire.AppendBytes(dst, n.Value)
	if n.Expiration != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n.Expiration))
		dst = binary.AppendVarint(dst, n.TTL)
	}
	return dst
}

// decodeEvents decodes a history row. The events share the row's memory.
func decodeEvents(row []byte) (evs []*Event, err error) {
	r := wire.NewReader(row)
	for r.Len() > 0 {
		e := &Event{Action: Action(r.Byte())}
		flags := r.Byte()
		e.Node = Node{Dir: flags&eventDir != 0, Modified: r.Uvarint(), Created: r.Uvarint(), Path: r.Bytes()}
		takeView(&r, &e.Node, flags&eventExpires != 0)
		e.Refresh, e.HasPrev = flags&eventRefresh != 0, flags&eventPrev != 0
		if e.HasPrev {
			e.Prev = Node{Path: e.Node.Path, Dir: flags&eventPrevDir != 0, Created: r.Uvarint(), Modified: r.Uvarint()}
			takeView(&r, &e.Prev, flags&eventPrevExpires != 0)
		}
		e.AllGone = e.Prev.Dir
		evs = append(evs, e)
	}
	if r.Err() != nil {
		return nil, fmt.Errorf("history row %x: %w", clip(row), errCorrupt)
	}
	return evs, nil
}

func clip(b []byte) []byte { return b[:min(len(b), 40)] }

func takeView(r *wire.Reader, n *Node, expires bool) {
	n.Value = r.Bytes()
	if expires {
		n.Expiration, n.TTL = int64(r.Uint64()), r.Varint()
	}
}
