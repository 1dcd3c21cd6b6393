package restore

import (
	"context"
	"errors"
	"fmt"
	"io"

	archiveformat "github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/objstore"
)

// Gap is the error of a log that does not go on where it should: entries are missing before the next span.
type Gap struct {
	From, To uint64 // the entries that are missing
	Next     string // the object behind them
}

func (g *Gap) Error() string {
	if g.From == g.To {
		return fmt.Sprintf("entry %d is missing: %s comes next", g.From, g.Next)
	}
	return fmt.Sprintf("entries %d to %d are missing: %s comes next", g.From, g.To, g.Next)
}

// besideSpans is the number of spans in front of an index that are searched for it. Two members may have as many in flight, and they lie
// beside the chain.
const besideSpans = 16

// chain reads the log of a timeline span by span. A list names the spans, so that they can be fetched ahead. The chain is by name, from the
// last index of one to the first of the next. Overlapping spans have the same entries and close a hole in the chain. It belongs to one
// goroutine.
type chain struct {
	a     *Archive
	tip   archiveformat.Tip // of the entries read
	loose bool              // nothing was read: the hash of the tip is not known, and neither is its term if that is 0
	spans *ahead[*listed]
	head  *listed   // the next one, nil: not looked at
	back  []*listed // those behind it that were looked at

	is     *archiveformat.Span // the last link
	beside []besideSpan

	// aside, if set, hears of each object outside the chain: its span, or its error.
	aside func(name string, s *archiveformat.Span, err error)
}

// listed is a span of the list, fetched and decoded, or why it could not be.
type listed struct {
	name  string
	first uint64
	bytes int64
	span  *archiveformat.Span
	err   error
}

// besideSpan is a span that overlaps the chain and goes beyond its tip.
type besideSpan struct {
	name string
	last uint64
	hash archiveformat.Hash
}

// chainFrom begins behind a tip whose hash is not known, such as a snapshot's.
func (a *Archive) chainFrom(ctx context.Context, tip archiveformat.Tip) (*chain, error) {
	after, err := a.before(ctx, tip.Last+1)
	if err != nil {
		return nil, err
	}
	return a.newChain(tip, true, after), nil
}

// newChain begins with the spans that are listed after a name.
func (a *Archive) newChain(tip archiveformat.Tip, loose bool, after string) *chain {
	c := &chain{a: a, tip: tip, loose: loose}
	list := a.spanNames(after)
	c.spans = &ahead[*listed]{a: a, job: func(ctx context.Context) (func(context.Context) *listed, int64, error) {
		for {
			l, ok, err := list.next(ctx)
			if err != nil || !ok {
				return nil, 0, err
			}
			_, first, ok := archiveformat.ParseSpanName(l.Name)
			if !ok {
				continue // Verify names it
			}
			return func(ctx context.Context) *listed {
				s, err := a.span(ctx, l.Name)
				return &listed{name: l.Name, first: first, bytes: l.Size, span: s, err: err}
			}, l.Size, nil
		}
	}}
	return c
}

// spanNames lists the spans after a name: digits come before all letters.
func (a *Archive) spanNames(after string) *names {
	return &names{a: a, prefix: archiveformat.TimelineName(a.Timeline), after: after, upTo: archiveformat.TimelineName(a.Timeline) + "/a"}
}

// span reads one.
func (a *Archive) span(ctx context.Context, name string) (*archiveformat.Span, error) {
	b, err := a.get(ctx, name)
	if err != nil {
		return nil, err
	}
	return archiveformat.DecodeSpan(name, b)
}

// before returns a name after which the list has the spans that may hold the entry at index. A list only goes forward, and the length of a
// span is unknown.
func (a *Archive) before(ctx context.Context, index uint64) (string, error) {
	none := archiveformat.SpanName(a.Timeline, index-1)
	for back := uint64(256); ; back *= 16 {
		from := uint64(0)
		if back < index {
			from = index - back
		}
		list := a.spanNames(archiveformat.SpanName(a.Timeline, from))
		list.upTo = archiveformat.SpanName(a.Timeline, index) + "\x00"
		var last []string // the newest names
		for {
			l, ok, err := list.next(ctx)
			if err != nil {
				return "", err
			}
			if !ok {
				break
			}
			if _, _, ok := archiveformat.ParseSpanName(l.Name); ok {
				last = append(last, l.Name)
				last = last[max(0, len(last)-besideSpans-1):]
			}
		}
		switch n := len(last); {
		case n > 0 && last[n-1] == archiveformat.SpanName(a.Timeline, index):
			return none, nil
		case n > besideSpans:
			return last[0], nil
		case from == 0 && n == 0:
			return none, nil
		case n > 0:
			_, first, _ := archiveformat.ParseSpanName(last[0])
			return archiveformat.SpanName(a.Timeline, first-1), nil
		}
	}
}

// peek returns the next span of the list, nil after the last.
func (c *chain) peek(ctx context.Context) (*listed, error) {
	for c.head == nil {
		if len(c.back) > 0 {
			c.head, c.back = c.back[0], c.back[1:]
			break
		}
		l, ok, err := c.spans.next(ctx)
		if err != nil || !ok {
			return nil, err
		}
		var f *archiveformat.Fault
		switch {
		case l.err == nil || errors.As(l.err, &f):
			c.head = l
		case errors.Is(l.err, objstore.ErrAbsent): // it has gone since it was listed
		default:
			return nil, l.err
		}
	}
	return c.head, nil
}

// next returns the next link of the chain. It has the entry after those that were read, and may have some of those too. Errors: io.EOF at
// the end; a *Gap; an *archiveformat.Fault of the object that comes next; the store's and ctx's. After a Gap and a Fault the caller may call
// skip.
func (c *chain) next(ctx context.Context) (*archiveformat.Span, error) {
	for {
		l, err := c.peek(ctx)
		if err != nil {
			return nil, err
		}
		want := c.tip.Last + 1
		switch {
		case l != nil && l.first < want:
			c.head = nil
			if l.err == nil && c.loose && l.span.Last >= want {
				return c.link(l.span)
			}
			c.besides(l)
		case l != nil && l.first == want:
			c.head = nil
			if l.err != nil {
				return nil, l.err
			}
			return c.link(l.span)
		default:
			// The list may be of a moment before the object was there.
			s, err := c.a.span(ctx, archiveformat.SpanName(c.a.Timeline, want))
			if err == nil {
				return c.link(s)
			}
			if !errors.Is(err, objstore.ErrAbsent) {
				return nil, err
			}
			if s, err := c.bridge(ctx, want); s != nil || err != nil {
				return s, err
			}
			if l == nil {
				return nil, io.EOF
			}
			return nil, &Gap{From: want, To: l.first - 1, Next: l.name}
		}
	}
}

// resumes makes the span that continues the log behind a snapshot the next one: the entries before it were lost. It searches the next
// spans; is reports whether there is a snapshot at an index. The skipped spans are useless: they were in flight when the entries were lost.
// If there is none, nothing has changed.
func (c *chain) resumes(ctx context.Context, is func(snapshot uint64) bool) (over []*listed, root *listed, err error) {
	for r := (run{}); !r.many(); {
		l, err := c.peek(ctx)
		if err != nil {
			return nil, nil, err
		}
		if l == nil {
			break
		}
		if l.err == nil && l.span.Before == (archiveformat.Hash{}) && is(l.first-1) {
			return over, l, nil
		}
		last := l.first
		if l.err == nil {
			last = l.span.Last
		}
		r.add(l.first, last)
		over, c.head = append(over, l), nil
	}
	c.back = append(over, c.back...)
	return nil, nil, nil
}

// skip goes over what is missing or damaged to the next span of the list; false: there is none.
func (c *chain) skip(ctx context.Context) (bool, error) {
	l, err := c.peek(ctx)
	if err != nil || l == nil {
		return false, err
	}
	if l.first > c.tip.Last+1 {
		c.tip.Last = l.first - 1
	}
	c.tip.Term, c.tip.Hash, c.loose, c.is, c.beside = 0, archiveformat.Hash{}, true, nil, nil
	return true, nil
}

// link takes a span into the chain.
func (c *chain) link(s *archiveformat.Span) (*archiveformat.Span, error) {
	want := c.tip.Last + 1
	if s.First == want && !c.loose {
		if err := s.Follows(c.tip); err != nil {
			return nil, err
		}
	} else if err := c.covers(s); err != nil {
		return nil, err
	}
	c.is, c.tip, c.loose = s, s.Tip(), false
	rest := c.beside[:0]
	for _, b := range c.beside {
		if b.last > s.Last {
			rest = append(rest, b)
			continue
		}
		c.compare(b)
	}
	c.beside = rest
	return s, nil
}

// covers reports whether a span continues the tip. The span may begin anywhere up to the tip, or behind a tip of which only the index is
// known.
func (c *chain) covers(s *archiveformat.Span) error {
	fault := func(format string, args ...any) error {
		return &archiveformat.Fault{Name: s.Name, Reason: fmt.Sprintf(format, args...)}
	}
	if s.Cluster != c.tip.Cluster && c.tip.Cluster != 0 || s.Timeline != c.tip.Timeline {
		return fault("it is of timeline %016x of cluster %016x, what it follows of %016x of %016x", s.Timeline, s.Cluster, c.tip.Timeline, c.tip.Cluster)
	}
	at := s.TipAt(c.tip.Last)
	switch {
	case !c.loose && at.Hash != c.tip.Hash:
		return fault("the hash of the entries up to %d is %s in it, and %s in those before it", c.tip.Last, at.Hash, c.tip.Hash)
	case at.Term != 0 && c.tip.Term != 0 && at.Term != c.tip.Term, s.First > c.tip.Last && s.FirstTerm < c.tip.Term:
		return fault("it does not go on from entry %d@%d", c.tip.Last, c.tip.Term)
	}
	return nil
}

// besides takes note of a span that is no link of the chain.
func (c *chain) besides(l *listed) {
	if l.err != nil || c.loose {
		c.hear(l.name, l.span, l.err)
		return
	}
	s := l.span
	b := besideSpan{name: s.Name, last: s.Last, hash: s.After}
	if s.Last > c.tip.Last {
		if c.is != nil && s.First <= c.tip.Last+1 {
			if at := s.TipAt(c.tip.Last); at.Hash != c.tip.Hash {
				c.hear(s.Name, s, otherHistory(s.Name, c.tip.Last))
				return
			}
		}
		c.hear(s.Name, s, nil)
		c.beside = append(c.beside, b)
		return
	}
	if c.is == nil || s.Last < c.is.First-1 || c.compare(b) {
		c.hear(s.Name, s, nil)
	}
}

// compare holds one that ends within the last link against it.
func (c *chain) compare(b besideSpan) bool {
	if c.is.TipAt(b.last).Hash == b.hash {
		return true
	}
	c.hear(b.name, nil, otherHistory(b.name, b.last))
	return false
}

// otherError: a span beside the chain is of another history. A second server shipped to the same place, and was refused.
type otherError struct {
	name  string
	index uint64
}

func otherHistory(name string, index uint64) error { return &otherError{name, index} }

func (e *otherError) Error() string {
	return fmt.Sprintf("%s is of another history than the chain: its entries up to %d are others", e.name, e.index)
}

func (c *chain) hear(name string, s *archiveformat.Span, err error) {
	if c.aside != nil {
		c.aside(name, s, err)
	}
}

// bridge looks for a span beside the chain that goes on where the chain does not.
func (c *chain) bridge(ctx context.Context, want uint64) (*archiveformat.Span, error) {
	for _, b := range c.beside {
		if b.last < want {
			continue
		}
		s, err := c.a.span(ctx, b.name)
		if err == nil && c.covers(s) == nil {
			return c.link(s)
		}
		var f *archiveformat.Fault
		if err != nil && !errors.As(err, &f) && !errors.Is(err, objstore.ErrAbsent) {
			return nil, err
		}
	}
	return nil, nil
}
