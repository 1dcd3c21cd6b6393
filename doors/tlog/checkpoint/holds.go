package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// errNotHeld: there is nothing to release.
var errNotHeld = errors.New("is not held")

// release serves releaseService on the leader: the request is a log's name, a newline and the last checkpoint that was published. It
// ends a hold for want of answers; one that is ahead stays.
func (w *Worker) release(ctx context.Context, req []byte) ([]byte, error) {
	name, note, _ := strings.Cut(string(req), "\n")
	l := w.logs.Find(name)
	if l == nil {
		return nil, fmt.Errorf("log %s: no such log", name)
	}
	w.guardMu.Lock()
	g := w.guards[l]
	held := g != nil && g.decided && g.why != ""
	w.guardMu.Unlock()
	if why := w.unable(l); why != "" && !held {
		return nil, fmt.Errorf("log %s %w back by its places: %s", name, errNotHeld, why)
	}
	if !held {
		return nil, fmt.Errorf("log %s %w", name, errNotHeld)
	}
	c, _, err := tiles.OpenCheckpoint([]byte(note), &l.Spec.Key)
	if err != nil {
		return nil, fmt.Errorf("no checkpoint of this log: %w; give the last one that was published", err)
	}
	if why := w.beyond(l, c); why != "" {
		return nil, fmt.Errorf("the published checkpoint is not of this log: %s; start the data directory that has it, or begin another log under another origin", why)
	}
	ahead, _ := w.noteHolds(ctx, l)
	if w.opt.Places != nil {
		for _, p := range w.opt.Places(name) {
			if why, err := w.askOne(ctx, p, l); err == nil && why != "" { // a place without an answer is no objection: the operator vouches for it
				ahead = p.Name + ": " + why
			}
		}
	}
	if ahead != "" {
		return nil, fmt.Errorf("the log is older than what was signed: %s; start the data directory that has it, or begin another log under another origin", ahead)
	}
	w.guardMu.Lock()
	g.vouched = true
	w.guardMu.Unlock()
	w.judge(ctx, l, g, "", "an operator has shown the last published checkpoint", true)
	w.AskAgain(name)
	return nil, nil
}

// Release ends the hold of a log whose places do not answer, given the last checkpoint that was published. It may be called
// from any goroutine and on any member; the leader decides.
func (w *Worker) Release(ctx context.Context, log string, note []byte) error {
	_, err := w.node.Call(ctx, releaseService, append([]byte(log+"\n"), note...))
	return err
}

// heldLogs serves heldService on the leader.
func (w *Worker) heldLogs(context.Context, []byte) ([]byte, error) { return json.Marshal(w.holds()) }

// holds is why logs take no entries, by name, on the leader. A missing key is among the reasons from the start of a term, before the first
// add.
func (w *Worker) holds() map[string]string {
	out := map[string]string{}
	for _, l := range w.logs.Logs() {
		if why := w.unable(l); why != "" {
			out[l.Spec.Name] = why
		}
	}
	w.guardMu.Lock()
	defer w.guardMu.Unlock()
	for l, g := range w.guards { // any order: the result is a map
		if g.why != "" {
			out[l.Spec.Name] = g.why
		}
	}
	return out
}

// Holds returns why logs take no entries, by name, as the leader last said; on another member that may be a second old. It may be
// called from any goroutine.
func (w *Worker) Holds(ctx context.Context) map[string]string {
	if term, _ := w.node.Leadership(); term != 0 {
		return w.holds()
	}
	w.heldMu.Lock()
	defer w.heldMu.Unlock()
	if time.Since(w.heldAt) < signsHolds {
		return w.held
	}
	ctx, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	held := map[string]string{}
	if b, err := w.node.Call(ctx, heldService, nil); err != nil || json.Unmarshal(b, &held) != nil {
		held = nil // a leader of another build does not know this call
	}
	w.held, w.heldAt = held, time.Now()
	return held
}

// AskAgain makes the leader ask the places of a log again. It is called when one was found that may be ahead.
func (w *Worker) AskAgain(log string) {
	l := w.logs.Find(log)
	w.guardMu.Lock()
	defer w.guardMu.Unlock()
	if g := w.guards[l]; g != nil {
		select {
		case g.again <- struct{}{}:
		default: // it is about to ask already
		}
	}
}
