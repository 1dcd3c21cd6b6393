package v2

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/node"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/port"
)

// Headers, in the spelling in which they travel.
var (
	contentJSON   = []byte("application/json")
	headerCluster = []byte("X-Etcd-Cluster-Id")
	headerIndex   = []byte("X-Etcd-Index")
	headerRaft    = []byte("X-Raft-Index")
	headerTerm    = []byte("X-Raft-Term")
	headerAck     = []byte(ack.Header)
	rootPath      = []byte("/")
)

func appendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

// keys answers a request below /v2/keys or returns the watch that will.
func (h *Handler) keys(ctx *fasthttp.RequestCtx, s *scratch, path, query []byte) *watch {
	read := ctx.IsGet() || ctx.IsHead()
	if !read && !ctx.IsPut() && !allow(ctx, "HEAD,GET,PUT,POST,DELETE") {
		return nil
	}
	if h.node.Status().Learner { // as in v3; etcd 3.4 has no such rule for v2 and answers from the learner's state
		h.failed(ctx, s, errLearner)
		return nil
	}
	r := &s.req
	if !read {
		s.began = h.opts.Steps.Decode.Begin()
	}
	var bad badRequest
	if s.query, bad = r.read(ctx, query, s.query[:0]); bad.code != 0 {
		h.refused(ctx, s, bad.code, bad.cause, 0)
		return nil
	}
	if !h.asks(ctx, s) {
		return nil
	}
	if path = bytes.TrimSuffix(path, rootPath); len(path) == 0 {
		path = rootPath
	}
	for {
		a, ok := h.allowed(ctx)
		if !ok {
			h.refused(ctx, s, codeUnauthorized, "Insufficient credentials", 0)
			return nil
		}
		var w *watch
		done := false
		switch {
		case r.wait:
			w, done = h.watch(ctx, s, path, a)
		case read:
			done = h.read(ctx, s, path, a)
		default:
			done = h.write(ctx, s, path, a)
		}
		if done {
			return w
		}
	}
}

// read answers a GET or HEAD from this member's state, after a round if quorum is asked for. It returns false, and has answered
// nothing, if the request must be judged anew.
func (h *Handler) read(ctx *fasthttp.RequestCtx, s *scratch, path []byte, a access) (done bool) {
	stats := h.machine.Stats()
	if s.req.quorum && ctx.IsGet() {
		if err := h.node.Linearize(h.bounded()); err != nil {
			h.failed(ctx, s, err)
			return true
		}
	}
	n, index, ok, err := h.machine.Key(&s.lookup, path, h.node.Tick)
	switch {
	case err != nil:
	case ok:
		s.body = append(s.body[:0], `{"action":"get","node":`...)
		s.body = append(appendNode(s.body, &n, true), '}', '\n')
	default:
		small := min(smallList, h.opts.MaxListBytes)
		if index, err = h.list(s, path, small); errors.Is(err, v2machine.ErrTooLarge) && small < h.opts.MaxListBytes {
			room := h.opts.MaxListBytes
			if !waitForRoom(ctx, h.bounded(), room) {
				h.failed(ctx, s, node.ErrOverloaded)
				return true
			}
			index, err = h.list(s, path, h.opts.MaxListBytes)
			port.AnswerUnused(ctx, room-min(int64(len(s.body)), room))
		}
	}
	switch {
	case !h.stands(a): // not even that the key does not exist may be answered
		return false
	case s.session.Waits():
		if late := ack.Read(h.bounded(), h.node); late != nil {
			err = late
		}
	}
	if err != nil {
		stats.GetFails.Add(1)
		h.failed(ctx, s, err)
		return true
	}
	stats.Gets.Add(1)
	h.answer(ctx, s, fasthttp.StatusOK, index)
	return true
}

// smallList is how much keys and values of a list may be without asking for room first.
const smallList = 256 << 10

// list makes the answer to a GET of a directory.
func (h *Handler) list(s *scratch, path []byte, maxBytes int64) (index uint64, err error) {
	l := listing{body: s.body[:0], open: s.dirs[:0]}
	l.begin()
	index, err = h.machine.List(path, s.req.recursive, h.node.Tick(), maxBytes, l.visit)
	l.end()
	s.body, s.dirs = l.body, l.open
	return index, err
}

// waitForRoom waits for room for an answer of n bytes until the end of bound.
func waitForRoom(ctx *fasthttp.RequestCtx, bound context.Context, n int64) bool {
	for !port.HoldAnswer(ctx, n) {
		select {
		case <-bound.Done():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// answer sends s.body with the headers of a success.
func (h *Handler) answer(ctx *fasthttp.RequestCtx, s *scratch, status int, index uint64) {
	st := h.node.Status()
	ctx.SetStatusCode(status)
	head := &ctx.Response.Header
	head.SetContentTypeBytes(contentJSON)
	head.SetCanonical(headerCluster, h.cluster)
	s.num = appendUint(s.num[:0], index)
	head.SetCanonical(headerIndex, s.num)
	s.num = appendUint(s.num[:0], h.raftIndex(s, &st))
	head.SetCanonical(headerRaft, s.num)
	s.num = appendUint(s.num[:0], st.Term)
	head.SetCanonical(headerTerm, s.num)
	ctx.SetBody(s.body)
}

// bodies holds the memory of commands on their way through the log.
var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// write proposes a PUT, POST or DELETE and answers with its outcome. It returns false, and nothing has happened, if the request
// must be judged anew.
func (h *Handler) write(ctx *fasthttp.RequestCtx, s *scratch, path []byte, a access) (done bool) {
	p := part(ctx, &s.req, path)
	if len(p.Path)+len(p.Value)+len(p.PrevValue) > h.opts.MaxRequestBytes {
		h.failed(ctx, s, errTooLarge)
		return true
	}
	body := bodies.Get().(*[]byte)
	*body = v2part.Append((*body)[:0], &p)
	h.opts.Steps.Decode.End(s.began)
	s.began = time.Time{} // should it be judged anew
	var parts [2]entry.Part
	// LaneSystem would let deletes overtake; a client that put and deletes on two connections may expect an order.
	bound := h.bounded()
	res, err := h.node.Propose(bound, lane, a.command(&parts, *body)...)
	if !errors.Is(err, node.ErrUnknown) && cap(*body) <= maxScratch { // after ErrUnknown the node may still hold it
		bodies.Put(body)
	}
	switch {
	case err != nil:
		h.failed(ctx, s, err)
		return true
	case eident.Outdated(res.Rejection):
		return false // the catalogue has changed: judge again by the new one, which this member has by now
	case s.session.Waits():
		err = s.session.Written(bound, h.node, res)
	}
	switch {
	case err != nil:
		h.failed(ctx, s, err)
		return true
	case res.Rejection != nil:
		h.failed(ctx, s, v2part.RefusalOf(res.Rejection))
		return true
	}
	began := h.opts.Steps.Reply.Begin()
	e := res.Of(entry.MachineEtcd2).(*v2machine.Event)
	status := fasthttp.StatusOK
	if e.Action == v2machine.Create || e.Action == v2machine.Set && !e.HasPrev {
		status = fasthttp.StatusCreated
	}
	quiet := s.req.quiet && (e.Action == v2machine.Set || e.Action == v2machine.CompareAndSwap || e.Action == v2machine.Create ||
		e.Action == v2machine.Update)
	s.body = appendEvent(s.body[:0], e, quiet)
	h.answer(ctx, s, status, e.Index())
	h.opts.Steps.Reply.End(began)
	return true
}

// part turns a write into a command part. The precedence of the parameters is etcd's choice.
func part(ctx *fasthttp.RequestCtx, r *request, path []byte) v2part.Part {
	p := v2part.Part{Path: path, Value: r.get(pValue), Dir: r.dir, Refresh: r.refresh, HasTTL: r.hasTTL, TTL: r.ttl}
	compares := r.prevIndex > 0 || len(r.get(pPrevValue)) > 0
	switch {
	case ctx.IsDelete():
		p = v2part.Part{Kind: v2part.Delete, Path: path, Dir: r.dir, Recursive: r.recursive}
		if compares {
			p = v2part.Part{Kind: v2part.CompareAndDelete, Path: path}
		}
	case ctx.IsPost():
		p.Kind, p.Refresh = v2part.InOrder, false
	case r.given[pPrevExist] && !r.prevExist:
		p.Kind, p.Refresh, compares = v2part.Create, false, false
	case compares:
		p.Kind, p.Dir = v2part.CompareAndSwap, false
	case r.given[pPrevExist]:
		p.Kind, p.Dir = v2part.Update, false
	default:
		p.Kind = v2part.Set
	}
	if compares && !ctx.IsPost() {
		p.PrevIndex, p.PrevValue = r.prevIndex, r.get(pPrevValue)
	}
	return p
}
