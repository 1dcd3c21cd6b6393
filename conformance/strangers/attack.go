package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// attack is one thing that strangers do. run does it until ctx ends, or returns earlier and leaves open what it has opened until then. did says
// how much it came to. An error is about the attack itself: it could not be made.
type attack struct {
	name  string
	ports []string // of the doors that are attacked, each by itself
	quick bool
	run   func(ctx context.Context, t *target) (did string, err error)
}

// attacks is every attack. Quick ones are of every kind: connections, bodies, answers, streams, compression, work.
var attacks = []*attack{
	{name: "connections that say nothing", ports: []string{"kv", "tlog", "saga", "saga-grpc", "sql", "admin", "peer"}, run: hold(4000, silent)},
	{name: "half requests, a byte every 4 s", ports: []string{"kv", "tlog", "saga", "admin"}, quick: true, run: hold(4000, halfRequest)},
	{name: "half requests, opened anew as they are lost", ports: []string{"kv", "tlog", "saga"}, run: again(2600, halfRequest)},
	{name: "half heads, a byte every 4 s", ports: []string{"kv", "tlog", "saga", "admin"}, run: hold(4000, halfHead)},
	{name: "HTTP/2 and no call", ports: []string{"kv", "tlog", "saga-grpc"}, run: hold(4000, http2Alone)},
	{name: "answered once, and kept", ports: []string{"kv", "tlog", "saga", "admin"}, run: hold(4000, once)},
	{name: "HTTP/2 without gRPC, half of a body", ports: []string{"kv", "tlog", "saga"}, run: hold(4000, halfHTTP2)},
	{name: "half a TLS handshake", ports: []string{"kv", "tlog", "saga", "admin"}, run: hold(4000, halfHandshake)},
	{name: "half a login", ports: []string{"sql"}, run: hold(4000, halfLogin)},
	{name: "heads without end", ports: []string{"kv", "tlog", "saga", "admin"}, run: flood(64, endlessHead)},
	{name: "large bodies, half of each", ports: []string{"kv", "tlog", "saga"}, quick: true, run: hold(400, halfBody)},
	{name: "bodies of a terabyte", ports: []string{"kv", "tlog", "saga", "admin"}, run: flood(64, hugeBody)},
	{name: "noise", ports: []string{"kv", "tlog", "saga", "saga-grpc", "sql", "admin", "peer"}, quick: true, run: flood(64, noise)},
	{name: "requests inside of requests", ports: []string{"kv", "tlog", "saga"}, run: smuggle},
	{name: "a gigabyte announced", ports: []string{"sql"}, run: hold(200, gigabyteLogin)},

	{name: "answers over HTTP that nobody takes", ports: []string{"kv"}, quick: true, run: untakenJSON},
	{name: "answers over gRPC that nobody takes", ports: []string{"kv"}, run: untakenRanges},
	{name: "all transactions, and nobody takes the answer", ports: []string{"saga"}, run: untakenAll},
	{name: "one large transaction, and nobody takes the answer", ports: []string{"saga"}, run: untakenQuery},

	{name: "gRPC calls without end", ports: []string{"kv"}, quick: true, run: openCalls},
	{name: "headers that are small on the wire", ports: []string{"kv", "saga-grpc"}, run: headerBombs},
	{name: "watches of large keys", ports: []string{"kv"}, run: watchedKeys},
	{name: "gRPC messages, half of each", ports: []string{"kv"}, run: halfMessages},
	{name: "watches over HTTP that nobody reads", ports: []string{"kv"}, run: watchesOverHTTP},
	{name: "watches through the gateway that nobody takes", ports: []string{"kv"}, run: untakenWatches},
	{name: "gzip bombs", ports: []string{"kv"}, quick: true, run: gzipBombs},

	{name: "headers of branches", ports: []string{"saga"}, quick: true, run: branchHeaders},
	{name: "a topic of a thousand, forty thousand times", ports: []string{"saga"}, run: topicBomb},
	{name: "services that hang, and wait for years", ports: []string{"saga"}, quick: true, run: hangingServices},
	{name: "steps at the cluster's own ports", ports: []string{"saga"}, run: ownPorts},
	{name: "gRPC services that refuse", ports: []string{"saga"}, run: refusingServices},
}

// first is what an attacker sends on a new connection.
type first func(t *target) (protocols []string, bytes []byte)

// connect opens one connection and sends what comes first. halfHandshake alone is about the handshake itself.
func (t *target) connect(ctx context.Context, f first) (net.Conn, error) {
	protocols, bytes := f(t)
	open := func() (net.Conn, error) { return t.open(ctx, protocols...) }
	if len(protocols) == 1 && protocols[0] == noHandshake {
		open = func() (net.Conn, error) { return t.dial(ctx) }
	}
	c, err := open()
	if err != nil {
		return nil, err
	}
	c.SetWriteDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write(bytes); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// hold opens n connections and keeps them with a byte every 4 s. Those that are lost stay lost.
func hold(n int, f first) func(context.Context, *target) (string, error) { return holding(n, f, false) }

// again is hold, and opens anew what it loses.
func again(n int, f first) func(context.Context, *target) (string, error) { return holding(n, f, true) }

func holding(n int, f first, anew bool) func(context.Context, *target) (string, error) {
	return func(ctx context.Context, t *target) (string, error) {
		var held []net.Conn
		defer func() {
			for _, c := range held {
				c.Close()
			}
		}()
		opened := 0
		fill := func() {
			for len(held) < n && ctx.Err() == nil {
				c, err := t.connect(ctx, f)
				if err != nil {
					return // there is no room for more
				}
				held = append(held, c)
				opened++
			}
		}
		fill()
		for every := time.NewTicker(map[bool]time.Duration{false: 4 * time.Second, true: 1500 * time.Millisecond}[anew]); ; {
			select {
			case <-ctx.Done():
				every.Stop()
				return fmt.Sprintf("%d connections opened, %d held in the end", opened, len(held)), nil
			case <-every.C:
			}
			kept := held[:0]
			for _, c := range held {
				c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				if _, err := c.Write([]byte("a")); err != nil {
					c.Close()
					continue
				}
				kept = append(kept, c)
			}
			held = kept
			if anew {
				fill()
			}
		}
	}
}

// flood has n clients open connections one after another and send on each for as long as the server takes it.
func flood(n int, send func(ctx context.Context, t *target, c net.Conn)) func(context.Context, *target) (string, error) {
	return func(ctx context.Context, t *target) (string, error) {
		var opened atomic.Int64
		each(ctx, n, func() {
			c, err := t.open(ctx)
			if err != nil {
				rest(ctx)
				return
			}
			opened.Add(1)
			stop := context.AfterFunc(ctx, func() { c.Close() })
			send(ctx, t, c)
			stop()
			c.Close()
		})
		return fmt.Sprintf("%d connections", opened.Load()), nil
	}
}

// each has n goroutines do something again and again until ctx ends.
func each(ctx context.Context, n int, do func()) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				do()
			}
		})
	}
	wg.Wait()
}

// rest keeps an attacker that is refused from taking the processors that the server needs.
func rest(ctx context.Context) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
}
