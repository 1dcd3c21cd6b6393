package wal

import "sort"

// termRun says that entries from first on, up to the next run, have this term. Terms change with leaders, so a handful of
// runs describes millions of entries.
type termRun struct{ first, term uint64 }

// addTerm notes the term of the entry after the last one noted.
func addTerm(runs []termRun, index, term uint64) []termRun {
	if n := len(runs); n > 0 && runs[n-1].term == term {
		return runs
	}
	return append(runs, termRun{index, term})
}

// cutTerms forgets entries from index on.
func cutTerms(runs []termRun, index uint64) []termRun {
	for len(runs) > 0 && runs[len(runs)-1].first >= index {
		runs = runs[:len(runs)-1]
	}
	return runs
}

// dropTerms forgets entries before index.
func dropTerms(runs []termRun, index uint64) []termRun {
	n := sort.Search(len(runs), func(i int) bool { return runs[i].first > index })
	if n <= 1 {
		return runs
	}
	return append(runs[:0], runs[n-1:]...)
}

// termOf looks up an entry that is known to be covered.
func termOf(runs []termRun, index uint64) uint64 {
	n := sort.Search(len(runs), func(i int) bool { return runs[i].first > index })
	if n == 0 {
		return 0
	}
	return runs[n-1].term
}

// lastPosition is the last entry's place, or the truncation point's if there is none. The caller holds mu.
func (l *WAL) lastPosition() position {
	if l.last == l.start.at.index {
		return l.start.at
	}
	return position{l.last, termOf(l.terms, l.last)}
}

// Term returns the term of entry i. It also answers for FirstIndex-1, the truncation point (0 for index 0).
func (l *WAL) Term(i uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case i == l.start.at.index:
		return l.start.at.term, nil
	case i < l.start.at.index:
		return 0, ErrTruncated
	case i > l.last:
		return 0, ErrBeyondEnd
	}
	return termOf(l.terms, i), nil
}
