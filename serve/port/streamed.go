package port

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Streamed is the answer to a request that a handler of net/http answers by way of a stream of this process's own gRPC server. Between that
// server and the client a message is in memory several times: as the stream's own, decoded, and as JSON. So the stream sends one message at
// a time, when the client's transport has taken its predecessor (Turn). It takes room for a message before making it (Take). Waiting data
// stays where it is shared or can be read again.
//
// Its methods may be called from several goroutines, but one alone makes messages.
type Streamed struct {
	port *Port
	of   *client  // over HTTP/1.1
	web  *webConn // over HTTP/2; nil where the connection is not counted

	turn chan struct{} // has something while no message is on its way. Capacity 1.
	held atomic.Int64  // bytes, of the message that is on its way or being made
	took atomic.Int64  // when the client took one, or the first room was taken, in ns since 1970

	mu    sync.Mutex
	ended bool // guarded by mu: it holds nothing any more
}

// Streamed returns the answer to the request with a number that is being handled (AskerOf), nil if it is not (any more). As Asker it is for
// calls from this process alone.
func (p *Port) Streamed(n uint64) *Streamed { return p.askers.get(n) }

// Turn waits until the client's transport has taken the message before. The next message is then the caller's to send. An error is ctx's.
func (s *Streamed) Turn(ctx context.Context) error {
	select {
	case <-s.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Take takes room for n bytes of the next message as soon as it is there. The last third of all is for answers that do not stay, and one
// connection has two thirds at most. No message needs more, so any message can be sent. It is given back when the client's transport has
// taken the message. An error is ctx's.
func (s *Streamed) Take(ctx context.Context, n int64) error {
	n = min(n, s.port.opts.AnswerBytes/3*2)
	for pause := relieveInterval; !s.tryTake(n); pause = min(2*pause, mostPause) {
		select {
		case <-s.port.askers.came:
		case <-time.After(pause): // room may come without a word
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// mostPause is between two looks for room of a stream that has waited for long: a thousand may wait.
const mostPause = 100 * time.Millisecond

func (s *Streamed) tryTake(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if !s.take(n) {
		s.port.lookForUntaken()
		return false
	}
	if s.held.Add(n) == n {
		s.took.Store(time.Now().UnixNano())
	}
	return true
}

func (s *Streamed) take(n int64) bool {
	if s.of != nil {
		return s.of.takeAnswer(n, true)
	}
	if s.port.answers.Add(-n) < s.port.opts.AnswerBytes/3 {
		s.port.answers.Add(n)
		return false
	}
	return true
}

// Keep gives back what is held beyond n bytes.
func (s *Streamed) Keep(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	more := s.held.Load() - n
	if more <= 0 {
		return
	}
	s.held.Add(-more)
	if s.of != nil {
		s.of.returnAnswer(more)
	} else {
		s.port.answers.Add(more)
	}
	select {
	case s.port.askers.came <- struct{}{}:
	default: // as many have been told already as there are places
	}
}

// Held returns the bytes held for the next message, or for the one in flight.
func (s *Streamed) Held() int64 { return s.held.Load() }

// taken ends a message: the client's transport has it.
func (s *Streamed) taken() {
	s.Keep(0)
	s.took.Store(time.Now().UnixNano())
	select {
	case s.turn <- struct{}{}:
	default: // the handler has flushed what was no message of the stream
	}
}

// end is called when the handler has returned.
func (s *Streamed) end() {
	s.Keep(0)
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.Keep(0) // the room taken in between
}

// untaken reports whether there is a message of which a client over HTTP/2 has taken nothing since a time, in ns since 1970.
func (s *Streamed) untaken(since int64) bool {
	return s.web != nil && s.held.Load() > 0 && s.took.Load() < since && s.web.wrote.Load() < since
}

// streaming numbers the requests over HTTP/2, and notes when clients have taken what handlers flush.
func (p *Port) streaming(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web, _ := r.Context().Value(webKey{}).(*webConn)
		ctx, s, end := p.askers.begin(r.Context(), &Streamed{port: p, web: web})
		defer end()
		h.ServeHTTP(&flushed{w, s}, r.WithContext(ctx))
	})
}

// flushed is a ResponseWriter of HTTP/2: its flushes wait for the client's window.
type flushed struct {
	http.ResponseWriter
	streamed *Streamed
}

// Unwrap is for http.ResponseController.
func (f *flushed) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// Flush implements http.Flusher.
func (f *flushed) Flush() { _ = f.FlushError() } // the next Write returns the error again

// FlushError is Flush for http.ResponseController.
func (f *flushed) FlushError() error {
	if err := http.NewResponseController(f.ResponseWriter).Flush(); err != nil {
		return err
	}
	f.streamed.taken()
	return nil
}
