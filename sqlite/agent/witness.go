package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
)

const (
	// witnessGrace is how long after its capture a commit may be announced by a connection with the extension. The message is sent directly
	// after the commit.
	witnessGrace = 200 * time.Millisecond
	// witnessExcuse is the largest distance from a commit's capture to a message that explains it without naming it. Such messages are a
	// connection's end, a commit under ack local, or one with exclusive access.
	witnessExcuse = 2 * time.Second
	// witnessMost bounds what is kept of announcements and of commits that are not explained yet.
	witnessMost = 4096
)

// position is where a commit ends in a WAL.
type position struct {
	salt  [8]byte
	frame uint32
}

// witness tells commits of programs with the extension from others, under ack archive. The first are announced, by the place where they end. It is
// the loop's.
type witness struct {
	announced map[position]struct{} // not captured yet
	silent    []silent              // captured and not announced yet
}

// silent is a commit that was captured and not announced.
type silent struct {
	position
	at time.Time // of its capture
}

// announce notes the message of a commit.
func (w *witness) announce(p position) {
	for i, s := range w.silent {
		if s.position == p {
			w.silent = append(w.silent[:i], w.silent[i+1:]...)
			return
		}
	}
	if w.announced == nil {
		w.announced = make(map[position]struct{})
	}
	if len(w.announced) < witnessMost {
		w.announced[p] = struct{}{}
	}
}

// captured notes the commits of a group. A group that was found by reading the database stands for one commit at least.
func (w *witness) captured(g *capture.Group, now time.Time) {
	told := len(w.announced) > 0
	var mute []position
	for _, frame := range g.Commits {
		p := position{g.Salt, frame}
		if _, ok := w.announced[p]; !ok {
			mute = append(mute, p)
		}
	}
	if g.Commits == nil && len(g.Pages) > 0 && !told {
		mute = append(mute, position{})
	}
	w.announced = nil // each was of a commit before this capture
	for _, p := range mute {
		if len(w.silent) < witnessMost {
			w.silent = append(w.silent, silent{p, now})
		}
	}
}

// judge returns how many commits were made without the extension, as far as is certain, and forgets them. excused is when the last message came that
// explains commits without naming them; connections is how many have the extension.
func (w *witness) judge(now, excused time.Time, connections int) (n int64) {
	left := w.silent[:0]
	for _, s := range w.silent {
		switch {
		case !excused.IsZero() && s.at.Sub(excused).Abs() < witnessExcuse:
		case connections > 0 && now.Sub(s.at) < witnessGrace:
			left = append(left, s)
		default:
			n++
		}
	}
	if w.silent = left; len(left) == 0 {
		w.silent = nil
	}
	return n
}

// heard notes what a waiter says of its commit.
func (d *database) heard(w *waiter) {
	switch {
	case d.target.Ack != gate.Archive || w.conn == nil:
	case w.commit.Lone:
		d.mu.Lock()
		d.excused = w.came
		d.mu.Unlock()
	default:
		d.witness.announce(position{w.commit.Salt, w.commit.Frame})
	}
}

// errNoExtension: Config.RequireExtension, and a program committed without the extension.
var errNoExtension = errors.New("a program without the extension has committed, and did not wait until it was stored; load holdfast_sqlite.so in it, or use --ack local")

// watchCommits judges what was captured, under ack archive.
func (d *database) watchCommits(now time.Time) {
	if d.target.Ack != gate.Archive || len(d.witness.silent) == 0 {
		return
	}
	d.mu.Lock()
	excused, connections := d.excused, len(d.clients)
	d.mu.Unlock()
	n := d.witness.judge(now, excused, connections)
	if n == 0 {
		return
	}
	d.mu.Lock()
	d.said.without += n
	if d.said.withoutSince.IsZero() {
		d.said.withoutSince = now
	}
	count, since := d.said.without, d.said.withoutSince
	d.mu.Unlock()
	d.raise(alarmExtension, fmt.Sprintf("%v (%d commits since %s)", errNoExtension, count, since.UTC().Format(time.RFC3339)))
	if d.agent.cfg.RequireExtension {
		d.agent.breakOff(fmt.Errorf("%s: %w", d.target.Path, errNoExtension))
	}
}

// breakOff ends Broken with an error; the first one counts.
func (a *Agent) breakOff(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault == nil {
		a.fault = err
		close(a.broken)
	}
}

// Broken is closed when the agent is to be ended by its caller: Config.RequireExtension was not kept to. Fault says why.
func (a *Agent) Broken() <-chan struct{} { return a.broken }

// Fault is why Broken is closed; nil while it is not.
func (a *Agent) Fault() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fault
}
