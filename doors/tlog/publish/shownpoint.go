package publish

import (
	"context"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Shown knows, on every member, the newest checkpoint of a log that every place of it holds. On the leader its workers report
// it here; other members ask the leader. Nothing of it is stored: a member that begins to lead reads the places first.
//
// The places of one log publish the same checkpoints: each waits for the others before it takes a newer one. A place that took
// a newer one alone would no longer have the partial tiles of the checkpoint that is shown.
type Shown struct {
	node caller
	logs *tlogmachine.Machine

	mu     sync.Mutex
	rounds map[string]*round // guarded by mu, as are the rounds; by log, never changed after New
	said   map[string]*said  // guarded by mu: the leader's answers
}

// caller is what Shown needs of its node.
type caller interface {
	Leadership() (term uint64, changed <-chan struct{})
	Call(ctx context.Context, service string, req []byte) ([]byte, error)
	Handle(service string, fn func(ctx context.Context, req []byte) ([]byte, error))
}

// round is one checkpoint on its way to all places of a log.
type round struct {
	places  int
	term    uint64
	target  *tlogmachine.Checkpoint
	done    map[int]bool                    // places that have taken the target
	skewed  bool                            // one of them holds a later one
	begins  map[int]*tlogmachine.Checkpoint // the checkpoints there when this member began to lead; nil: none
	shown   *tlogmachine.Checkpoint
	changed chan struct{} // closed when the target may be another
}

// said is the leader's last answer.
type said struct {
	c      *tlogmachine.Checkpoint
	at     time.Time
	asking bool
}

const (
	// publishedService is the call: its request is a log's name, its answer the signed note that is shown, empty if there is none.
	publishedService = "tlog.published"
	// publishedHolds is how long an answer holds, publishedTimeout bounds asking.
	publishedHolds   = 100 * time.Millisecond
	publishedTimeout = time.Second
)

// NewShown makes n's, for the logs of m, before the node's first Call. places counts the places of each log.
func NewShown(n *node.Node, m *tlogmachine.Machine, places map[string]int) *Shown {
	return newShown(n, m, places)
}

func newShown(n caller, logs *tlogmachine.Machine, places map[string]int) *Shown {
	s := &Shown{node: n, logs: logs, rounds: map[string]*round{}, said: map[string]*said{}}
	for log, k := range places { // any order: each is made once
		s.rounds[log] = &round{places: k, changed: make(chan struct{})}
	}
	n.Handle(publishedService, s.serve)
	return s
}

// Checkpoint returns the checkpoint that may be shown of a log now, nil if that is not known or there is none. A log without places shows
// what is signed. It may wait for the leader's answer.
func (s *Shown) Checkpoint(l *tlogmachine.Log) *tlogmachine.Checkpoint {
	name := l.Spec.Name
	term, _ := s.node.Leadership()
	s.mu.Lock()
	r := s.rounds[name]
	if r == nil {
		s.mu.Unlock()
		return l.Checkpoint()
	}
	if term != 0 {
		defer s.mu.Unlock()
		if r.term != term {
			return nil
		}
		return r.shown
	}
	a := s.said[name]
	if a == nil {
		a = &said{}
		s.said[name] = a
	}
	if a.asking || time.Since(a.at) < publishedHolds {
		defer s.mu.Unlock()
		return a.c
	}
	a.asking = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), publishedTimeout)
	note, err := s.node.Call(ctx, publishedService, []byte(name))
	cancel()
	c, _, bad := tiles.OpenCheckpoint(note, &l.Spec.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	a.asking, a.at = false, time.Now()
	// A checkpoint that this member has not applied yet it cannot serve; it serves the older one.
	if err == nil && bad == nil && c.Size <= l.View().Size && (a.c == nil || c.Size >= a.c.Size) {
		a.c = &tlogmachine.Checkpoint{Size: c.Size, Root: c.Root, Note: note}
	}
	return a.c
}

// serve answers publishedService on the leader.
func (s *Shown) serve(_ context.Context, req []byte) ([]byte, error) {
	l := s.logs.Find(string(req))
	if term, _ := s.node.Leadership(); l == nil || term == 0 {
		return nil, node.ErrNotLeader
	}
	if c := s.Checkpoint(l); c != nil {
		return c.Note, nil
	}
	return nil, nil
}

// begin is called by each place's worker when its member begins to lead.
func (s *Shown) begin(log string, term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rounds[log]; r.term != term {
		r.term, r.target, r.shown, r.skewed = term, nil, nil, false
		r.done, r.begins = map[int]bool{}, map[int]*tlogmachine.Checkpoint{}
	}
}

// found is called with the checkpoint of a place's first read. If all places hold the same, it is shown at once.
func (s *Shown) found(log string, place int, c *tlogmachine.Checkpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rounds[log]
	if _, known := r.begins[place]; known || r.shown != nil {
		return
	}
	r.begins[place] = c
	if len(r.begins) < r.places || c == nil {
		return
	}
	for _, o := range r.begins { // any order: all must be the same
		if o == nil || o.Size != c.Size {
			return
		}
	}
	r.shown = c
}

// target is the checkpoint to publish, nil if there is none, and a channel that is closed when it may be another one.
func (s *Shown) target(l *tlogmachine.Log) (c *tlogmachine.Checkpoint, next <-chan struct{}) {
	newest, newer := l.Newest()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rounds[l.Spec.Name]
	if newest == nil {
		return nil, newer
	}
	if r.target == nil || len(r.done) == r.places && newest.Size > r.target.Size {
		r.target, r.done, r.skewed = newest, map[int]bool{}, false
		s.announce(r)
	}
	if len(r.done) == r.places {
		return r.target, newer
	}
	return r.target, r.changed
}

// took is called when a place holds the target, or a later one of size there.
func (s *Shown) took(log string, place int, c *tlogmachine.Checkpoint, there uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rounds[log]
	if r.target != c {
		return
	}
	r.done[place] = true
	r.skewed = r.skewed || there != c.Size
	if len(r.done) == r.places {
		if !r.skewed {
			r.shown = c
		}
		s.announce(r)
	}
}

// announce wakes all that wait for another target. The caller holds mu.
func (s *Shown) announce(r *round) {
	close(r.changed)
	r.changed = make(chan struct{})
}
