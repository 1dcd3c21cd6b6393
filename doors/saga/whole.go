package saga

import (
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// shownWhole is a transaction with its branches, as the parts of an answer. Its changing parts are those of the first page: a client that
// takes an hour for the answer sees the moment at which it began.
type shownWhole struct {
	d        *Door
	head     string // the text in front of the branches
	operator bool
	number   uint64
	size     int64

	t        *sagamachine.Transaction // nil: it is read for the next page
	branches []branchHead             // from the first page on
	tx       kept
	at       int // the part that is next: 0 is head, behind it are the branches, and then the transaction
}

// branchHead is what changes of a branch.
type branchHead struct {
	status                                 sagapart.Status
	created, updated, finished, rolledBack int64
}

// of makes it that of a transaction of which the branches are not known yet.
func (s *shownWhole) of(d *Door, t *sagamachine.Transaction) *shownWhole {
	s.d, s.number, s.size = d, t.Number, t.BranchBytes+t.Bytes
	return s
}

func (s *shownWhole) bytes() int64 { return s.size }

func (s *shownWhole) read() (err error) {
	if s.t, err = s.d.machine.FindNumber(s.number); err != nil {
		return err
	}
	if s.t == nil || len(s.t.Branches) < len(s.branches) {
		return errGone
	}
	if s.tx.shown == nil { // the first page
		if _, err := s.tx.keep(s.d.tried(s.t)); err != nil {
			return err
		}
		s.branches = make([]branchHead, len(s.t.Branches))
		for i := range s.t.Branches {
			b := &s.t.Branches[i]
			s.branches[i] = branchHead{b.Status, b.Created, b.Updated, b.Finished, b.RolledBack}
		}
	}
	return nil
}

func (s *shownWhole) drop() { s.t = nil }

func (s *shownWhole) next(w *writer, again bool) (more bool, err error) {
	if again {
		s.at--
	}
	at := s.at
	s.at++
	switch last := len(s.branches) + 1; {
	case at == 0:
		w.raw(s.head)
	case at < last:
		if at > 1 {
			w.raw(",")
		}
		b, h := s.t.Branches[at-1], &s.branches[at-1]
		b.Status, b.Created, b.Updated, b.Finished, b.RolledBack = h.status, h.created, h.updated, h.finished, h.rolledBack
		showBranch(s.t.Gid, at-1, &b).write(w)
	case at == last:
		v, err := s.tx.keep(s.d.tried(s.t))
		if err != nil {
			return false, err
		}
		w.raw(`],"transaction":`)
		v.write(w, s.operator)
		w.raw("}")
	default:
		return false, nil
	}
	return true, nil
}

// shownList is transactions without their branches, as the parts of an answer. Each is as it stood when it was read.
type shownList struct {
	d        *Door
	head     string // the text in front of them
	operator bool
	listed   []sagamachine.Listed
	size     int64 // of all that are listed
	filter   sagamachine.Filter

	at   int  // the part that is next: 0 is head, behind it are the transactions, and then the end
	any  bool // one was written
	sep  bool // behind another one
	part kept // of the present one
}

func (l *shownList) of(head string) *shownList {
	l.head = head
	return l
}

func (l *shownList) bytes() int64 { return l.size }

func (l *shownList) read() error { return nil }
func (l *shownList) drop()       {}

func (l *shownList) next(w *writer, again bool) (more bool, err error) {
	if again {
		l.at--
	}
	at := l.at
	l.at++
	switch last := len(l.listed) + 1; {
	case at == 0:
		w.raw(l.head)
	case at < last:
		return true, l.one(w, &l.listed[at-1], again)
	case at == last:
		w.raw("]}")
	default:
		return false, nil
	}
	return true, nil
}

// one writes one transaction. One that has gone on since, so that it is not what was asked for, is left out.
func (l *shownList) one(w *writer, of *sagamachine.Listed, again bool) (err error) {
	t := of.Transaction
	if t == nil {
		if t, err = l.d.machine.BriefNumber(of.Number); err != nil {
			return err
		}
	}
	if !again {
		l.part, l.sep = kept{}, l.any
		if t == nil || !l.filter.Passes(t) {
			return nil
		}
		l.any = true
	}
	if t == nil {
		return errGone
	}
	v, err := l.part.keep(l.d.tried(t))
	if err != nil {
		return err
	}
	if l.sep {
		w.raw(",")
	}
	v.write(w, l.operator)
	return nil
}

// shownTopics is topics, as the parts of an answer.
type shownTopics struct {
	d     *Door
	names []string
	tail  string // the text behind them

	at      int // the part that is next: 0 is the beginning, behind it are the topics, and then tail
	any     bool
	sep     bool
	version uint64 // of the present one
}

func (s *shownTopics) bytes() int64 { return 0 }
func (s *shownTopics) read() error  { return nil }
func (s *shownTopics) drop()        {}

func (s *shownTopics) next(w *writer, again bool) (more bool, err error) {
	if again {
		s.at--
	}
	at := s.at
	s.at++
	switch last := len(s.names) + 1; {
	case at == 0:
		w.raw(`{"kv":[`)
	case at < last:
		return true, s.one(w, s.names[at-1], again)
	case at == last:
		w.raw("]" + s.tail + "}")
	default:
		return false, nil
	}
	return true, nil
}

func (s *shownTopics) one(w *writer, name string, again bool) error {
	t, err := s.d.machine.Topic(name)
	if err != nil {
		return err
	}
	if !again {
		s.sep = s.any
		if t == nil {
			return nil
		}
		s.any, s.version = true, t.Version
	}
	if t == nil || t.Version != s.version {
		return errGone
	}
	if s.sep {
		w.raw(",")
	}
	showTopic(t).write(w)
	return nil
}
