package node

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/holdfastdb/holdfast/internal/wire"
	mmember "github.com/holdfastdb/holdfast/machine/member"
	"github.com/holdfastdb/holdfast/replica"
	"github.com/holdfastdb/holdfast/store"
)

// A snapshot is a stream of the store's keys in order, independent of the store's own file format, so that it outlives
// versions of the storage engine. Byte table: docs/formats/snapshot.md.
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
	Conf        replica.Conf
	// Keys and Bytes are known at the end.
	Keys, Bytes uint64
}

// ErrBadSnapshot: the stream is damaged or not a snapshot.
var ErrBadSnapshot = errors.New("damaged snapshot")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
	for len(b) < n { // memory grows with what arrives, not with what is promised
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

// ReadSnapshot reads a snapshot to its end, handing each key and value to fn (nil: only check it). Slices are valid
// during the call. Keys come in ascending order.
func ReadSnapshot(r io.Reader, head func(*SnapshotInfo) error, fn func(key, value []byte) error) (*SnapshotInfo, error) {
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != snapshotMagic {
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
	if info.Conf, err = replica.DecodeConf(b[24:]); err != nil {
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

// SaveSnapshot streams a snapshot of this member's state at some applied index after the call began. It does not stop
// writes. Errors: ErrStopped, ctx's, or w's.
func (n *Node) SaveSnapshot(ctx context.Context, w io.Writer) error {
	v, info, err := n.SnapshotView(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	return writeSnapshot(&ctxWriter{ctx, w}, v, info)
}

// SnapshotView takes a View between two entries, with what heads a snapshot of it. It is not bounded in age: its caller writes
// it out without delay. Errors: ErrStopped, or ctx's.
func (n *Node) SnapshotView(ctx context.Context) (store.View, *SnapshotInfo, error) {
	type got struct {
		v    store.View
		info SnapshotInfo
	}
	c := make(chan got, 1)
	n.later(func() error {
		c <- got{n.store.NewView(), SnapshotInfo{Cluster: n.ident.Cluster, Index: n.appliedIdx, Term: n.termApplied, Conf: n.rep.Conf()}}
		return nil
	})
	select {
	case g := <-c:
		return g.v, &g.info, nil
	case <-n.dead:
		return nil, nil, ErrStopped
	case <-ctx.Done():
		go func() { // the loop has the request already
			select {
			case g := <-c:
				g.v.Close()
			case <-n.dead:
			}
		}()
		return nil, nil, ctx.Err()
	}
}

type ctxWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *ctxWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// sendSnapshot streams the store to a member that is too far behind for the log. Loop only; the stream runs beside it.
func (n *Node) sendSnapshot(o *replica.Outgoing) {
	if _, busy := n.snapshots[o.To]; busy {
		n.rep.ReportSnapshot(o.To, false)
		return
	}
	// Nothing was applied since raft named the point: the View is exactly at it.
	v := n.store.NewView()
	info := SnapshotInfo{Cluster: n.ident.Cluster, Index: o.Snapshot.Index, Term: o.Snapshot.Term, Conf: o.Snapshot.Conf}
	n.snapshots[o.To] = o.Snapshot.Index
	n.log.Info("snapshot to member", "member", fmt.Sprintf("%x", o.To), "index", o.Snapshot.Index)
	to, head := o.To, o.Frame
	n.net.SendStream(to, func(w io.Writer) error {
		var l [4]byte
		binary.LittleEndian.PutUint32(l[:], uint32(len(head)))
		if _, err := w.Write(append(l[:], head...)); err != nil {
			return err
		}
		return writeSnapshot(w, v, &info)
	}, func(err error) {
		v.Close()
		n.later(func() error {
			delete(n.snapshots, to)
			n.rep.ReportSnapshot(to, err == nil)
			if err != nil {
				n.log.Info("snapshot to member failed", "member", fmt.Sprintf("%x", to), "err", err)
			}
			return nil
		})
	})
}

// received is a snapshot that is complete and durable beside the store.
type received struct {
	point *replica.SnapshotPoint
	in    store.Incoming
	took  chan error // the outcome, for the stream's goroutine
}

// ours refuses a snapshot of another cluster before its contents are read.
func (n *Node) ours(info *SnapshotInfo) error {
	if info.Cluster != n.ident.Cluster {
		return fmt.Errorf("%w: it is of cluster %x", ErrBadSnapshot, info.Cluster)
	}
	return nil
}

// HandleStream implements peer.Handler: it builds a new store from the stream, then offers it to raft.
func (n *Node) HandleStream(from uint64, r io.Reader) error {
	if !n.knows(from) {
		return errStranger
	}
	var l [4]byte
	if _, err := io.ReadFull(r, l[:]); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(l[:])
	if size > 1<<20 {
		return ErrBadSnapshot
	}
	head := make([]byte, size)
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	point, term, err := replica.SnapshotHead(head)
	if err != nil {
		return err
	}
	if !n.receiving.CompareAndSwap(false, true) {
		return errors.New("another snapshot is being received")
	}
	defer n.receiving.Store(false)
	in, err := n.store.Incoming()
	if err != nil {
		return fmt.Errorf("receive snapshot: %w", err)
	}
	marked, specs := false, n.applier.Specs()
	mark := func() error {
		marked = true
		return in.Set(installKey, installMark(point))
	}
	info, err := ReadSnapshot(n.guardStream(r, term), n.ours, func(k, v []byte) error {
		if string(k) == string(store.AppliedKey) {
			return nil // Finish writes it
		}
		if err := specs.Known(k); err != nil {
			return err
		}
		if mmember.IsLevel(k) {
			if err := n.cfg.followable(v); err != nil {
				return err
			}
		}
		if !marked && string(k) >= string(installKey) {
			if err := mark(); err != nil {
				return err
			}
			if string(k) == string(installKey) {
				return nil
			}
		}
		return in.Set(k, v)
	})
	if err == nil && info.Index != point.Index {
		err = fmt.Errorf("%w: head says %d, contents %d", ErrBadSnapshot, point.Index, info.Index)
	}
	if err == nil && !marked {
		err = mark()
	}
	if err == nil {
		err = in.Finish(point.Index)
	}
	if err != nil {
		in.Abort()
		return fmt.Errorf("receive snapshot: %w", err)
	}
	rc := &received{point: point, in: in, took: make(chan error, 1)}
	n.later(func() error {
		n.offered = rc
		if err := n.rep.ReceiveSnapshot(from, head); err != nil {
			rc.took <- err
		}
		// The next Ready asks for the install, unless raft has no use for the snapshot: decide after it.
		return nil
	})
	n.later(func() error { // runs in a later pump: by then the first one's Ready was handled
		n.later(func() error {
			if n.offered == rc {
				n.offered = nil
				rc.took <- errors.New("outdated")
			}
			return nil
		})
		return nil
	})
	if n.cfg.Manual {
		return nil
	}
	select {
	case err = <-rc.took:
	case <-n.dead:
		err = ErrStopped
	}
	if err != nil {
		in.Abort()
	}
	return err
}

// installSnapshot replaces store and log by the received snapshot: first the store by one atomic rename, then the log. A
// crash between the two is finished at the next start by the install mark (openMachines). Loop only.
func (n *Node) installSnapshot(w *replica.Write) error {
	n.installing.Store(true)
	defer n.installing.Store(false)
	rc := n.offered
	n.offered = nil
	if rc == nil || rc.point.Index != w.Snapshot.Index {
		return fmt.Errorf("install snapshot %d: its contents are not here", w.Snapshot.Index)
	}
	if err := n.drainWrites(); err != nil {
		return err
	}
	hs := n.wal.HardState()
	if w.Batch.HardState != nil {
		hs = *w.Batch.HardState
	}
	hs.Commit = max(hs.Commit, w.Snapshot.Index)
	n.writer.moved = nil // older than hs; the writer is idle
	// From here readers of the machines wait until the machines have loaded the new contents.
	err := n.applier.Replace(func() error {
		if err := n.store.Install(rc.in); err != nil {
			return err
		}
		if err := n.wal.Reset(w.Snapshot.Index, w.Snapshot.Term, hs); err != nil {
			return err
		}
		if len(w.Batch.Entries) == 0 {
			return nil
		}
		if err := n.wal.Append(w.Batch); err != nil {
			return err
		}
		return n.wal.Sync()
	})
	if err != nil {
		return fmt.Errorf("install snapshot %d: %w", w.Snapshot.Index, err)
	}
	n.appliedIdx = w.Snapshot.Index
	n.termApplied = w.Snapshot.Term
	n.soleVoter = isSole(w.Snapshot.Conf, n.id)
	n.level = n.members.Level()
	n.syncPeers()
	n.replaced.Add(1)
	n.publish(true) // forced: the configuration has changed, and perhaps nothing else that publish compares
	for _, o := range n.rep.Written(w) {
		n.send(&o)
	}
	// What is in flight may be in the snapshot or may never happen: this member can no longer tell, so it must not say
	// superseded when a later term comes.
	for _, seq := range n.inOrder() {
		p := n.inflight[seq]
		n.forget(p)
		n.complete(p, nil, ErrUnknown)
	}
	n.log.Info("snapshot installed", "index", w.Snapshot.Index)
	rc.took <- nil
	return nil
}
