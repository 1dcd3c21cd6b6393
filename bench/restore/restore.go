// Package restore measures how long a data directory takes to be made from an archive. It writes one of a size through a real server, whose
// log it archives, and restores it. It is no load on a running server (bench/kv), and no measure of shipping.
package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	archiverestore "github.com/holdfastdb/holdfast/archive/restore"
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/objstore"
)

const lane node.Lane = 1

// house is a configuration as a server of 256 MiB has it.
func house(dir string) node.Config {
	s := budget.Of(budget.Small, kvmachine.Claims(true)...)
	return node.Config{Dir: dir, MemoryBytes: budget.Small, Shares: &s, Lanes: []node.LaneSpec{{Number: lane, Name: "kv"}}, Machines: []machine.Machine{
		kvmachine.New(kvmachine.OptionsOf(s)), v2machine.New(v2machine.Options{}), tlogmachine.New()}}
}

// Archive is the archive's content: puts of Value bytes to Keys keys, until the log has Bytes. With Snapshot there is one at the end too, which a
// restore of the newest state then is; otherwise it is all log.
type Archive struct {
	Bytes       int64
	Keys, Value int
	Snapshot    bool
}

// Make writes an archive to s, through a server in dir.
func (a Archive) Make(ctx context.Context, dir string, s objstore.Store) error {
	n, err := node.Start(ctx, house(dir), node.StartOptions{Name: "n1"})
	if err != nil {
		return err
	}
	defer n.Stop()
	for !n.Status().Ready {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
	tip, err := take(ctx, n, s)
	if err != nil {
		return err
	}
	n.Retain("bench", tip.Last+1)
	var wrote atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		wg.Go(func() { errs[i] = a.put(ctx, n, i, &wrote) })
	}
	shipped := make(chan error, 1)
	stop := make(chan struct{})
	go func() { shipped <- ship(ctx, n, s, tip, stop) }()
	wg.Wait()
	close(stop)
	err = errors.Join(append(errs, <-shipped)...)
	if err == nil && a.Snapshot {
		_, err = take(ctx, n, s)
	}
	return err
}

// put is one client.
func (a Archive) put(ctx context.Context, n *node.Node, client int, wrote *atomic.Int64) error {
	value := bytes.Repeat([]byte{'v'}, a.Value)
	for i := client; wrote.Add(int64(a.Value)) < a.Bytes; i += 64 {
		copy(value, fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15)) // not to be compressed away
		p := &kvpart.Part{Put: &kvpart.Put{Key: fmt.Appendf(nil, "key-%09d", i*7919%a.Keys), Value: value}}
		r, err := n.Propose(ctx, lane, entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, p)})
		if err == nil && r.Rejection != nil {
			err = errors.New(r.Rejection.Error())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take archives a snapshot of now.
func take(ctx context.Context, n *node.Node, s objstore.Store) (tip format.Tip, err error) {
	v, info, err := n.SnapshotView(ctx)
	if err != nil {
		return tip, err
	}
	defer v.Close()
	r, w := io.Pipe()
	go func() { w.CloseWithError(node.WriteSnapshot(ctx, w, v, info)) }()
	defer r.Close()
	m, err := archiverestore.Take(ctx, s, r, nil, nil)
	if err != nil {
		return tip, err
	}
	return format.Tip{Cluster: m.Cluster, Timeline: m.Timeline, Last: m.Index, Term: m.Term}, nil
}

// ship archives the log in spans of 4 MiB until stop, and the rest then.
func ship(ctx context.Context, n *node.Node, s objstore.Store, tip format.Tip, stop <-chan struct{}) error {
	e := format.NewEncoder(tip, 4<<20)
	finish := func() error {
		hash, known, err := n.StateHash(ctx, e.Tip().Last)
		if err != nil || !known {
			return fmt.Errorf("state hash at %d: %t %w", e.Tip().Last, known, err)
		}
		name, b := e.Finish(hash)
		return s.PutIfAbsent(ctx, objstore.Object{Name: name, Data: b})
	}
	for last := uint64(0); ; {
		select {
		case <-stop:
			last = n.Status().Applied
		default:
		}
		if last > 0 && e.Tip().Last >= last {
			return finish()
		}
		waits, done := context.WithTimeout(ctx, 100*time.Millisecond)
		some, err := n.Committed(waits, e.Tip().Last+1, 1<<20)
		done()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			continue // there is no more, or not yet
		}
		if err != nil {
			return err
		}
		for _, one := range some {
			ok, err := e.Append(format.Entry(one))
			if err == nil && !ok {
				if err = finish(); err == nil {
					_, err = e.Append(format.Entry(one))
				}
			}
			if err != nil {
				return err
			}
		}
		n.Retain("bench", e.Tip().Last+1)
	}
}

// Figures are of one restore.
type Figures struct {
	Bytes     int64 // of objects read
	Took, CPU time.Duration
	State     archiverestore.Mark
}

// Restore restores the newest state of the archive in s into a directory below dir, and measures it.
func Restore(ctx context.Context, s objstore.Store, dir string, show func(archiverestore.Progress)) (f Figures, err error) {
	a, err := archiverestore.Open(ctx, s, 0, nil)
	if err != nil {
		return f, err
	}
	began, cpu := time.Now(), spent()
	out, err := a.Restore(ctx, house(filepath.Join(dir, "restored")), archiverestore.Restoring{From: "bench", Name: "r1", Progress: func(p archiverestore.Progress) {
		f.Bytes = p.Bytes
		if show != nil {
			show(p)
		}
	}})
	if err != nil {
		return f, err
	}
	f.Took, f.CPU, f.State = time.Since(began), spent()-cpu, out.State
	return f, nil
}

// spent is the processor time of this process.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
