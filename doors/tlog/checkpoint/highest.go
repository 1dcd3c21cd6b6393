package checkpoint

import (
	"context"
	"errors"
	"fmt"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Highest keeps, for each log, the highest checkpoint that was signed with the key on this member, outside log and store. Its methods
// may be called from any goroutine.
type Highest interface {
	// Last returns that checkpoint, nil if there is none under this key. here is false if the note was copied from another
	// member or directory: then it is as old as the rest of the copy. It can still show that the log is behind, but not that it
	// is not.
	Last(log string, key *tiles.Verifier) (c *tiles.Checkpoint, here bool, err error)
	// Note returns once checkpoints, of different logs, are durable, with an error for each or nil. One that is not higher than the last of
	// its log changes nothing. Checkpoints that can be synced together are synced once.
	Note(all []Noted) []error
}

// Noted is a checkpoint to be kept.
type Noted struct {
	Log  string
	Key  *tiles.Verifier
	Size uint64
	Note []byte
}

// noteHolds describes how the note of the highest checkpoint differs from an earlier state of the log. It is "" if the note is such a state
// or there is no note. covered reports that the note was made here and the log has all of it.
func (w *Worker) noteHolds(ctx context.Context, l *tlogmachine.Log) (ahead string, covered bool) {
	w.guardMu.Lock()
	covered = w.live[l]
	w.guardMu.Unlock()
	if w.opt.Highest == nil {
		return "", covered || w.opt.Places == nil
	}
	name := l.Spec.Name
	last, here, err := w.opt.Highest.Last(name, &l.Spec.Key)
	if err != nil {
		return err.Error(), false
	}
	if last == nil {
		return "", covered
	}
	if why := w.beyond(l, last); why != "" {
		if err := w.node.Linearize(ctx); err != nil {
			return "", false // another member leads, or the next round will tell
		}
		if why = w.beyond(l, last); why != "" {
			return fmt.Sprintf("%s.highest beside its key: %s", name, why), false
		}
	}
	c := l.Checkpoint()
	return "", covered || here && (c == nil || c.Size <= last.Size)
}

// beyond describes why a checkpoint is not of this log, "" if it is.
func (w *Worker) beyond(l *tlogmachine.Log, c *tiles.Checkpoint) string {
	v := l.View()
	if c.Size > v.Size {
		return fmt.Sprintf("it has %d entries, the log %d", c.Size, v.Size)
	}
	own, err := l.Prover(v, c.Size).Root()
	if err == nil && own == c.Root {
		return ""
	}
	if _, _, err := w.logs.CheckEdge(l); tlogmachine.IsDamage(err) { // the log is not older, it is broken
		w.damaged(l, err)
		return ""
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("at size %d its root is %s, the log's %s", c.Size, c.Root, own)
}

// seen notes that a log's checkpoint grew in the lifetime of this process. Its signer had asked the places, so the log is not older than
// its signatures.
func (w *Worker) seen(l *tlogmachine.Log) {
	w.guardMu.Lock()
	w.live[l] = true
	w.guardMu.Unlock()
}

// note writes the signed checkpoints beside the keys, durably and before any client sees them, and drops those for which that failed.
func (w *Worker) note(signed []pending) (kept []pending, err error) {
	if w.opt.Highest == nil {
		return signed, nil
	}
	all := make([]Noted, len(signed))
	for i, s := range signed {
		all[i] = Noted{s.log.Spec.Name, &s.log.Spec.Key, s.Size, s.Note}
	}
	errs := w.opt.Highest.Note(all)
	for i, s := range signed {
		if errs[i] == nil {
			kept = append(kept, s)
			continue
		}
		w.opt.Logger.Error("not signed: the note of the highest checkpoint cannot be kept", "log", s.log.Spec.Name, "err", errs[i])
	}
	return kept, errors.Join(errs...)
}

// follows keeps the notes of a follower, so that it knows the signed checkpoints should it come to lead. The log's checkpoint at the
// member's start is not noted, because it may be older than the last signature.
func (w *Worker) follows() {
	if !w.node.Status().Ready {
		return
	}
	var all []Noted
	for _, l := range w.logs.Logs() {
		c := l.Checkpoint()
		if c == nil || !w.key(l) {
			continue
		}
		base, known := w.base[l]
		if !known {
			w.base[l] = c.Size
			continue
		}
		if c.Size <= base {
			continue
		}
		w.base[l] = c.Size
		w.seen(l)
		all = append(all, Noted{l.Spec.Name, &l.Spec.Key, c.Size, c.Note})
	}
	if w.opt.Highest == nil || len(all) == 0 {
		return
	}
	for i, err := range w.opt.Highest.Note(all) {
		if err != nil {
			w.opt.Logger.Warn("the note of the highest checkpoint is not kept", "log", all[i].Log, "err", err)
		}
	}
}
