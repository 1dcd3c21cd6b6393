package port

import "time"

// untakenPiece is how much of its answers a client must take to have made progress.
const untakenPiece = 16 << 10

// TakeAnswer takes n bytes for an answer from what answers may hold, or reports that they are not there. from is the account of the
// client's connection, nil for a call that this process makes for itself. A connection has two thirds of all at most, and one that is new
// leaves the last third to others. The caller gives the room back (AnswerGone) when the transport is done with the answer.
//
// When there is no room, the connection is closed that holds the most of those whose clients have taken nothing for a while.
func (p *Port) TakeAnswer(from *From, n int64) bool {
	if p.tryAnswer(from, n) {
		return true
	}
	p.lookForUntaken()
	return false
}

// lookForUntaken closes the connection that holds the most answers of those whose clients have taken nothing for a while. It looks now and then.
func (p *Port) lookForUntaken() {
	if now, last := time.Now().UnixNano(), p.untaken.Load(); now-last > int64(relieveInterval) && p.untaken.CompareAndSwap(last, now) {
		p.evictUntaken(now - int64(stallGrace))
	}
}

// GoesBefore reports whether other, who came later, may not take room for an answer as long as f waits for some:
//
//   - they are one connection, whose calls have one share;
//   - or others hold what f waits for: its own connection holds no answer, which it would have to take first;
//   - and f is not so new that it leaves the last third to others, or other is as new.
//
// f and other may be nil: a call of this process itself. Any goroutine may call it.
func (f *From) GoesBefore(other *From) bool {
	if f == nil {
		return true
	}
	if other != nil && f.of == other.of && f.asker == other.asker {
		return true
	}
	return !f.holdsAnswers() && (!f.isNew() || other.isNew())
}

// holdsAnswers reports whether the connection has answers that its client has not taken.
func (f *From) holdsAnswers() bool {
	if f.asker != nil {
		return f.asker.answers.Load() > 0
	}
	return f.of.answers.Load() > 0
}

// isNew reports whether the connection is so new that it leaves the last third of all room to others. f may be nil.
func (f *From) isNew() bool {
	switch {
	case f == nil:
		return false
	case f.asker != nil:
		return f.asker.opened+settledAfter > f.asker.port.now.Load()
	}
	return f.of.opened+settledAfter > f.of.port.now.Load()
}

// AnswerRoom is how much all answers may hold together, in bytes.
func (p *Port) AnswerRoom() int64 { return p.opts.AnswerBytes }

func (p *Port) tryAnswer(from *From, n int64) bool {
	all, reserve := p.opts.AnswerBytes, int64(0)
	if from != nil && from.asker != nil {
		return from.asker.takeAnswer(n, false)
	}
	if from != nil {
		i := from.of
		i.answersMu.Lock()
		defer i.answersMu.Unlock()
		held := i.answers.Load()
		if i.closed || held > 0 && held+n > all/3*2 {
			return false
		}
		if from.isNew() && n <= all/3*2 {
			reserve = all / 3
		}
	}
	if p.answers.Add(-n) < reserve {
		p.answers.Add(n)
		return false
	}
	if from != nil && from.of.answers.Add(n) == n {
		from.of.took.Store(time.Now().UnixNano())
	}
	return true
}

// AnswerSent is AnswerGone for an answer that the gRPC server's transport is done with. For an HTTP/1.1 request the answer to its client is
// only then made: that keeps the room.
func (p *Port) AnswerSent(from *From, n int64) {
	if from == nil || from.asker == nil {
		p.AnswerGone(from, n)
	}
}

// AnswerGone gives back what TakeAnswer has taken, or a part of it. The room that a connection held when it was closed is given back then:
// the transport frees nothing of it.
func (p *Port) AnswerGone(from *From, n int64) {
	if from != nil && from.asker != nil {
		from.asker.returnAnswer(n)
		return
	}
	if from != nil {
		i := from.of
		i.answersMu.Lock()
		defer i.answersMu.Unlock()
		if i.closed {
			return
		}
		i.answers.Add(-n)
	}
	p.answers.Add(n)
}

// evictUntaken closes the connection that holds the most answers of those that have taken none since a time, in ns since 1970.
func (p *Port) evictUntaken(since int64) {
	var most int64
	var cut func()
	for _, i := range p.connections() {
		if n := i.answers.Load(); n > most && i.untaken(since) {
			most, cut = n, i.Cut // the gRPC server notices
		}
	}
	for _, c := range p.requests() {
		if n := c.answers.Load(); n > most && c.untaken(since) {
			most, cut = n, c.cut
		}
	}
	for _, s := range p.askers.overHTTP2() {
		if n := s.held.Load(); n > most && s.untaken(since) {
			most, cut = n, s.web.cut
		}
	}
	if cut != nil {
		cut()
	}
}

// untaken reports whether there are answers of which the client has taken nothing to speak of since a time, in ns since 1970.
func (i *grpcConn) untaken(since int64) bool { return i.answers.Load() > 0 && i.took.Load() < since }
