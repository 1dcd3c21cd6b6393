package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/objstore"
)

// TakeOver makes owner, an unused number, the owner of the chain. It creates a fence under the one name at which the chain can go on,
// behind any file that takes that name first. When it returns, no upload of another owner in flight can extend the chain, and the head is
// the fence. The caller's first file has the name of Head.Next. An empty replica is returned unchanged: of several owners that create its
// first file one succeeds.
//
// An owner that is alive and stores files without a pause is always first; ctx ends the attempt. After an error the fence may be there or
// come to be there. Called again with the same owner it goes on.
func (r *Replica) TakeOver(ctx context.Context, owner uint64) (*Chain, error) {
	if owner == 0 {
		return nil, errors.New("take over: 0 is nobody's node id")
	}
	for {
		c, err := r.Read(ctx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("take over: %w", err)
		case c.Head.Empty(), c.Head.Fence && c.Head.Owner == owner:
			return c, nil
		}
		if c, err = r.Fence(ctx, c, owner); !errors.Is(err, ErrMoved) {
			return c, err
		}
	}
}

// ErrMoved: the chain has gone on since it was read. No fence was made.
var ErrMoved = errors.New("the replica has gone on since it was read")

// Fence is TakeOver where the caller has judged the chain c: the fence is created right behind c's head or not at all. ErrMoved says that
// another file is there; then nothing has changed for its owner, unless the manifest says later that the chain goes another way. If c's last
// file is damaged, the caller has put what it knows of it into c.Head.
func (r *Replica) Fence(ctx context.Context, c *Chain, owner uint64) (*Chain, error) {
	switch {
	case owner == 0:
		return nil, errors.New("take over: 0 is nobody's node id")
	case c.Head.Empty():
		return nil, errors.New("take over: the replica is empty")
	case c.Head.Post == 0:
		return nil, errors.New("take over: its files have no database checksums, so Litestream wrote it; give another place")
	case !c.Head.room():
		return nil, fmt.Errorf("take over: no TXIDs are left behind %s; begin in another place", c.Head.TXID)
	}
	fence := File{Size: FenceSize, Fence: true}
	fence.Min, fence.Max = c.Head.Next()
	data, err := EncodeFence(c.Head, owner, r.now())
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	if err = r.put(ctx, r.Name(fence), int64(len(data)), Bytes(data)); errors.Is(err, objstore.ErrExists) {
		var same bool
		same, err = r.holds(ctx, r.Name(fence), Bytes(data)) // a client may repeat a request whose answer was lost
		if err == nil && !same {
			return nil, fmt.Errorf("take over at %s: %w", c.Head.TXID, ErrMoved)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	// The name may have been free because the file that had it was removed since the chain was read. An owner removes a file only after its
	// manifest drops it. So if the fence is not part of the chain as it is read after its creation, it never was.
	if err := r.sweep(ctx, fence, data); err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	after, err := r.Read(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("take over: %w", err)
	case !after.Head.Fence || after.Head.Owner != owner:
		return nil, fmt.Errorf("take over at %s: %w", c.Head.TXID, ErrMoved)
	}
	return after, nil
}

// sweep removes a file that was just created if the manifest shows that the chain had long passed its name.
func (r *Replica) sweep(ctx context.Context, f File, data []byte) error {
	m, err := r.manifest(ctx)
	if errors.Is(err, ErrBadManifest) {
		return nil // it has no information; the next read lists the files
	}
	if err != nil || m == nil {
		return err
	}
	if m.Head.TXID < f.Min || slices.ContainsFunc(m.Files, func(g File) bool { return g.Level == f.Level && g.Min == f.Min && g.Max == f.Max }) {
		return nil
	}
	there, err := objstore.GetMost(ctx, r.store, r.Name(f), int64(len(data)))
	if err != nil || !bytes.Equal(there, data) {
		return nil // it is not ours, or is gone; a remaining one is removed with the orphans
	}
	return r.store.Delete(ctx, r.Name(f))
}
