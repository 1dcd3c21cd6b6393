package kv

import (
	"context"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tooMany is the text for a message that the port turned away. errTurnedAway is the answer; other refusals have the same code
// and text, but are different values.
var (
	tooMany       = rpctypes.ErrorDesc(rpctypes.ErrGRPCRequestTooManyRequests)
	errTurnedAway = status.Error(codes.ResourceExhausted, tooMany)
)

const (
	// refusalPause is how long a call that was turned away waits for its answer.
	refusalPause = 500 * time.Millisecond
	// streamWindow is a client's window on a stream before the server wants more. So much of a message that was turned away may be in
	// memory until the call is answered.
	streamWindow = 64 << 10
)

// pauses slows down clients whose messages are turned away. They hear it at the first bytes of a message, and most begin the next at once.
// A hundred such clients took more of a small machine than the admitted requests.
type pauses struct {
	limit int64 // calls that may wait at a time; the others are answered at once
	now   atomic.Int64
}

// wait returns after the pause, or when ctx or stop ends it. A client with little time left gets its answer before that ends.
func (p *pauses) wait(ctx context.Context, stop <-chan struct{}) {
	defer p.now.Add(-1)
	if p.now.Add(1) > p.limit {
		return
	}
	pause := refusalPause
	if end, ok := ctx.Deadline(); ok {
		pause = min(pause, time.Until(end)/2)
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-stop:
	}
}
