package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	mtree "github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/tiles"
)

// A member's state can be older than what it has signed before: an old copy of its data directory was started, its log was cut,
// a snapshot was restored. It cannot see that from what it stores, and would sign a second history under the same key. So a
// member that begins to lead asks, before it signs: every place where the log is published, and the note of the highest
// checkpoint that this member has signed, which lies beside the key. The log is held (nothing is signed, nothing is added) if
// one of them is ahead of it, and until one place has answered. If none answers, a note that covers the log is enough. The
// leader keeps a hold in memory only: the next leader asks again.

// Place is somewhere a log is published.
type Place struct {
	Name string // in the operator's words
	// Ask reads what is published there. ahead says in what it is not an earlier state of l, "" if it is one; an error is no
	// answer. It may be called from any goroutine.
	Ask func(ctx context.Context, l *mtree.Log) (ahead string, err error)
}

// Highest keeps, for each log, the highest checkpoint that was signed with the key on this member, outside log and store. Its methods
// may be called from any goroutine.
type Highest interface {
	// Last returns that checkpoint, nil if there is none under this key. here is false if the note was copied from another
	// member or directory: then it is as old as the rest of the copy. It can still show that the log is behind, but not that it
	// is not.
	Last(log string, key *tiles.Verifier) (c *tiles.Checkpoint, here bool, err error)
	// Note returns once a checkpoint of a size is durable. A checkpoint that is not higher than the last changes nothing.
	Note(log string, key *tiles.Verifier, size uint64, note []byte) error
}

const (
	// askTimeout bounds one question to one place.
	askTimeout = 10 * time.Second
	// askAgain is the time between two rounds of questions, doubled each time up to askSeldom.
	askAgain  = 250 * time.Millisecond
	askSeldom = 10 * time.Second
	// heldTimeout bounds asking the leader which logs are held.
	heldTimeout = 300 * time.Millisecond
	// heldService and releaseService are the calls behind Holds and Release.
	heldService    = "tlog.held"
	releaseService = "tlog.release"
	// verdictPatience is how long an add waits for the first round.
	verdictPatience = 700 * time.Millisecond
)

// guard is what is known of one log in one term. Its fields are guarded by Worker.guardMu.
type guard struct {
	decided bool   // the first round is over
	why     string // the log is held, and this is why; "" = it may be signed
	vouched bool   // an operator has shown that the last published checkpoint is a prefix
	told    string // what the operator was told last
	again   chan struct{}
}

// newTerm forgets what was known. Only the goroutine of Run calls it, and end when the term is over.
func (w *Worker) newTerm(term uint64) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	set := func(term uint64) {
		w.guardMu.Lock()
		defer w.guardMu.Unlock()
		w.guardTerm, w.guardCtx, w.guards = term, ctx, map[*mtree.Log]*guard{}
		w.announce()
	}
	set(term)
	return func() {
		cancel()
		set(0)
	}
}

// announce wakes all that wait for a change. The caller holds guardMu.
func (w *Worker) announce() {
	close(w.guardChanged)
	w.guardChanged = make(chan struct{})
}

// guardOf is the guard of a log in this term. It is made when first asked for, and then begins to ask the places. The caller
// holds guardMu, in a term.
func (w *Worker) guardOf(l *mtree.Log) *guard {
	g := w.guards[l]
	if g == nil {
		g = &guard{again: make(chan struct{}, 1)}
		w.guards[l] = g
		ctx := w.guardCtx
		w.asking.Go(func() { w.ask(ctx, l, g) })
	}
	return g
}

// mayGoOn reports whether nothing holds a log in this term.
func (w *Worker) mayGoOn(l *mtree.Log) bool {
	w.guardMu.Lock()
	defer w.guardMu.Unlock()
	g := w.guardOf(l)
	return g.decided && g.why == ""
}

// heldBack says why a log is held in this term, "" if it is not. It waits for the first answers, but not longer than
// verdictPatience.
func (w *Worker) heldBack(l *mtree.Log, patience time.Duration) string {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		term, _ := w.node.Leadership()
		if term == 0 { // this member does not lead: the leader answers
			return ""
		}
		w.guardMu.Lock()
		changed := w.guardChanged
		if term == w.guardTerm {
			if g := w.guardOf(l); g.decided {
				defer w.guardMu.Unlock()
				return g.why
			}
		}
		w.guardMu.Unlock()
		select {
		case <-changed:
		case <-late.C:
			return "the log is held: the places where it is published are being asked what they hold; try again"
		case <-w.node.StoppedC():
			return ""
		}
	}
}

// ask asks until every place has answered that it is behind, or the term ends.
func (w *Worker) ask(ctx context.Context, l *mtree.Log, g *guard) {
	var all []Place
	if w.opt.Places != nil {
		all = w.opt.Places(l.Spec.Name)
	}
	open := slices.Clone(all)
	for wait := askAgain; ; wait = min(2*wait, askSeldom) {
		noted, covered := w.noteHolds(ctx, l)
		held, silent, left := noted, "", len(open)
		if left == 0 || held != "" {
			w.judge(ctx, l, g, held, "", true)
		}
		type reply struct {
			place, ahead string
			err          error
		}
		replies := make(chan reply, left)
		for _, p := range open { // all at once, so that one that hangs does not delay the others
			w.asking.Go(func() {
				ahead, err := w.askOne(ctx, p, l)
				replies <- reply{p.Name, ahead, err}
			})
		}
		for ; left > 0; left-- {
			r := <-replies
			switch {
			case r.err != nil:
				silent = fmt.Sprintf("%s does not answer what it holds: %v", r.place, r.err)
			case r.ahead != "":
				held = r.place + ": " + r.ahead
			default:
				open = slices.DeleteFunc(open, func(p Place) bool { return p.Name == r.place })
			}
			if answered := len(open) < len(all); answered || held != "" || left == 1 {
				w.judge(ctx, l, g, held, silent, answered || covered)
			}
		}
		var again <-chan time.Time
		if len(open) > 0 || held != "" {
			again = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-g.again:
			open, wait = slices.Clone(all), askAgain/2
		}
	}
}

// judge decides from the answers so far: held is why the log must be held, silent names a place that gave no answer, and enough
// reports that the others' answers, or the note, suffice.
func (w *Worker) judge(ctx context.Context, l *mtree.Log, g *guard, held, silent string, enough bool) {
	w.guardMu.Lock()
	defer w.guardMu.Unlock()
	if ctx.Err() != nil { // answers that came after the term count for nothing
		return
	}
	name, told := l.Spec.Name, ""
	resume := fmt.Sprintf("`holdfast resume --tlog %s --checkpoint FILE`", name)
	switch {
	case held != "":
		g.vouched = false
		g.why = fmt.Sprintf("the log is held, it is older than what was signed: %s; start the data directory that has it and use %s, or begin another log under another origin",
			held, resume)
		told = g.why
	case silent != "" && !enough && !g.vouched:
		g.why = fmt.Sprintf("the log is held until a place says that it is not ahead: %s; bring it back, or use %s with the last checkpoint that was published", silent, resume)
		told = "silent"
	default:
		if g.why = ""; silent != "" {
			told = "goes on"
		}
	}
	if told != g.told {
		switch g.told = told; {
		case g.why != "":
			w.opt.Logger.Warn("log held", "log", name, "why", g.why)
		case silent != "":
			w.opt.Logger.Warn("log goes on although a place does not answer", "log", name, "why", silent)
		default:
			w.opt.Logger.Info("log not held any more", "log", name)
		}
	}
	g.decided = true
	w.announce()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// askOne asks one place. What it holds beyond this member's own state is believed only when that state has everything that was
// acknowledged anywhere: a member that is not the leader any more knows less than its successor has published.
func (w *Worker) askOne(ctx context.Context, p Place, l *mtree.Log) (ahead string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if ahead, err = p.Ask(ctx, l); err != nil || ahead == "" {
		return ahead, err
	}
	if err := w.node.Linearize(ctx); err != nil {
		return "", err
	}
	return p.Ask(ctx, l)
}

// noteHolds says in what the note of the highest checkpoint is not an earlier state of a log, "" if it is one or there is none.
// covered reports that the note was made here and the log has all of it.
func (w *Worker) noteHolds(ctx context.Context, l *mtree.Log) (ahead string, covered bool) {
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

// beyond says in what a checkpoint is not of this log, "" if it is.
func (w *Worker) beyond(l *mtree.Log, c *tiles.Checkpoint) string {
	v := l.View()
	if c.Size > v.Size {
		return fmt.Sprintf("it has %d entries, the log %d", c.Size, v.Size)
	}
	own, err := l.Prover(v, c.Size).Root()
	if err == nil && own == c.Root {
		return ""
	}
	if _, _, err := w.logs.CheckEdge(l); mtree.IsDamage(err) { // the log is not older, it is broken
		w.damaged(l, err)
		return ""
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("at size %d its root is %s, the log's %s", c.Size, c.Root, own)
}

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

// holds is why logs are held, by name, on the leader.
func (w *Worker) holds() map[string]string {
	w.guardMu.Lock()
	defer w.guardMu.Unlock()
	out := map[string]string{}
	for l, g := range w.guards { // any order: the result is a map
		if g.why != "" {
			out[l.Spec.Name] = g.why
		}
	}
	return out
}

// Holds returns why logs are held, by name, as the leader last said; on another member that may be a second old. It may be
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

// seen notes that a log's checkpoint grew in the lifetime of this process: its signer had asked the places, so from now on this
// process knows that the log is not older than what was signed.
func (w *Worker) seen(l *mtree.Log) {
	w.guardMu.Lock()
	w.live[l] = true
	w.guardMu.Unlock()
}

// note writes what was signed beside the keys, durably and before anybody sees it, and drops the checkpoints for which that
// failed.
func (w *Worker) note(signed []pending) (kept []pending, err error) {
	if w.opt.Highest == nil {
		return signed, nil
	}
	errs := make([]error, len(signed))
	if len(signed) == 1 {
		errs[0] = w.opt.Highest.Note(signed[0].log.Spec.Name, &signed[0].log.Spec.Key, signed[0].Size, signed[0].Note)
	} else {
		done := make(chan struct{}, len(signed))
		for i, s := range signed { // each waits for a disk: together they wait about as long as one
			go func() {
				errs[i] = w.opt.Highest.Note(s.log.Spec.Name, &s.log.Spec.Key, s.Size, s.Note)
				done <- struct{}{}
			}()
		}
		for range signed {
			<-done
		}
	}
	for i, s := range signed {
		if errs[i] == nil {
			kept = append(kept, s)
			continue
		}
		w.opt.Logger.Error("not signed: the note of the highest checkpoint cannot be kept", "log", s.log.Spec.Name, "err", errs[i])
	}
	return kept, errors.Join(errs...)
}

// follows keeps the notes of a member that does not lead, so that it knows what was signed should it come to lead. The
// checkpoint the log had when the member started is not noted, because it may be older than what was signed.
func (w *Worker) follows() {
	if !w.node.Status().Ready {
		return
	}
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
		if w.opt.Highest != nil {
			if err := w.opt.Highest.Note(l.Spec.Name, &l.Spec.Key, c.Size, c.Note); err != nil {
				w.opt.Logger.Warn("the note of the highest checkpoint is not kept", "log", l.Spec.Name, "err", err)
			}
		}
	}
}
