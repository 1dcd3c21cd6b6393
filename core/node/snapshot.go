package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// A snapshot is a stream of the store's keys in order. It does not depend on the store's own file format, so it outlives versions of the
// storage engine. Byte table: docs/formats/snapshot.md.
const (
	snapshotMagic = "HFSNAP01"
	// snapshotChunk is how many bytes of keys and values a chunk gathers before it is closed.
	snapshotChunk = 128 << 10
	maxChunk      = 64 << 20
)

// SnapshotInfo heads a snapshot.
type SnapshotInfo struct {
	Cluster     uint64
	Index, Term uint64
	Conf        raft.Conf
	// State and WallNs are the rolling state hash and the time along the log, in ns since 1970, at Index. They are set when a View is
	// taken, and 0 when a stream is read.
	State  uint64
	WallNs int64
	// Keys and Bytes are known at the end.
	Keys, Bytes uint64
}

// ErrBadSnapshot: the stream is damaged or not a snapshot.
var ErrBadSnapshot = errors.New("damaged snapshot")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteSnapshot streams a View as the snapshot that info heads; info itself is not changed. Errors: ctx's, w's, or a failed read.
func WriteSnapshot(ctx context.Context, w io.Writer, v store.View, info *SnapshotInfo) error {
	head := *info // the copy that is written counts its keys
	head.Keys, head.Bytes = 0, 0
	return writeSnapshot(&ctxWriter{ctx, w}, v, &head)
}

// writeSnapshot streams a View.
func writeSnapshot(w io.Writer, v store.View, info *SnapshotInfo) error {
	bw := bufio.NewWriterSize(w, 64<<10)
	head := binary.LittleEndian.AppendUint64(nil, info.Cluster)
	head = binary.LittleEndian.AppendUint64(head, info.Index)
	head = binary.LittleEndian.AppendUint64(head, info.Term)
	head = append(head, info.Conf.Encode()...)
	bw.WriteString(snapshotMagic)
	if err := writeChunk(bw, head); err != nil {
		return err
	}
	it, err := v.NewIter(nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	sum := xxhash.New()
	var chunk []byte
	flush := func() error {
		if len(chunk) == 0 {
			return nil
		}
		sum.Write(chunk)
		err := writeChunk(bw, chunk)
		chunk = chunk[:0]
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.Value()
		if err != nil {
			return err
		}
		k := it.Key()
		chunk = wire.AppendBytes(wire.AppendBytes(chunk, k), val)
		info.Keys++
		info.Bytes += uint64(len(k) + len(val))
		if len(chunk) >= snapshotChunk {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	if err := writeChunk(bw, nil); err != nil {
		return err
	}
	tail := binary.LittleEndian.AppendUint64(nil, info.Keys)
	tail = binary.LittleEndian.AppendUint64(tail, sum.Sum64())
	if err := writeChunk(bw, tail); err != nil {
		return err
	}
	return bw.Flush()
}

func writeChunk(w *bufio.Writer, b []byte) error {
	var h [8]byte
	binary.LittleEndian.PutUint32(h[:], uint32(len(b)))
	binary.LittleEndian.PutUint32(h[4:], crc32.Checksum(b, castagnoli))
	if _, err := w.Write(h[:]); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

func readChunk(r io.Reader) ([]byte, error) {
	var h [8]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return nil, fmt.Errorf("%w: cut short: %w", ErrBadSnapshot, err)
	}
	n := int(binary.LittleEndian.Uint32(h[:]))
	if n > maxChunk {
		return nil, fmt.Errorf("%w: chunk of %d bytes", ErrBadSnapshot, n)
	}
	var b []byte
	for len(b) < n { // memory grows with the bytes received, not with the promised length
		k := min(n-len(b), 1<<20)
		b = append(b, make([]byte, k)...)
		if _, err := io.ReadFull(r, b[len(b)-k:]); err != nil {
			return nil, fmt.Errorf("%w: cut short: %w", ErrBadSnapshot, err)
		}
	}
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(h[4:]) {
		return nil, fmt.Errorf("%w: checksum", ErrBadSnapshot)
	}
	return b, nil
}

// SnapshotState is a snapshot's description of its state, near its beginning.
type SnapshotState struct {
	Hash   uint64 // the rolling state hash
	WallNs int64  // time along the log, ns since 1970; 0: no entry had one yet
}

// errBegun ends a read of a snapshot's beginning.
var errBegun = errors.New("enough was read")

// ReadSnapshotHead reads the description at the beginning of a snapshot. rest is the whole snapshot, including the bytes already read.
func ReadSnapshotHead(r io.Reader) (info *SnapshotInfo, state SnapshotState, rest io.Reader, err error) {
	var begun bytes.Buffer
	_, err = ReadSnapshot(io.TeeReader(r, &begun), func(i *SnapshotInfo) error {
		info = i
		return nil
	}, func(k, v []byte) error {
		switch c := bytes.Compare(k, machine.StateKey); {
		case c < 0:
			return nil
		case c == 0:
			p, stamp, err := machine.DecodeState(v)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrBadSnapshot, err)
			}
			state = SnapshotState{Hash: p, WallNs: stamp.WallNs}
		}
		return errBegun
	})
	if err != nil && !errors.Is(err, errBegun) {
		return nil, state, nil, err
	}
	return info, state, io.MultiReader(&begun, r), nil
}

// ReadSnapshot reads a snapshot to its end, handing each key and value to fn (nil: only check it). Slices are valid
// during the call. Keys come in ascending order.
func ReadSnapshot(r io.Reader, head func(*SnapshotInfo) error, fn func(key, value []byte) error) (*SnapshotInfo, error) {
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(r, magic); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: %w", ErrBadSnapshot, err)
	}
	if string(magic) != snapshotMagic {
		return nil, fmt.Errorf("%w: not a snapshot, or one of another version", ErrBadSnapshot)
	}
	b, err := readChunk(r)
	if err != nil {
		return nil, err
	}
	if len(b) < 24 {
		return nil, fmt.Errorf("%w: head", ErrBadSnapshot)
	}
	info := &SnapshotInfo{Cluster: binary.LittleEndian.Uint64(b), Index: binary.LittleEndian.Uint64(b[8:]), Term: binary.LittleEndian.Uint64(b[16:])}
	if info.Conf, err = raft.DecodeConf(b[24:]); err != nil {
		return nil, fmt.Errorf("%w: head", ErrBadSnapshot)
	}
	if head != nil {
		if err := head(info); err != nil {
			return nil, err
		}
	}
	sum := xxhash.New()
	var last []byte
	for {
		if b, err = readChunk(r); err != nil {
			return nil, err
		}
		if len(b) == 0 {
			break
		}
		sum.Write(b)
		for rows := wire.NewReader(b); rows.Len() > 0; {
			k, v := rows.Bytes(), rows.Bytes()
			if rows.Err() != nil {
				return nil, fmt.Errorf("%w: record", ErrBadSnapshot)
			}
			if info.Keys > 0 && string(k) <= string(last) {
				return nil, fmt.Errorf("%w: keys out of order", ErrBadSnapshot)
			}
			last = append(last[:0], k...)
			info.Keys++
			info.Bytes += uint64(len(k) + len(v))
			if fn != nil {
				if err := fn(k, v); err != nil {
					return nil, err
				}
			}
		}
	}
	if b, err = readChunk(r); err != nil {
		return nil, err
	}
	if len(b) != 16 || binary.LittleEndian.Uint64(b) != info.Keys || binary.LittleEndian.Uint64(b[8:]) != sum.Sum64() {
		return nil, fmt.Errorf("%w: totals", ErrBadSnapshot)
	}
	return info, nil
}
