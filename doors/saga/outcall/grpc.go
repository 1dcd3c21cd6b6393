package outcall

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// channel is the gRPC connection to an endpoint. The library makes it again when it breaks; every connection goes through Net.dial.
type channel struct {
	cc *grpc.ClientConn
	// refused is why policy did not let the last connection through, remote where it leads otherwise.
	refused atomic.Pointer[refusal]
	remote  atomic.Pointer[netip.AddrPort]
	failed  atomic.Bool // the last connection could not be made
}

func (ch *channel) close() {
	ch.cc.Close() // its calls have ended: nothing can be lost by its failure to close
}

// ready reports whether it is connected.
func (ch *channel) ready() bool { return ch.cc.GetState() == connectivity.Ready }

// unreachable reports whether there is no connection because none can be made, as far as is known.
func (ch *channel) unreachable() bool {
	state := ch.cc.GetState()
	return ch.failed.Load() || state == connectivity.Connecting || state == connectivity.TransientFailure
}

// raw is a codec for messages that are bytes already. Its empty name makes the content type plain application/grpc.
type raw struct{}

func (raw) Name() string { return "" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal takes any answer: DTM's coordinator reads none either.
func (raw) Unmarshal(mem.BufferSlice, any) error { return nil }

// newChannel makes a channel to a target. Nothing is dialled before the first call.
func (n *Net) newChannel(ep *endpoint, t target) (*channel, error) {
	ch := &channel{}
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := n.dial(ctx, &t)
		var r *refusal
		errors.As(err, &r)
		ch.refused.Store(r)
		ch.failed.Store(err != nil)
		if err != nil {
			return nil, err
		}
		n.reached(ep)
		at := remote(conn)
		ch.remote.Store(&at)
		return conn, nil
	}
	var err error
	ch.cc, err = grpc.NewClient("passthrough:///service", grpc.WithAuthority(t.authority), // dial knows where that is
		grpc.WithContextDialer(dial), grpc.WithNoProxy(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(),
		// An idle channel is closed with its endpoint, and one that is not connected with its last call (finish). The library's own idle mode
		// races with calls (v1.83.2: initIdleStateLocked).
		grpc.WithIdleTimeout(0),
		grpc.WithUserAgent("holdfast"), grpc.WithReadBufferSize(8<<10), grpc.WithMaxHeaderListSize(maxHead),
		// The breaker says when a service that is gone is tried again; the library's own waiting must be over by then.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: n.connectTimeout(),
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxBody)))
	return ch, err
}

// connectTimeout is how long one try to connect may take: between one and two times a call's usual time. Otherwise thousands of silent
// services would be given up in the same moment, and the calls of others would wait for that.
func (n *Net) connectTimeout() time.Duration { return n.o.Timeout + rand.N(n.o.Timeout) }

// channelOf finds or makes the endpoint's channel.
func (n *Net) channelOf(ep *endpoint, t *target) (*channel, error) {
	var old *channel
	n.mu.Lock()
	defer func() {
		n.mu.Unlock()
		if old != nil {
			old.close()
		}
	}()
	if ep.grpc == nil {
		old = n.spareChannel()
		ch, err := n.newChannel(ep, *t)
		if err != nil {
			return nil, err
		}
		ep.grpc = ch
	}
	return ep.grpc, nil
}

// maxChannels is from how many channels on one that is not used makes room for a new one: each has a connection and some goroutines.
const maxChannels = 256

// spareChannel takes the channel that was not used for longest, nil while there are few or all are in use. n.mu is held.
func (n *Net) spareChannel() (ch *channel) {
	var spare *endpoint
	all := 0
	for _, ep := range n.endpoints { // any order: the oldest is looked for
		if ep.grpc == nil {
			continue
		}
		all++
		if ep.unused() && (spare == nil || ep.used.Before(spare.used)) {
			spare = ep
		}
	}
	if all < maxChannels || spare == nil {
		return nil
	}
	ch, spare.grpc = spare.grpc, nil
	return ch
}

// dropChannel closes a channel that leads where it may no longer lead.
func (n *Net) dropChannel(ep *endpoint, ch *channel) {
	n.mu.Lock()
	if ep.grpc == ch {
		ep.grpc = nil
	}
	n.mu.Unlock()
	ch.close()
}

// overGRPC makes the call and judges its status.
func (c *call) overGRPC() verdict {
	n := c.net
	ch, err := n.channelOf(c.endpoint, &c.target)
	if err != nil {
		return verdict{outcome: Refused, message: err.Error()}
	}
	if at := ch.remote.Load(); at != nil {
		if r := n.judge.address(*at, c.target.host); r != nil {
			n.dropChannel(c.endpoint, ch)
			return verdict{outcome: Refused, message: r.Error()}
		}
	}
	ctx, stop := context.WithDeadline(n.base, c.by)
	defer stop()
	if !c.hold(nil, stop) {
		return verdict{outcome: Transient, message: "cancelled"}
	}
	err = c.invoke(ctx, ch)
	if !c.hold(nil, nil) && err != nil {
		return verdict{outcome: Transient, message: "cancelled"}
	}
	v := c.judgeStatus(err, ch.refused.Load())
	v.unreachable = v.mute && ch.unreachable()
	if v.outcome == Refused {
		n.dropChannel(c.endpoint, ch) // or it would go on refusing for a while after an operator has allowed it
	}
	return v
}

// largestMessage is the longest accepted answer, in bytes: DTM's.
const largestMessage = 4 << 20

// invoke makes the call. The library has the whole of an answer in memory, though it is not read. One longer than maxBody needs a place,
// and later calls of its route have one from the beginning.
func (c *call) invoke(ctx context.Context, ch *channel) error {
	n := c.net
	ctx = c.metadata(ctx)
	n.mu.Lock()
	large := c.route.large
	n.mu.Unlock()
	if !large {
		err := ch.cc.Invoke(ctx, c.target.path, c.body, nil)
		if s := status.Convert(err); s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "received message larger than max") {
			return err
		}
		n.mu.Lock()
		c.route.large = true
		n.mu.Unlock()
	}
	select {
	case n.large <- struct{}{}:
		defer func() { <-n.large }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return ch.cc.Invoke(ctx, c.target.path, c.body, nil, grpc.MaxCallRecvMsgSize(largestMessage))
}

// judgeStatus translates a gRPC status.
func (c *call) judgeStatus(err error, refused *refusal) verdict {
	s := status.Convert(err)
	switch s.Code() {
	case codes.OK:
		return verdict{outcome: OK}
	case codes.Aborted:
		if s.Message() == string(ongoing) { // as DTM's clients before 1.10 say it
			return verdict{outcome: Ongoing, message: s.Message()}
		}
		return verdict{outcome: Failure, message: s.Message()}
	case codes.FailedPrecondition:
		return verdict{outcome: Ongoing, message: s.Message()}
	case codes.DeadlineExceeded:
		return c.failed(context.DeadlineExceeded)
	case codes.Unavailable:
		if refused != nil {
			return verdict{outcome: Refused, message: refused.Error()}
		}
		return c.failed(errors.New(s.Message()))
	}
	return verdict{outcome: Transient, message: fmt.Sprintf("%s answered %s: %s", c.target.endpoint(), s.Code(), s.Message())}
}

// metadata tells the service what the call is of, and adds the request's headers.
func (c *call) metadata(ctx context.Context) context.Context {
	r := c.req
	pairs := make([]string, 0, 10+2*len(r.Headers))
	pairs = append(pairs, "dtm-gid", r.Gid, "dtm-trans_type", r.Mode, "dtm-branch_id", r.BranchID, "dtm-op", r.Op, "dtm-dtm", "")
	for _, h := range r.Headers {
		name := strings.ToLower(h.Name)
		if framing[name] || name == "content-type" || name == "user-agent" || strings.HasPrefix(name, "grpc-") {
			continue
		}
		pairs = append(pairs, name, h.Value)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}
