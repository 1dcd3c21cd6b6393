package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
)

// Story carries out a run whose faults a test makes, and no others: a cluster begins, the story happens, and everything is healed and judged.
func Story(opt Options, story func(w *World)) *Report {
	return play(opt, func(w *World) {
		w.begin()
		story(w)
		w.finish()
	})
}

// Wait lets time pass until something is so, which must come.
func (w *World) Wait(what string, so func() bool) {
	if !w.runUntil(w.now+30*time.Second, so) {
		w.fail(Stuck, "not within 30 s: %s", what)
	}
}

// Pass lets time pass.
func (w *World) Pass(d time.Duration) { w.runUntil(w.now+d, func() bool { return false }) }

// Up waits until a leader knows so many members by their names.
func (w *World) Up(members int) *Member {
	var lead *host
	w.Wait("all members have started", func() bool {
		if lead = w.leader(); lead == nil {
			return false
		}
		named := 0
		for _, m := range lead.n.Members() {
			if m.Name != "" {
				named++
			}
		}
		return named == members
	})
	return lead
}

// Leader is the member that leads in the highest term, nil if none is known to.
func (w *World) Leader() *Member { return w.leader() }

// AtRest reports whether all members are up and have the same state, and no workload has anything left to do.
func (w *World) AtRest() bool { return w.unequal() == "" }

// Chance is the source that faults are drawn from.
func (w *World) Chance() *rand.Rand { return w.rFault }

// CutOff cuts a member off from all others.
func (w *World) CutOff(m *Member, d time.Duration) {
	for _, o := range w.hosts {
		if o != m {
			w.nemesis.cutFor(o, m, d)
			w.nemesis.cutFor(m, o, d)
		}
	}
}

// Disconnect breaks every connection between members.
func (w *World) Disconnect() {
	for _, l := range w.net.links {
		l.drop("broken")
	}
}

// Tap has f see every frame that has left its sender, or is about to arrive; nil: no more of them. f runs in the middle of a member's turn.
func (w *World) Tap(f func(from, to *Member)) { w.net.tap = f }

// Crash ends the process; with power, unsynced data is lost.
func (h *host) Crash(power bool) { h.crash(power) }

// PowerOffAfter cuts the power in the middle of the n-th disk operation from now on; below zero: no more.
func (h *host) PowerOffAfter(n int) {
	h.dying = n >= 0
	h.disk.PowerOffAfter(n)
}

// Dying reports whether such a cut is still to come.
func (h *host) Dying() bool { return h.dying }

// Flush makes durable what the store has in memory.
func (h *host) Flush() { _ = h.mem.Flush() } // its disk fails on purpose, or not at all

// Skew gives the machine's clock another rate, drawn from those allowed, and lets the wall clock jump.
func (h *host) Skew(r *rand.Rand) {
	h.syncClock()
	h.rate = minRate + (MaxRate-minRate)*r.Float64()
	h.clock.Jump(Between(r, -time.Hour, time.Hour))
}

// Catch runs seeds of a build with a deliberate defect (Options.Break, Options.Defect). It stops when a run breaks a promise of one of
// these kinds, and names it. It fails if none of 60 did, if a promise of another kind was broken, or if the seed fails without the defect.
func Catch(opt Options, kinds ...string) (found string, err error) {
	for opt.Seed = 1; opt.Seed <= 60; opt.Seed++ {
		v := Run(opt).Failure
		if v == nil {
			continue
		}
		first, _, _ := strings.Cut(v.Text, "\n")
		found = fmt.Sprintf("caught with seed %d: %s: %s", opt.Seed, v.Kind, first)
		if !slices.Contains(kinds, v.Kind) {
			err = fmt.Errorf("seed %d: caught, but as %w", opt.Seed, v)
		}
		sound := opt
		sound.Break, sound.Defect = node.Break{}, ""
		if v := Run(sound).Failure; v != nil {
			err = errors.Join(err, fmt.Errorf("seed %d without the defect: %w", opt.Seed, v))
		}
		return found, err
	}
	return "", errors.New("not caught in 60 seeds")
}

// Add adds the figures of another run.
func (r *Report) Add(o *Report) {
	r.Answered, r.Unknown, r.Leaders = r.Answered+o.Answered, r.Unknown+o.Unknown, r.Leaders+o.Leaders
	r.Crashes, r.FaultCount, r.Snapshots = r.Crashes+o.Crashes, r.FaultCount+o.FaultCount, r.Snapshots+o.Snapshots
	r.Changes, r.Tokens, r.Passes, r.Outdated = r.Changes+o.Changes, r.Tokens+o.Tokens, r.Passes+o.Passes, r.Outdated+o.Outdated
	for what, n := range o.More { // any order: sums
		if r.More == nil {
			r.More = map[string]int{}
		}
		r.More[what] += n
	}
	r.Joined, r.Promoted, r.Removed, r.Lost = r.Joined+o.Joined, r.Promoted+o.Promoted, r.Removed+o.Removed, r.Lost+o.Lost
	r.Entries, r.Replayed, r.Spoiled = r.Entries+o.Entries, r.Replayed+o.Replayed, r.Spoiled+o.Spoiled
	r.Held, r.Unheld, r.Spans, r.Kept, r.Pruned = r.Held+o.Held, r.Unheld+o.Unheld, r.Spans+o.Spans, r.Kept+o.Kept, r.Pruned+o.Pruned
	r.Halves, r.Restored, r.Verified = r.Halves+o.Halves, r.Restored+o.Restored, r.Verified+o.Verified
	r.Findings, r.Unjudged, r.Met = r.Findings+o.Findings, r.Unjudged+o.Unjudged, r.Met+o.Met
	r.Renewed, r.Expired, r.Compared = r.Renewed+o.Renewed, r.Expired+o.Expired, r.Compared+o.Compared
}

// Counts is the figures in words.
func (r *Report) Counts() string {
	return fmt.Sprintf("%d operations answered, %d unknown, %d faults, %d crashes, %d leaders, %d snapshots, "+
		"%d members joined, %d promoted, %d removed, %d data directories lost, %d states compared, %d renewals, %d nodes expired, "+
		"%d changes of users, %d tokens held, %d writes under authentication, %d judged anew, %v",
		r.Answered, r.Unknown, r.FaultCount, r.Crashes, r.Leaders, r.Snapshots, r.Joined, r.Promoted, r.Removed, r.Lost, r.Compared, r.Renewed,
		r.Expired, r.Changes, r.Tokens, r.Passes, r.Outdated, r.More)
}
