package ship

import (
	"context"
	"io"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
)

// Member is the worker's view of its node. NodeMember is the one; tests and the simulation have others.
type Member interface {
	worker.Member
	IDs() (cluster, member uint64)
	Mono() time.Duration
	Status() node.Status
	// Committed, StateHash, Retain, SetArchived, ArchivedIndex and ArchiveWanted are node.Node's.
	Committed(ctx context.Context, from uint64, maxBytes int) ([]node.Entry, error)
	StateHash(ctx context.Context, index uint64) (hash uint64, known bool, err error)
	Retain(name string, from uint64)
	SetArchived(index uint64)
	ArchivedIndex() uint64
	ArchiveWanted() (index uint64, more <-chan struct{})
	// Call and Handle are node.Node's: the members tell each other which archive they use.
	Call(ctx context.Context, service string, req []byte) ([]byte, error)
	Handle(service string, fn func(ctx context.Context, req []byte) ([]byte, error))
	// TakeSnapshot begins a snapshot of the state at some applied index after the call began, as docs/formats/snapshot.md has it. The caller
	// reads it to its end, or closes it.
	TakeSnapshot(ctx context.Context) (*node.SnapshotInfo, io.ReadCloser, error)
}

// NodeMember is a node as a Member.
type NodeMember struct{ *node.Node }

var _ Member = NodeMember{}

// TakeSnapshot implements Member. A goroutine writes what is read.
func (m NodeMember) TakeSnapshot(ctx context.Context) (*node.SnapshotInfo, io.ReadCloser, error) {
	v, info, err := m.SnapshotView(ctx)
	if err != nil {
		return nil, nil, err
	}
	r, w := io.Pipe()
	go func() {
		defer v.Close()
		w.CloseWithError(node.WriteSnapshot(ctx, w, v, info)) // nil: the end of the stream
	}()
	return info, r, nil
}
