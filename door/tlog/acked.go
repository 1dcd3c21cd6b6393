package tlog

import (
	"context"

	"github.com/holdfastdb/holdfast/door/ack"
	"github.com/holdfastdb/holdfast/entry"
)

// archivedAdd holds back the answer to an entry that res has added until that is archived, and what the answer shows beside it if it shows
// more. It returns what is answered instead if that takes too long: a 500, which no client of a log sends again.
func (d *Door) archivedAdd(res *entry.Result, more bool) (instead *response) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.RequestTimeout)
	defer cancel()
	var err error
	if more {
		err = ack.Read(ctx, d.node)
	} else {
		err = d.node.Archived(ctx, res.Pos.Index)
	}
	if err == nil {
		return nil
	}
	a := fail(500, (&ack.NotArchived{At: res.Pos, Term: res.Term}).Error())
	return &a
}

// archivedRead is a, once all is archived that can be in it, or a 503.
func (d *Door) archivedRead(a response) response {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.RequestTimeout)
	defer cancel()
	if err := ack.Read(ctx, d.node); err != nil {
		return later("what the log holds is not archived yet: " + err.Error())
	}
	return a
}
