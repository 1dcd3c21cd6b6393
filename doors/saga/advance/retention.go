package advance

import (
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// RunRetention writes this member's retention of ended transactions to the log, whenever it leads and the log differs, until the node
// stops. Members forget by the log, so the leader's setting is all members'. Call it once.
func (w *Worker) RunRetention() {
	worker.Lead(w.node, func(term uint64, over <-chan struct{}) {
		waited := false
		for was := w.state.Retention(); was != w.opt.RetentionMs; was = w.state.Retention() {
			part := entry.Part{Machine: sagapart.Machine, Body: sagapart.Append(nil, &sagapart.Part{Kind: sagapart.Retain, RetainMs: w.opt.RetentionMs})}
			res, err := worker.Propose(w.node, term, part)
			switch {
			case err == nil && res.Rejection != nil:
				err = res.Rejection
			case err == nil:
				w.opt.Logger.Info("transactions that end are kept for another time", "retention", msTime(w.opt.RetentionMs), "was", msTime(was))
				continue // the state of this member has it
			case errors.Is(err, node.ErrSuperseded):
				return
			}
			if !waited {
				waited = true
				w.opt.Logger.Warn("the time for which transactions are kept that have ended is not changed yet; it is tried again", "retention", msTime(w.opt.RetentionMs), "is", msTime(was), "err", err)
			}
			if w.tasks.Wait(retentionPause, over, w.node.StoppedC()) >= 0 {
				return
			}
		}
	}, nil)
}

// retentionPause is the leader's pause before it repeats a refused setting: a cluster of a lower level, most often.
const retentionPause = time.Second

func msTime(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
