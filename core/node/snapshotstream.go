package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	mmember "github.com/holdfastdb/holdfast/core/machine/member"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/task"
)

// transfers are snapshots that come in and go out.
type transfers struct {
	snapshots  map[uint64]uint64 // loop only: streams going out, member → index
	offered    *received         // loop only
	receiving  atomic.Bool       // a stream is coming in
	installing atomic.Bool       // one is being installed at this moment
	replaced   atomic.Int64      // installed so far
}

// SaveSnapshot streams a snapshot of this member's state at some applied index after the call began. It does not stop
// writes. Errors: ErrStopped, ctx's, or w's.
func (n *Node) SaveSnapshot(ctx context.Context, w io.Writer) error {
	v, info, err := n.SnapshotView(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	return WriteSnapshot(ctx, w, v, info)
}

// SnapshotView takes a View between two entries, and the head of a snapshot of it. It is not bounded in age: its caller writes it out
// without delay. Errors: ErrStopped, or ctx's.
func (n *Node) SnapshotView(ctx context.Context) (store.View, *SnapshotInfo, error) {
	var v store.View
	var info SnapshotInfo
	taken := make(chan struct{})
	n.later(func() error {
		_, hash := n.applier.Hash()
		v = n.store.NewView()
		info = SnapshotInfo{Cluster: n.identity.Cluster, Index: n.appliedIdx, Term: n.termApplied, Conf: n.rep.Conf(), State: hash,
			WallNs: n.applier.Stamp().WallNs}
		close(taken)
		return nil
	})
	switch n.tasks.Wait(task.Forever, taken, n.dead, ctx.Done()) {
	case 0:
		return v, &info, nil
	case 1:
		return nil, nil, ErrStopped
	}
	n.tasks.Go(func() { // the loop has the request already
		if n.tasks.Wait(task.Forever, taken, n.dead) == 0 {
			v.Close()
		}
	})
	return nil, nil, ctx.Err()
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
func (n *Node) sendSnapshot(o *raft.Outgoing) {
	if _, busy := n.snapshots[o.To]; busy {
		n.rep.ReportSnapshot(o.To, false)
		return
	}
	// Nothing was applied since raft named the point: the View is exactly at it.
	v := n.store.NewView()
	info := SnapshotInfo{Cluster: n.identity.Cluster, Index: o.Snapshot.Index, Term: o.Snapshot.Term, Conf: o.Snapshot.Conf}
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
	point *raft.SnapshotPoint
	in    store.Incoming
	took  chan error // the outcome, for the stream's goroutine
}

// ours refuses a snapshot of another cluster before its contents are read.
func (n *Node) ours(info *SnapshotInfo) error {
	if info.Cluster != n.identity.Cluster {
		return fmt.Errorf("%w: it is of cluster %x", ErrBadSnapshot, info.Cluster)
	}
	return nil
}

// HandleStream implements peer.Handler: it builds a new store from the stream, then offers it to raft.
func (n *Node) HandleStream(from uint64, r io.Reader) error {
	if !n.knows(from) {
		return errStranger
	}
	head, err := readStreamHead(r)
	if err != nil {
		return err
	}
	point, term, err := raft.SnapshotHead(head)
	if err != nil {
		return err
	}
	if !n.receiving.CompareAndSwap(false, true) {
		return errors.New("another snapshot is being received")
	}
	defer n.receiving.Store(false)
	in, err := n.store.Incoming()
	if err == nil {
		if err = n.receiveRows(in, n.guardStream(r, term), point); err != nil {
			in.Abort()
		}
	}
	if err != nil {
		return fmt.Errorf("receive snapshot: %w", err)
	}
	return n.offer(from, head, &received{point: point, in: in, took: make(chan error, 1)})
}

// readStreamHead reads raft's message, which stands before the snapshot.
func readStreamHead(r io.Reader) ([]byte, error) {
	var l [4]byte
	if _, err := io.ReadFull(r, l[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(l[:])
	if size > 1<<20 {
		return nil, ErrBadSnapshot
	}
	head := make([]byte, size)
	_, err := io.ReadFull(r, head)
	return head, err
}

// receiveRows writes a snapshot into a new store, with the mark that says of which one it is.
func (n *Node) receiveRows(in store.Incoming, r io.Reader, point *raft.SnapshotPoint) error {
	marked, specs := false, n.applier.Specs()
	mark := func() error {
		marked = true
		return in.Set(installKey, installMark(point))
	}
	info, err := ReadSnapshot(r, n.ours, func(k, v []byte) error {
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
	if err != nil {
		return err
	}
	if info.Index != point.Index {
		return fmt.Errorf("%w: head says %d, contents %d", ErrBadSnapshot, point.Index, info.Index)
	}
	if !marked {
		if err := mark(); err != nil {
			return err
		}
	}
	return in.Finish(point.Index)
}

// offer hands a received snapshot to raft and waits until it is installed or turns out to be of no use.
func (n *Node) offer(from uint64, head []byte, rc *received) (err error) {
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
		rc.in.Abort()
	}
	return err
}

// installSnapshot replaces store and log by the received snapshot: first the store by one atomic rename, then the log. A
// crash between the two is finished at the next start by the install mark (openMachines). Loop only.
func (n *Node) installSnapshot(w *raft.Write) error {
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
	st := n.applier.Stamp()
	n.heard(st.TickMs, n.clock.Mono(), false, false) // as old as the snapshot, under any leader
	n.lastWall = max(n.lastWall, st.WallNs)
	n.soleVoter = isSole(w.Snapshot.Conf, n.id)
	n.level = n.members.Level()
	if err := n.separateValues(); err != nil {
		return err
	}
	n.syncPeers()
	n.replaced.Add(1)
	n.publish(true) // forced: the configuration has changed, and perhaps nothing else that publish compares
	for _, o := range n.rep.Written(w) {
		n.send(&o)
	}
	// Commands in flight may be in the snapshot or may never happen. This member can no longer tell, so it must not call them superseded
	// when a later term comes.
	for _, seq := range n.inOrder() {
		p := n.inflight[seq]
		n.forget(p)
		n.complete(p, nil, ErrUnknown)
	}
	n.log.Info("snapshot installed", "index", w.Snapshot.Index)
	n.letGo(w.Snapshot.Index, "this member was given a snapshot")
	rc.took <- nil
	return nil
}
