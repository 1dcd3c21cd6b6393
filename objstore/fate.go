package objstore

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/holdfastdb/holdfast/internal/task"
)

// outcome is what becomes of one call.
type outcome int

const (
	isWell outcome = iota
	isRefused
	isBefore
	isAfter
	isRepeated
	isHalf
)

// fate is the random outcome of one call.
type fate struct {
	outcome
	to, back time.Duration // the request's way and the answer's
	cut      bool          // a request that its caller has left behind does not arrive
}

// draw takes the same random numbers for any chances, so that another chance does not change the fate of all later calls.
func (s *Faulty) draw() fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, way, part := s.rng.Float64(), s.rng.Float64(), s.rng.Float64()
	f := fate{cut: s.rng.IntN(2) == 0}
	for i, chance := range []float64{s.faults.Refused, s.faults.Before, s.faults.After, s.faults.Repeated, s.faults.Half} {
		if x < chance {
			f.outcome = outcome(i + 1)
			break
		}
		x -= chance
	}
	whole := time.Duration(way * float64(s.faults.Delay))
	f.to = time.Duration(part * float64(whole))
	f.back = whole - f.to
	return f
}

// number draws one below n.
func (s *Faulty) number(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// failure is what S3's client returns for such an answer.
func failure(verb, name string, status int) error {
	code := "InternalError"
	if status == http.StatusTooManyRequests {
		code = "TooManyRequests"
	}
	return fmt.Errorf("%s %s: %w", verb, name, minio.ErrorResponse{StatusCode: status, Code: code, Message: fmt.Sprintf("injected %d", status)})
}

// request is one call with its verb and the name it is about: do does all of it, doHalf a half.
type request[T any] struct {
	verb, name   string
	do, doHalf   func(ctx context.Context) (T, error)
	changesState bool
}

// send has a request carried out as its fate says.
func send[T any](ctx context.Context, s *Faulty, r request[T]) (T, error) {
	f := s.draw()
	if f.to == 0 && f.back == 0 {
		return r.arrive(ctx, f)
	}
	type answer struct {
		v   T
		err error
	}
	var got answer // written before answered is sent to, and read only after
	answered := make(chan struct{}, 1)
	s.tasks.Go(func() {
		s.tasks.Wait(f.to)
		if ctx.Err() == nil || r.changesState && !f.cut {
			got.v, got.err = r.arrive(context.WithoutCancel(ctx), f)
		}
		s.tasks.Wait(f.back)
		answered <- struct{}{}
	})
	if s.tasks.Wait(task.Forever, answered, ctx.Done()) != 0 {
		var none T
		return none, fmt.Errorf("%s %s: %w", r.verb, r.name, ctx.Err())
	}
	return got.v, got.err
}

// arrive is what happens at the store.
func (r *request[T]) arrive(ctx context.Context, f fate) (v T, err error) {
	var none T
	switch f.outcome {
	case isRefused:
		return none, failure(r.verb, r.name, http.StatusTooManyRequests)
	case isBefore:
		return none, failure(r.verb, r.name, http.StatusInternalServerError)
	case isHalf:
		return r.doHalf(ctx)
	case isRepeated:
		if v, err = r.do(ctx); err != nil {
			return v, err
		}
	}
	if v, err = r.do(ctx); err == nil && f.outcome == isAfter {
		return none, failure(r.verb, r.name, http.StatusInternalServerError)
	}
	return v, err
}

// sendRead sends a request that changes nothing.
func sendRead[T any](ctx context.Context, s *Faulty, name string, do func(ctx context.Context) (T, error)) (T, error) {
	return send(ctx, s, request[T]{verb: "get", name: name, do: do, doHalf: func(context.Context) (none T, err error) {
		return none, fmt.Errorf("get %s: %w", name, io.ErrUnexpectedEOF)
	}})
}

// sendWrite sends a request that changes something and returns nothing.
func sendWrite(ctx context.Context, s *Faulty, verb, name string, do, doHalf func(ctx context.Context) error) error {
	_, err := send(ctx, s, request[struct{}]{verb: verb, name: name, changesState: true,
		do:     func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) },
		doHalf: func(ctx context.Context) (struct{}, error) { return struct{}{}, doHalf(ctx) }})
	return err
}
