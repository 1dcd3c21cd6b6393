package program

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
)

// A log's state in one word, the same in `holdfast tlog list`, in status, at /readyz and in the metrics.
const (
	stateOK        = "ok"
	stateHeld      = "held"
	stateNoKey     = "read-only: no key"
	stateHeldNoKey = "held, read-only: no key"
	stateDamaged   = "damaged"
	stateBehind    = "behind"
)

// judge returns a log's state. why is the reason why it takes no entries, lag the one why its signing is behind; "": neither.
func (s *LogStatus) judge(why, lag string, damaged bool) {
	noKey := strings.Contains(why, checkpoint.NoKey)
	switch s.Why = why; {
	case noKey && s.Held:
		s.State = stateHeldNoKey
	case noKey:
		s.State = stateNoKey
	case damaged && !s.Held:
		s.State = stateDamaged
	case s.Held, why != "":
		s.State = stateHeld
	case lag != "":
		s.State, s.Why = stateBehind, lag
	default:
		s.State = stateOK
	}
}

// line is the operator's line about a log that is not in order, "" for one that is.
func (s *LogStatus) line() string {
	switch s.State {
	case stateOK, "":
		return ""
	case stateBehind:
		return fmt.Sprintf("the log %s is behind: %s", s.Name, s.Why)
	}
	return fmt.Sprintf("the log %s takes no entries (%s): %s", s.Name, s.State, s.Why)
}

const (
	// lagLook is how often logs are looked at, lagGrace how long a checkpoint may stand still while its log has grown.
	lagLook, lagGrace = time.Second, 3 * time.Second
)

// lags knows since when the newest checkpoint of a log has not moved although the log has grown.
type lags struct {
	mu    sync.Mutex
	since map[*tlogmachine.Log]lag // guarded by mu
}

type lag struct {
	signed uint64
	at     time.Time
}

// look takes in how far the logs are signed.
func (g *lags) look(logs []*tlogmachine.Log, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.since
	g.since = map[*tlogmachine.Log]lag{}
	for _, l := range logs {
		signed, size := uint64(0), l.View().Size
		if c := l.Checkpoint(); c != nil {
			signed = c.Size
		}
		if signed == size {
			continue
		}
		if old, ok := was[l]; ok && old.signed == signed {
			g.since[l] = old
		} else {
			g.since[l] = lag{signed, now}
		}
	}
}

// of says that the signing of a log is behind, "" if it is not.
func (g *lags) of(l *tlogmachine.Log, now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.since[l]
	if !ok || now.Sub(at.at) < lagGrace {
		return ""
	}
	return fmt.Sprintf("its checkpoint has covered %d of %d entries since %s; the leader's log says why it does not sign", at.signed, l.View().Size,
		at.at.UTC().Format(time.RFC3339))
}

// watchLag looks after the logs until the node stops.
func (r *running) watchLag() {
	t := time.NewTicker(lagLook)
	defer t.Stop()
	for {
		select {
		case <-r.host.Node.StoppedC():
			return
		case now := <-t.C:
			r.lags.look(r.logs.Logs(), now)
		}
	}
}

// judged is the status of a log.
func (r *running) judged(l *tlogmachine.Log, why map[string]string) LogStatus {
	s := statusOf(l)
	s.judge(why[s.Name], r.lags.of(l, time.Now()), l.Damage() != nil)
	return s
}

// troubled lists the logs that are not in order.
func (r *running) troubled(ctx context.Context) (all []LogStatus) {
	for _, s := range r.list(ctx) {
		if s.line() != "" {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b LogStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// warnOfNames tells of logs that flags and files name and that do not exist: one may be misspelt.
func (r *running) warnOfNames() {
	named := map[string]string{}
	if r.tokens != nil {
		for _, name := range r.tokens.names() {
			named[name] = "--tlog-tokens"
		}
	}
	for _, p := range r.set.publish {
		named[p.log] = "--tlog-publish"
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if r.logs.Find(name) == nil && (name != defaultLog || r.at == nil) { // the log default is about to begin
			r.host.Log.Warn("there is no log of this name; nothing is done for it until it is created, and the name may be misspelt", "log", name, "given in", named[name])
		}
	}
}
