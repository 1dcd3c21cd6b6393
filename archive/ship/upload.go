package ship

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/archive/restore"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/objstore"
)

// upload is a span in flight. The fields after the blank line are guarded by term.mu.
type upload struct {
	name   string
	data   []byte // of the goroutine that uploads it
	before format.Tip
	size   int   // bytes of log
	round  int   // of the term
	wallNs int64 // time along the log of its first entry

	own       format.Tip // as it was made
	tip       format.Tip // as it is there, if sure
	sure      bool
	abandoned bool // its result is no longer needed
}

// otherHistory is what stops the shipping: the archive has an entry that the log does not have. Both places are named.
type otherHistory struct {
	name         string
	there, here  format.Entry
	cluster, own uint64 // member
	before       bool   // the entries are the same, and those before them are not
}

func (e *otherHistory) Error() string {
	who := fmt.Sprintf("the log of member %x of cluster %x", e.own, e.cluster)
	switch {
	case e.before:
		return fmt.Sprintf("archive object %s is of another history: it follows other entries than %s has before %d@%d", e.name, who, e.here.Index, e.here.Term)
	case e.there.Term != e.here.Term:
		return fmt.Sprintf("archive object %s is of another history: it has entry %d@%d, and %s has %d@%d", e.name, e.there.Index, e.there.Term,
			who, e.here.Index, e.here.Term)
	}
	return fmt.Sprintf("archive object %s is of another history: its entry %d@%d has other contents than that of %s", e.name, e.there.Index,
		e.there.Term, who)
}

// upload puts a span until it, or another one of the same entries, is there. After an error it may still be there, and the next attempt
// asks the store, not this process's memory.
func (t *term) upload(u *upload) {
	defer func() {
		t.mu.Lock()
		t.active--
		t.mu.Unlock()
		t.poke()
	}()
	for limit := patienceLeast; ; {
		err := t.put(u, limit)
		switch {
		case err == nil:
			t.w.wentWell()
			return
		case errors.Is(err, errTwoBeginnings):
			t.mu.Lock()
			t.twice = t.twice || !u.abandoned
			t.mu.Unlock()
			return
		}
		if t.given(u.round, err) {
			return
		}
		if errors.Is(err, context.DeadlineExceeded) {
			limit = min(2*limit, patience)
		}
		t.mu.Lock()
		given := u.abandoned
		t.mu.Unlock()
		if given || !t.pause() {
			return
		}
	}
}

// fails judges an error: true if there is nothing more to try.
func (t *term) fails(err error) bool {
	var other *otherHistory
	var fault *format.Fault
	switch {
	case t.isOver() || errors.Is(err, node.ErrStopped):
		return true
	case errors.As(err, &other), errors.As(err, &fault), errors.Is(err, restore.ErrOtherHistory), errors.Is(err, objstore.ErrUnconditional):
		t.w.stop(err)
		return true
	}
	t.mu.Lock()
	t.troubles++
	t.mu.Unlock()
	if isStrange(err) || objstore.Final(err) || errors.Is(err, objstore.ErrNoIdentity) {
		t.w.wentAway(err)
	} else {
		t.w.wentWrong(err)
	}
	return false
}

// put makes one attempt, which ends after limit.
func (t *term) put(u *upload, limit time.Duration) error {
	ctx, done := t.context(limit)
	t.w.requests.add(1)
	err := t.w.at().PutIfAbsent(ctx, objstore.Object{Name: u.name, Data: u.data})
	done()
	tip := u.own
	if errors.Is(err, objstore.ErrExists) {
		var s *format.Span
		if s, err = t.examine(u.name, &u.before); err == nil {
			tip = s.Tip()
		}
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u.tip, u.sure, u.data = tip, true, nil
	t.silent = false
	return nil
}

// span reads an object of entries. A damaged one is read again: an object cut by a bad connection is whole the next time.
func (t *term) span(name string) (s *format.Span, fault error) {
	for range 3 {
		b, err := t.steady().Get(context.Background(), name)
		if err != nil {
			return nil, err
		}
		if s, fault = format.DecodeSpan(name, b); fault == nil {
			return s, nil
		}
	}
	return nil, fault
}

// examine reads the object of a taken name and compares it with this member's log; where the object goes further, it waits for the log.
// before is the tip that it should follow; nil: unknown.
func (t *term) examine(name string, before *format.Tip) (*format.Span, error) {
	s, err := t.span(name)
	if err != nil {
		return nil, err
	}
	if err := t.compare(s, true); err != nil {
		return nil, err
	}
	if before == nil {
		return s, nil
	}
	return s, t.joins(s.Name, s.Cluster, s.Before, before, s.Tip(), s.State)
}

// errTwoBeginnings: two members have begun an archive at a time, each behind a snapshot of its own.
var errTwoBeginnings = errors.New("the archive was begun twice")

// linked reports whether two hashes of the entries before an entry can be those of one chain. The hash is zero behind a snapshot.
func linked(a, b format.Hash) bool {
	var none format.Hash
	return a == b || a == none || b == none
}

// joins judges whether a span of the log's entries continues a tip. Behind a snapshot the hash of the earlier entries is zero, on either
// side. If both have one and they differ, the earlier log was another one, or was hashed from another snapshot on: the state hash decides.
// Then the answer is errTwoBeginnings, and a snapshot makes one end of both.
func (t *term) joins(name string, cluster uint64, hash format.Hash, before *format.Tip, tip format.Tip, state uint64) error {
	if cluster == before.Cluster && linked(hash, before.Hash) {
		return nil
	}
	ctx, done := t.context(patience)
	defer done()
	own, known, err := t.w.node.StateHash(ctx, tip.Last)
	switch {
	case err != nil:
		return err
	case cluster == before.Cluster && known && own == state:
		return fmt.Errorf("%s: %w", name, errTwoBeginnings)
	}
	return t.other(name, format.Entry{}, format.Entry{Index: before.Last + 1, Term: tip.Term}, true)
}

// compare checks a span against the log of this member: the part that is there, and, if wait is set, the part yet to come.
func (t *term) compare(s *format.Span, wait bool) error {
	from := s.First
	if !t.has(from) {
		// The log has gone on. The span's entries still in the log are compared; the hashes vouch for the others.
		if !t.has(s.Last) {
			return nil
		}
		lo := from // the log does not have this one
		for hi := s.Last; lo+1 < hi; {
			if mid := lo + (hi-lo)/2; t.has(mid) {
				hi = mid
			} else {
				lo = mid
			}
		}
		from = lo + 1
	}
	log := cursor{t: t, next: from}
	for there := range s.Entries() {
		if there.Index < from {
			continue
		}
		if !wait && there.Index > t.w.node.Status().Applied {
			return nil
		}
		switch here, err := log.read(); {
		case err != nil:
			return err
		case !there.Equal(format.Entry(here)):
			return t.other(s.Name, there, format.Entry(here), false)
		}
	}
	return nil
}

func (t *term) other(name string, there, here format.Entry, before bool) error {
	_, own := t.w.node.IDs()
	return &otherHistory{name: name, there: there, here: here, cluster: t.w.cluster, own: own, before: before}
}

// has reports whether the log has the entry at index, or will have it.
func (t *term) has(index uint64) bool {
	if index > t.w.node.Status().Applied {
		return true
	}
	ctx, done := t.context(patience)
	defer done()
	_, err := t.w.node.Committed(ctx, index, 1)
	return !errors.Is(err, node.ErrTruncated)
}

// cursor reads the log entry by entry, as it grows.
type cursor struct {
	t     *term
	next  uint64
	ahead []node.Entry
}

// read returns the next entry, and waits for it.
func (c *cursor) read() (node.Entry, error) {
	for len(c.ahead) == 0 {
		ctx, done := c.t.context(time.Hour)
		entries, err := c.t.w.node.Committed(ctx, c.next, readAtOnce)
		done()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && !c.t.isOver(): // the log is idle
		case err != nil:
			return node.Entry{}, err
		default:
			c.ahead = entries
			c.next = entries[len(entries)-1].Index + 1
		}
	}
	e := c.ahead[0]
	c.ahead = c.ahead[1:]
	return e, nil
}
