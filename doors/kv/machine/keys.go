package machine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/core/entry"
)

// The machine's key space (docs/formats/store.md). All keys begin with the machine's letter and a letter for the space. All numbers in keys
// are big endian, so that the store's order is ours.
//
//	k c <key>                           current row: the newest version, only while the key exists
//	k k <escaped key> 00 01 <^rev ^sub> one version in history, newest first; of small values only those that were replaced
//	k r <rev> <sub>                     what happened at a revision
//	k l <lease>                         a lease
//	k a <lease> <key>                   a key attached to a lease
//	k x <member> <type>                 an active alarm
//	k s                                 the counters row
//
// The newest version also has a row of its own beside history, which is overwritten. A range over busy keys then reads one row per key
// instead of stepping over versions. A put finds its predecessor by one Get. Seeking the newest version in history was the rejected design.
//
// A small value (laterBytes) is in that row alone and goes into history when it is replaced. So a key that is written once costs two rows
// instead of three. A longer value is written to history at once. Moving it later would burden the put that replaces it, or the one entry
// that deletes a million keys.
const (
	spaceCurrent = 'c'
	spaceHistory = 'k'
	spaceByRev   = 'r'
	spaceLease   = 'l'
	spaceAttach  = 'a'
	spaceAlarm   = 'x'
	spaceSums    = 's'
)

const letter = byte(entry.MachineKV)

// inlineBytes is the greatest value kept in the current row too. A larger one is read from history: writing it twice would
// cost more than the second read.
const inlineBytes = 512

// laterBytes is the greatest value that goes into history only when it is replaced.
const laterBytes = 128

var errCorrupt = errors.New("kv row does not decode")

// meta is one version of a key without its value. Version 0 means that the key does not exist; mod and sub are then those of its deletion,
// or 0.
type meta struct {
	create, mod, version, lease int64
	sub, valLen                 uint32
}

func (m *meta) exists() bool { return m.version != 0 }

// later reports whether this version is not in history before it is replaced.
func (m *meta) later() bool { return m.exists() && m.valLen <= laterBytes }

func appendCurrentKey(dst, key []byte) []byte {
	return append(append(dst, letter, spaceCurrent), key...)
}

// currentBounds returns the store bounds of [key, end) in the space of current rows; ok is false if it is empty.
func currentBounds(key, end []byte) (lower, upper []byte, ok bool) {
	lower = appendCurrentKey(nil, key)
	if unbounded(end) {
		return lower, []byte{letter, spaceCurrent + 1}, true
	}
	upper = appendCurrentKey(nil, end)
	return lower, upper, bytes.Compare(lower, upper) < 0
}

// unbounded tells etcd's range end for "everything from key on".
func unbounded(end []byte) bool { return len(end) == 1 && end[0] == 0 }

// within reports whether k lies in [key, end) as requests mean it: no end is the one key.
func within(k, key, end []byte) bool {
	if len(end) == 0 {
		return bytes.Equal(k, key)
	}
	return bytes.Compare(k, key) >= 0 && (unbounded(end) || bytes.Compare(k, end) < 0)
}

// appendEscaped appends key so that a terminator below every continuation can follow: 00 becomes 00 ff.
func appendEscaped(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			return append(dst, key...)
		}
		dst = append(append(dst, key[:i]...), 0, 0xff)
		key = key[i+1:]
	}
}

func appendHistoryPrefix(dst, key []byte) []byte {
	return append(appendEscaped(append(dst, letter, spaceHistory), key), 0, 1)
}

// appendHistoryKey appends the key of one version. Revisions are inverted so that the newest comes first, and seeking to
// (rev, greatest sub) finds the version visible at rev.
func appendHistoryKey(dst, key []byte, rev int64, sub uint32) []byte {
	return appendInvertedRev(appendHistoryPrefix(dst, key), rev, sub)
}

func appendInvertedRev(dst []byte, rev int64, sub uint32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, ^uint64(rev))
	return binary.BigEndian.AppendUint32(dst, ^sub)
}

// historyBounds returns the store bounds of all versions of keys in [key, end).
func historyBounds(key, end []byte) (lower, upper []byte, ok bool) {
	lower = appendEscaped([]byte{letter, spaceHistory}, key)
	if unbounded(end) {
		return lower, []byte{letter, spaceHistory + 1}, true
	}
	upper = appendEscaped([]byte{letter, spaceHistory}, end)
	return lower, upper, bytes.Compare(lower, upper) < 0
}

// splitHistoryKey takes a store key of history apart; prefix is everything before the revision. key is appended to dst.
func splitHistoryKey(dst, k []byte) (key, prefix []byte, rev int64, sub uint32, err error) {
	n := len(k) - 12
	if n < 4 || k[n-2] != 0 || k[n-1] != 1 {
		return nil, nil, 0, 0, fmt.Errorf("history key %x: %w", k, errCorrupt)
	}
	prefix = k[:n]
	key = dst
	for esc := k[2 : n-2]; ; {
		i := bytes.IndexByte(esc, 0)
		if i < 0 {
			key = append(key, esc...)
			break
		}
		if i+1 >= len(esc) || esc[i+1] != 0xff {
			return nil, nil, 0, 0, fmt.Errorf("history key %x: %w", k, errCorrupt)
		}
		key = append(append(key, esc[:i]...), 0)
		esc = esc[i+2:]
	}
	return key, prefix, int64(^binary.BigEndian.Uint64(k[n:])), ^binary.BigEndian.Uint32(k[n+8:]), nil
}

func appendByRevKey(dst []byte, rev int64, sub uint32) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, letter, spaceByRev), uint64(rev))
	return binary.BigEndian.AppendUint32(dst, sub)
}

func splitByRevKey(k []byte) (rev int64, sub uint32, err error) {
	if len(k) != 14 {
		return 0, 0, fmt.Errorf("revision key %x: %w", k, errCorrupt)
	}
	return int64(binary.BigEndian.Uint64(k[2:])), binary.BigEndian.Uint32(k[10:]), nil
}

// Lease ids are any int64; flipping the sign bit makes the store's order theirs.
func appendLease(dst []byte, id int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(id)^1<<63)
}

func leaseOf(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

func appendLeaseKey(dst []byte, id int64) []byte {
	return appendLease(append(dst, letter, spaceLease), id)
}

func appendAttachKey(dst []byte, id int64, key []byte) []byte {
	return append(appendLease(append(dst, letter, spaceAttach), id), key...)
}

func appendAlarmKey(dst []byte, member uint64, typ byte) []byte {
	return append(binary.BigEndian.AppendUint64(append(dst, letter, spaceAlarm), member), typ)
}

var sumsKey = []byte{letter, spaceSums}

// spaceBounds returns the bounds of a whole space.
func spaceBounds(space byte) (lower, upper []byte) {
	return []byte{letter, space}, []byte{letter, space + 1}
}
