package tlog

import (
	"context"

	"github.com/holdfastdb/holdfast/core/entry"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/serve/ack"
)

// archivedAdd holds back the answer to an entry that res has added until the entry is archived. With more it waits for all else that the
// answer shows too. It returns what is answered instead if that takes too long: a 500, which no client of a log sends again.
func (d *Door) archivedAdd(res *entry.Result, more bool) (instead *response) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.RequestTimeout)
	defer cancel()
	index := res.Pos.Index
	if more {
		index = d.node.ReadIndex()
	}
	session := ack.Session{Level: ack.Archive, Wrote: res}
	if err := session.Hold(ctx, d.node, index); err != nil {
		a := fail(500, err.Error())
		return &a
	}
	return nil
}

// archivedRead returns a, an answer read from l, once everything it can show is archived, or else a 503. Everything below an archived
// checkpoint is archived for good: readers below it do not depend on an archive that is away.
func (d *Door) archivedRead(l *tlogmachine.Log, r *request, a response) response {
	if r.shown != nil && r.shown.Size < d.archivedBelow(l, 0) {
		return a
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.RequestTimeout)
	defer cancel()
	if err := ack.Read(ctx, d.node); err != nil {
		return later("what the log holds is not archived yet: " + err.Error())
	}
	if r.shown != nil {
		d.archivedBelow(l, r.shown.Size+1)
	}
	return a
}

// archivedBelow notes that every checkpoint of l of less than size is archived, and returns the highest such size, 0 for none.
func (d *Door) archivedBelow(l *tlogmachine.Log, size uint64) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size > d.archived[l] {
		d.archived[l] = size
	}
	return d.archived[l]
}
