package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"time"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
)

// A member's state can be older than its last signature. An old copy of its data directory was started, its log was cut, or a snapshot was
// restored. It cannot see that in its own store, and would sign a second history under the same key. So a member that begins to lead asks
// before it signs. It asks every place where the log is published, and reads the note of its own highest checkpoint, which lies beside the
// key. The log is held (nothing is signed, nothing is added) if one of them is ahead of it, and until one place has answered. If none
// answers, a note that covers the log is enough. The leader keeps a hold in memory only: the next leader asks again.

// Place is somewhere a log is published.
type Place struct {
	Name string // in the operator's words
	// Ask reads what is published there. ahead describes content that is not an earlier state of l, "" if there is none; an error is no
	// answer. It may be called from any goroutine.
	Ask func(ctx context.Context, l *tlogmachine.Log) (ahead string, err error)
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

// guard is the knowledge of one log in one term. Its fields are guarded by Worker.guardMu.
type guard struct {
	decided bool   // the first round is over
	why     string // the log is held, and this is why; "" = it may be signed
	vouched bool   // an operator has shown that the last published checkpoint is a prefix
	told    string // the last message to the operator
	again   chan struct{}
}

// newTerm forgets what was known. Only the goroutine of Run calls it, and end when the term is over.
func (w *Worker) newTerm(term uint64) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	set := func(term uint64) {
		w.guardMu.Lock()
		defer w.guardMu.Unlock()
		w.guardTerm, w.guardCtx, w.guards = term, ctx, map[*tlogmachine.Log]*guard{}
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
func (w *Worker) guardOf(l *tlogmachine.Log) *guard {
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
func (w *Worker) mayGoOn(l *tlogmachine.Log) bool {
	w.guardMu.Lock()
	defer w.guardMu.Unlock()
	g := w.guardOf(l)
	return g.decided && g.why == ""
}

// heldBack says why a log is held in this term, "" if it is not. It waits for the first answers, but not longer than
// verdictPatience.
func (w *Worker) heldBack(l *tlogmachine.Log, patience time.Duration) string {
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
func (w *Worker) ask(ctx context.Context, l *tlogmachine.Log, g *guard) {
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

// judge decides from the answers so far. held is the reason to hold the log, and silent names a place without an answer. enough reports
// that the other answers, or the note, suffice.
func (w *Worker) judge(ctx context.Context, l *tlogmachine.Log, g *guard, held, silent string, enough bool) {
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

// askOne asks one place. Content beyond this member's own state is believed only once that state has everything acknowledged. A deposed
// leader knows less than its successor has published.
func (w *Worker) askOne(ctx context.Context, p Place, l *tlogmachine.Log) (ahead string, err error) {
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
