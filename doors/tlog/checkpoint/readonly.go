package checkpoint

import (
	"context"
	"time"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
)

// A log without a signer is read-only: an entry added to it could not be proved. Only the leader knows whether it is signed. The others ask
// it, at most once a second for each log with adds, and never at rest.

const (
	// signsService is the call: its request is a log's name, its answer why it is not signed, empty if it is.
	signsService = "tlog.signs"
	// signsHolds is how long an answer holds.
	signsHolds = time.Second
	// signsTimeout bounds asking. Without an answer an add is proposed all the same.
	signsTimeout = time.Second
)

// verdict is the leader's last answer about a log.
type verdict struct {
	why    string
	at     time.Time
	asking bool // a request is under way; other callers take the answer before it
}

// ReadOnly says why nothing may be added to a log, "" if it may. It may wait for the leader's answer, and may be called from
// any goroutine.
func (w *Worker) ReadOnly(l *tlogmachine.Log) string {
	if term, _ := w.node.Leadership(); term != 0 {
		return w.unsigned(l)
	}
	name := l.Spec.Name
	w.verdictMu.Lock()
	v := w.verdicts[name]
	if v == nil {
		v = &verdict{}
		w.verdicts[name] = v
	}
	why := v.why
	if v.asking || time.Since(v.at) < signsHolds {
		w.verdictMu.Unlock()
		return why
	}
	v.asking = true
	w.verdictMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), signsTimeout)
	answer, err := w.node.Call(ctx, signsService, []byte(name))
	cancel()
	w.verdictMu.Lock()
	defer w.verdictMu.Unlock()
	v.asking, v.at, v.why = false, time.Now(), ""
	if err == nil {
		v.why = string(answer)
	}
	return v.why
}

// signs serves signsService on the leader.
func (w *Worker) signs(_ context.Context, req []byte) ([]byte, error) {
	if l := w.logs.Find(string(req)); l != nil {
		return []byte(w.unsigned(l)), nil
	}
	return nil, nil // the member that asks is ahead of this one: its add will tell
}

// NoKey begins the reason of a log whose key the leader lacks, in ReadOnly and in Holds.
const NoKey = "the log is read-only: no key"

// unsigned says why this member would not sign a log, "" if it would.
func (w *Worker) unsigned(l *tlogmachine.Log) string {
	if why := w.unable(l); why != "" {
		return why
	}
	if l.Held() { // the door answers for a restored log itself
		return ""
	}
	return w.heldBack(l, verdictPatience)
}

// unable returns why this member cannot sign a log, "" if it can. It asks no other member.
func (w *Worker) unable(l *tlogmachine.Log) string {
	finder, at, again := "the member that leads", " on the member that leads", "start that member again"
	if w.opt.Alone != nil && w.opt.Alone() { // do not look for another member
		finder, at, again = "this server", "", "start the server again"
	}
	if err := l.Damage(); err != nil {
		return "the log is read-only: " + finder + " found it damaged in its store: " + err.Error()
	}
	if k := w.opt.Key(l.Spec.Name); k == nil {
		return NoKey + ": " + w.opt.KeyFile(l.Spec.Name) + " is missing" + at + "; put the log's own key there, no snapshot holds it"
	} else if !k.Verifier().Equal(&l.Spec.Key) {
		return NoKey + ": " + w.opt.KeyFile(l.Spec.Name) + at + " is another key; put the log's own there and " + again
	}
	return ""
}

// forgetVerdicts drops what another leader said.
func (w *Worker) forgetVerdicts() {
	w.verdictMu.Lock()
	clear(w.verdicts)
	w.verdictMu.Unlock()
	w.heldMu.Lock()
	w.heldAt = time.Time{}
	w.heldMu.Unlock()
}
