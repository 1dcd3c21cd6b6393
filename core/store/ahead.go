package store

import "errors"

const (
	aheadPages = 4        // of rows that are read and not yet asked for
	pageBytes  = 64 << 10 // of keys and values in a page, and one more row
	pageRows   = 1024     // in a page at most
)

// ahead is an iterator whose rows another goroutine reads. A caller with much work per row then does not wait for the store as well. It is
// bounded: the reader waits when all pages are full.
type ahead struct {
	it   Iter       // the reader's until full is closed
	full chan *page // room for all pages in both
	free chan *page
	quit chan struct{}
	page *page // the one the caller is in, nil before the first row and after the last
	at   int
	err  error // the reader's, read once full is closed; or the caller's
}

// page holds rows one after another: keys and values alternate, and ends says where each of them ends.
type page struct {
	bytes []byte
	ends  []int
}

func (p *page) piece(i int) []byte {
	from := 0
	if i > 0 {
		from = p.ends[i-1]
	}
	return p.bytes[from:p.ends[i]:p.ends[i]]
}

// NewAhead implements Store.
func (s *db) NewAhead(lower, upper []byte) (Iter, error) {
	it, err := s.NewIter(lower, upper)
	if err != nil {
		return nil, err
	}
	if s.opts.OnAhead != nil {
		s.opts.OnAhead()
	}
	return readAhead(it), nil
}

func readAhead(it Iter) *ahead {
	a := &ahead{it: it, full: make(chan *page, aheadPages), free: make(chan *page, aheadPages), quit: make(chan struct{})}
	for range aheadPages {
		a.free <- new(page)
	}
	go a.read()
	return a
}

func (a *ahead) read() {
	defer close(a.full)
	for ok := a.it.First(); ok; {
		var p *page
		select {
		case <-a.quit:
			return
		case p = <-a.free:
		}
		p.bytes, p.ends = p.bytes[:0], p.ends[:0]
		for ; ok && len(p.bytes) < pageBytes && len(p.ends) < 2*pageRows; ok = a.it.Next() {
			value, err := a.it.Value()
			if err != nil {
				a.err = err
				return
			}
			p.bytes = append(p.bytes, a.it.Key()...)
			p.ends = append(p.ends, len(p.bytes))
			p.bytes = append(p.bytes, value...)
			p.ends = append(p.ends, len(p.bytes))
		}
		a.full <- p
	}
	a.err = a.it.Error()
}

func (a *ahead) First() bool { return a.Next() }

func (a *ahead) Next() bool {
	if a.page != nil {
		if a.at += 2; a.at < len(a.page.ends) {
			return true
		}
		a.free <- a.page
	}
	a.at = 0
	a.page = <-a.full
	return a.page != nil
}

func (a *ahead) Valid() bool            { return a.page != nil }
func (a *ahead) Key() []byte            { return a.page.piece(a.at) }
func (a *ahead) Value() ([]byte, error) { return a.page.piece(a.at + 1), nil }

// Loads implements Iter: the question is how long an iterator's caller waits, and this one's does not.
func (a *ahead) Loads() Loads { return Loads{} }

func (a *ahead) Error() error {
	if a.page != nil {
		return nil // the reader may be at work
	}
	return a.err
}

func (a *ahead) Close() error {
	close(a.quit)
	for range a.full { // until the reader has ended
	}
	return a.it.Close()
}

var errForwards = errors.New("this iterator goes forwards only")

// refuse ends the walk: nothing else moves it.
func (a *ahead) refuse() bool {
	for range a.full {
	}
	a.page, a.err = nil, errForwards
	return false
}

func (a *ahead) Last() bool         { return a.refuse() }
func (a *ahead) Prev() bool         { return a.refuse() }
func (a *ahead) SeekGE([]byte) bool { return a.refuse() }
func (a *ahead) SeekLT([]byte) bool { return a.refuse() }
