package v2

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/serve/ack"
)

var errTooManyEvents = errors.New("more events since that index than a watch holds; wait for them one by one")

// watch is one request that waits for events.
type watch struct {
	path              string
	recursive, stream bool
	from              uint64 // events before do not count; set before it is registered
	registered        bool   // guarded by hub.mu
	archived          bool   // it sends what is archived

	// The beginning of its answer.
	head      []byte
	http11    bool
	keepAlive bool

	mu    sync.Mutex // guards the rest
	queue []*notice
	ended bool   // by the hub: the connection is closed after what is queued
	wake  func() // makes the goroutine that waits look at the queue; nil while none waits
}

// push puts a notice on the queue; false if there is no room.
func (w *watch) push(n *notice, h *hub) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) >= maxQueued || !h.pin(n) {
		return false
	}
	w.queue = append(w.queue, n)
	if w.wake != nil {
		w.wake()
	}
	return true
}

// end tells the goroutine that waits that there will be nothing more.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.wake != nil {
		w.wake()
	}
}

// take empties the queue. If there was nothing, idle is called before the hub can put something there: it prepares to be
// woken.
func (w *watch) take(idle func()) (queue []*notice, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue, w.queue = w.queue, nil
	if len(queue) == 0 && !w.ended {
		idle()
	}
	return queue, w.ended
}

// drop releases what is queued.
func (w *watch) drop(h *hub) {
	queue, _ := w.take(func() {})
	w.unpin(h, queue)
}

func (w *watch) unpin(h *hub, queue []*notice) {
	for _, n := range queue {
		h.unpin(n)
	}
}

// watch begins a watch. It returns nil and true if the request is answered, by an event of the history or an error. It returns false if the
// request must be judged anew. A begun watch goes on after changes of users, as in v3.
func (h *Handler) watch(ctx *fasthttp.RequestCtx, s *scratch, path []byte, a access) (_ *watch, done bool) {
	w := &watch{path: string(path), recursive: s.req.recursive, stream: s.req.stream, archived: s.session.Waits()}
	h.machine.Stats().WatchRequests.Add(1)
	first, index, err := h.hub.add(w, s.req.waitIndex)
	switch {
	case !h.stands(a):
		h.hub.remove(w)
		return nil, false
	case err == nil && w.archived:
		err = ack.Read(h.bounded(), h.node) // its index, and its answer from the history
	}
	switch {
	case err != nil:
		h.hub.remove(w)
		h.failed(ctx, s, err)
		return nil, true
	case first != nil && !w.stream:
		s.body = appendEvent(s.body[:0], first, false)
		h.answer(ctx, s, fasthttp.StatusOK, index)
		return nil, true
	}
	st := h.node.Status()
	w.http11, w.keepAlive = ctx.Request.Header.IsHTTP11(), !ctx.Request.ConnectionClose() && h.opts.Resume != nil
	w.keepAlive = w.keepAlive && w.http11
	w.head = appendSet(nil, &ctx.Response.Header)
	w.head = fmt.Appendf(w.head, "Content-Type: application/json\r\nX-Etcd-Cluster-Id: %s\r\nX-Etcd-Index: %d\r\nX-Raft-Index: %d\r\n"+
		"X-Raft-Term: %d\r\n", h.cluster, index, h.raftIndex(s, &st), st.Term)
	return w, true
}

// appendSet appends the headers that were set on an answer before this package got the request. They allow a page of another origin to read
// it. The watch itself sets the framing and the content type.
func appendSet(dst []byte, h *fasthttp.ResponseHeader) []byte {
	for name, value := range h.All() {
		switch string(name) {
		case fasthttp.HeaderContentType, fasthttp.HeaderContentLength, fasthttp.HeaderTransferEncoding, fasthttp.HeaderConnection, fasthttp.HeaderServer, fasthttp.HeaderDate:
		default:
			dst = append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
		}
	}
	return dst
}

// hijack takes the connection from the server for w.
func (h *Handler) hijack(ctx *fasthttp.RequestCtx, w *watch) {
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(c net.Conn) {
		if h.follow(c, w) && h.opts.Resume != nil {
			if u, ok := c.(interface{ UnsafeConn() net.Conn }); ok {
				go h.opts.Resume(u.UnsafeConn())
				return
			}
		}
		c.Close()
	})
}

// long ago: a read deadline that wakes a reader at once.
var longAgo = time.Unix(1, 0)

// writeTimeout bounds one write to a watcher, which may have stopped reading.
const writeTimeout = 10 * time.Second

// follow answers w on c until it is over, and reports whether the connection can serve further requests. Its goroutine spends its life
// reading from the connection, because that reveals a client that leaves. The hub wakes it by moving the read deadline. So a watch takes
// one goroutine with a small stack and no worker of the server.
func (h *Handler) follow(c net.Conn, w *watch) (resumable bool) {
	defer h.hub.remove(w)
	w.mu.Lock()
	w.wake = func() { _ = c.SetReadDeadline(longAgo) } // an error means that the connection is gone, which the read reports
	w.mu.Unlock()
	buf := append(make([]byte, 0, 512), "HTTP/1.1 200 OK\r\nDate: "...)
	buf = fasthttp.AppendHTTPDate(buf, time.Now())
	buf = append(append(buf, "\r\n"...), w.head...)
	if w.http11 {
		buf = append(buf, "Transfer-Encoding: chunked\r\n"...)
	}
	if !w.keepAlive {
		buf = append(buf, "Connection: close\r\n"...)
	}
	// The head goes out at once: a client can rely on the watch from then on.
	buf = append(buf, "\r\n"...)
	over := time.Now().Add(h.opts.WatchTimeout)
	clean := true // nothing came that belongs to a next request
	for {
		queue, ended := w.take(func() { _ = c.SetReadDeadline(over) })
		if w.archived && len(queue) > 0 && !h.archived(over) {
			w.unpin(h.hub, queue)
			return false // without the last chunk: the client sees that it was cut
		}
		for i, n := range queue {
			event := n.encoded()
			buf = w.beginChunk(buf, len(event))
			if len(buf)+len(event) > longestCopy { // the hub counts the queued bytes, but a copy is not counted
				if !send(c, buf) || !send(c, event) {
					w.unpin(h.hub, queue[i:])
					return false
				}
				buf, event = buf[:0], nil
			}
			buf = w.endChunk(append(buf, event...))
			h.hub.unpin(n)
		}
		done := len(queue) > 0 && !w.stream || !ended && len(queue) == 0 && !time.Now().Before(over)
		if done && w.http11 {
			buf = append(buf, "0\r\n\r\n"...)
		}
		if len(buf) > 0 {
			if !send(c, buf) {
				return false
			}
			if buf = buf[:0]; cap(buf) > longestCopy {
				buf = nil
			}
		}
		switch {
		case done:
			return w.keepAlive && clean && c.SetDeadline(time.Time{}) == nil
		case ended:
			return false // without the last chunk: the client sees that it was cut
		case len(queue) > 0:
			continue
		}
		var ahead [64]byte
		n, err := c.Read(ahead[:])
		if n > 0 {
			clean = false
		}
		var timeout net.Error // the hub, or the watch's time is over
		if err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
			return false
		}
	}
}

// longestCopy is how much of the answer is put together for one write. A longer event is written as it is.
const longestCopy = 4 << 10

// send writes to a watcher, and reports whether it takes the bytes.
func send(c net.Conn, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if c.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
		return false
	}
	_, err := c.Write(b)
	return err == nil
}

// beginChunk appends what stands before n bytes of the body.
func (w *watch) beginChunk(dst []byte, n int) []byte {
	if !w.http11 {
		return dst
	}
	return append(strconv.AppendInt(dst, int64(n), 16), '\r', '\n')
}

// endChunk appends what stands behind them.
func (w *watch) endChunk(dst []byte) []byte {
	if !w.http11 {
		return dst
	}
	return append(dst, '\r', '\n')
}

var _ reader = (*v2machine.Machine)(nil)
