package main

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// A service's behaviour, by the path of its URL.
const (
	agrees  = "/agree"
	refuses = "/refuse" // the action; a compensation is agreed to
	hangs   = "/hang"   // until hanging is closed, then it agrees
	stamps  = "/stamp"  // agrees, and keeps when it was called first
)

// services are the branches that coordinators call, in this process, each at an address of its own. They write down who was called how
// often: that is what answers are checked against.
type services struct {
	at      []string // host:port
	servers []*fasthttp.Server

	seed  maphash.Seed
	books [64]book

	hanging atomic.Int64  // calls that wait now
	letGo   chan struct{} // closed when they may go on
}

// book is a part of the recorded calls, by gid.
type book struct {
	sync.Mutex
	calls map[string]*calls
}

// calls is what was seen of one transaction of at most two branches.
type calls struct {
	action, compensate [2]uint16 // how often each was called
	stamped            time.Time // the first call to stamps
}

// newServices serves at n addresses.
func newServices(n int) (*services, error) {
	s := &services{seed: maphash.MakeSeed(), letGo: make(chan struct{})}
	for i := range s.books {
		s.books[i].calls = make(map[string]*calls)
	}
	for range n {
		addr, err := proctest.FreeAddress()
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		server := &fasthttp.Server{Handler: s.serve, NoDefaultServerHeader: true, NoDefaultDate: true}
		s.at, s.servers = append(s.at, addr), append(s.servers, server)
		go server.Serve(l) // its error is that of close
	}
	return s, nil
}

// close releases the hanging calls and ends the servers, without waiting for connections: their owner is dead or will be.
func (s *services) close() error {
	s.release()
	for _, server := range s.servers {
		go server.Shutdown()
	}
	return nil
}

// release lets everything go that hangs, now and later.
func (s *services) release() {
	select {
	case <-s.letGo:
	default:
		close(s.letGo)
	}
}

// url of service n.
func (s *services) url(n int, path string) string { return "http://" + s.at[n%len(s.at)] + path }

const (
	success = `{"dtm_result":"SUCCESS"}`
	failure = `{"dtm_result":"FAILURE"}`
)

func (s *services) serve(ctx *fasthttp.RequestCtx) {
	now := time.Now()
	args := ctx.QueryArgs()
	undo := string(args.Peek("op")) == "compensate"
	path := string(ctx.Path())
	s.write(args.Peek("gid"), args.Peek("branch_id"), undo, path == stamps, now)
	ctx.SetContentType("application/json")
	switch {
	case path == refuses && !undo:
		ctx.SetStatusCode(fasthttp.StatusConflict)
		ctx.SetBodyString(failure)
		return
	case path == hangs:
		s.hanging.Add(1)
		<-s.letGo
		s.hanging.Add(-1)
	}
	ctx.SetBodyString(success)
}

// write books one call. Branches are "01" and "02".
func (s *services) write(gid, branch []byte, undo, stamp bool, now time.Time) {
	b := &s.books[maphash.Bytes(s.seed, gid)%uint64(len(s.books))]
	b.Lock()
	defer b.Unlock()
	c := b.calls[string(gid)]
	if c == nil {
		c = &calls{}
		b.calls[string(gid)] = c
	}
	if stamp && c.stamped.IsZero() {
		c.stamped = now
	}
	n := 0
	if len(branch) == 2 && branch[1] == '2' {
		n = 1
	}
	if undo {
		c.compensate[n]++
	} else {
		c.action[n]++
	}
}

// seen is what was written down of a transaction.
func (s *services) seen(gid string) (c calls) {
	b := &s.books[maphash.String(s.seed, gid)%uint64(len(s.books))]
	b.Lock()
	defer b.Unlock()
	if got := b.calls[gid]; got != nil {
		c = *got
	}
	return c
}

// judge compares what was seen of a saga with its end: both actions and nothing undone, or both attempted and both compensated. It returns
// how many calls were made more than once, which is allowed.
func (c calls) judge(gid string, done bool) (repeated int, err error) {
	for i := range 2 {
		if c.action[i] == 0 || done == (c.compensate[i] > 0) {
			return 0, fmt.Errorf("saga %s, done: %v, but its actions were called %v times and its compensations %v", gid, done, c.action, c.compensate)
		}
		repeated += max(int(c.action[i])-1, 0) + max(int(c.compensate[i])-1, 0)
	}
	return repeated, nil
}
