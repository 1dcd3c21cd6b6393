package machine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// The spaces of the machine's rows: the second byte of a key. After it comes the log's number as 4 bytes big endian.
const (
	letter = 't'

	spaceLog        = 'l' // options and whether it is held
	spaceFrontier   = 'f' // tiles.Frontier
	spaceCheckpoint = 'c' // the newest signed checkpoint
	spaceBundle     = 'b' // n (8 bytes): a full bundle
	spaceTile       = 'h' // level (1 byte), n (8 bytes): a full tile
	spacePiece      = 'p' // index (8 bytes): entries after the last full bundle, one row for each raft entry that brought some
	spaceNode       = 'n' // level (1 byte), place (8 bytes): a hash after the last full tile of a level above 0
	spaceDedup      = 'd' // leaf hash: index of the only entry that has it
	spaceIndex      = 'x' // leaf hash, index (8 bytes): empty
)

// errCorrupt: a row that no code of ours wrote.
var errCorrupt = errors.New("row of the tree machine makes no sense")

const (
	logVersion = 1
	flagHeld   = 1
)

// appendLogRow appends a log's row: version, flags, spec.
func appendLogRow(dst []byte, held bool, spec *tlogpart.LogSpec) []byte {
	flags := byte(0)
	if held {
		flags = flagHeld
	}
	return tlogpart.AppendSpec(append(dst, logVersion, flags), spec)
}

func decodeLogRow(b []byte) (held bool, spec tlogpart.LogSpec, err error) {
	if len(b) < 2 || b[0] != logVersion || b[1]&^flagHeld != 0 {
		return false, spec, fmt.Errorf("log: %w", errCorrupt)
	}
	spec, err = tlogpart.DecodeSpec(b[2:])
	return b[1]&flagHeld != 0, spec, err
}

// ReadLog reads a log's options from a row of a snapshot; ok reports whether it is such a row.
func ReadLog(key, value []byte) (spec tlogpart.LogSpec, ok bool, err error) {
	if len(key) < 2 || key[0] != letter || key[1] != spaceLog {
		return spec, false, nil
	}
	_, spec, err = decodeLogRow(value)
	return spec, err == nil, err
}

// ReadSize is the number of entries that a log has in a View; ok is false if there is no log of that name.
func ReadSize(r store.Reader, name string) (size uint64, ok bool, err error) {
	err = scan(r, []byte{letter, spaceLog}, func(key, value []byte) error {
		_, spec, err := decodeLogRow(value)
		if err != nil || spec.Name != name || len(key) != 4 {
			return err
		}
		ok = true
		row, has, err := r.Get(nil, prefix(spaceFrontier, uint64(binary.BigEndian.Uint32(key))))
		if err == nil && has {
			size, err = frontierSize(row)
		}
		return err
	})
	return size, ok, err
}

// prefix is the first bytes of all keys of a space of one log.
func prefix(space byte, log uint64) []byte {
	return binary.BigEndian.AppendUint32([]byte{letter, space}, uint32(log))
}

// The methods below build keys in memory of their own: rows are few, since entries travel in bundles and pieces.

func (l *Log) key(space byte) []byte { return prefix(space, l.Number) }

func (l *Log) bundleKey(n uint64) []byte {
	return binary.BigEndian.AppendUint64(l.key(spaceBundle), n)
}

func (l *Log) pieceKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64(l.key(spacePiece), index)
}

func (l *Log) tileKey(level int, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(l.key(spaceTile), byte(level)), n)
}

func (l *Log) nodeKey(level int, place uint64) []byte {
	return binary.BigEndian.AppendUint64(append(l.key(spaceNode), byte(level)), place)
}

func (l *Log) dedupKey(h *tiles.Hash) []byte { return append(l.key(spaceDedup), h[:]...) }

func (l *Log) indexKey(h *tiles.Hash, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(l.key(spaceIndex), h[:]...), index)
}

// after is the smallest key above all that begin with p, which does not end in ff.
func after(p []byte) []byte {
	end := append([]byte(nil), p...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// scan visits the rows whose keys begin with p, in order. key is what follows p; both slices are valid during the visit.
func scan(r store.Reader, p []byte, visit func(key, value []byte) error) error {
	it, err := r.NewIter(p, after(p))
	if err != nil {
		return err
	}
	defer it.Close() // a fault of the iterator is in Error
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		if err := visit(it.Key()[len(p):], v); err != nil {
			return err
		}
	}
	return it.Error()
}

// readPieces reads the entries after the last full bundle: their bytes as a partial bundle, and the indexes of the rows.
func (l *Log) readPieces(r store.Reader, dst []byte) (entries []byte, rows []uint64, err error) {
	err = scan(r, l.key(spacePiece), func(key, value []byte) error {
		if len(key) != 8 {
			return fmt.Errorf("piece: %w", errCorrupt)
		}
		rows = append(rows, binary.BigEndian.Uint64(key))
		dst = append(dst, value...)
		return nil
	})
	return dst, rows, err
}

// readNodes reads the hashes after the last full tile of a level above 0, which should begin at a place.
func (l *Log) readNodes(r store.Reader, level int, first uint64) (hashes []byte, err error) {
	p := append(l.key(spaceNode), byte(level))
	err = scan(r, p, func(key, value []byte) error {
		if len(key) != 8 || len(value) != tiles.HashSize || binary.BigEndian.Uint64(key) != first+uint64(len(hashes)/tiles.HashSize) {
			return fmt.Errorf("hash of level %d: %w", level, errCorrupt)
		}
		hashes = append(hashes, value...)
		return nil
	})
	return hashes, err
}

// Number is the number of a log, by which parts name it, for a door that appends to it in a command of its own.
func (m *Machine) Number(name string) (number uint64, ok bool) {
	if l := m.Find(name); l != nil {
		return l.Number, true
	}
	return 0, false
}

// SizeInView is how many entries a log has in a View; 0: there is no such log.
func (m *Machine) SizeInView(r store.Reader, name string) (size uint64, err error) {
	size, _, err = ReadSize(r, name)
	return size, err
}
