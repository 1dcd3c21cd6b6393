package port

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestLargeRequestsWaitForRoom: sixty of a megabyte go through room for five, and no more are in memory at a time.
func TestLargeRequestsWaitForRoom(t *testing.T) {
	t.Parallel()
	const room, each, all = 5 << 20, 1 << 20, 60
	var under, most atomic.Int64
	addr, p := serveEcho(t, Options{BudgetBytes: room + room/2, HTTP1: func(ctx *fasthttp.RequestCtx) {
		n := under.Add(1)
		defer under.Add(-1)
		for h := most.Load(); n > h && !most.CompareAndSwap(h, n); h = most.Load() {
		}
		time.Sleep(2 * time.Millisecond) // so that they would overlap
		ctx.SetBodyString(fmt.Sprint(len(ctx.Request.Body())))
	}})
	body := bytes.Repeat([]byte("x"), each)
	var wg sync.WaitGroup
	var refused atomic.Int64
	for range all {
		wg.Go(func() {
			tr := &http.Transport{DisableKeepAlives: true}
			defer tr.CloseIdleConnections()
			resp, err := (&http.Client{Transport: tr}).Post("http://"+addr, "application/json", bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				refused.Add(1)
				return
			}
			defer resp.Body.Close()
			if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != fmt.Sprint(each) {
				t.Errorf("%d %s", resp.StatusCode, b)
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if refused.Load() != 0 || most.Load() > 7 {
		t.Errorf("%d of %d were refused, %d at a time", refused.Load(), all, most.Load())
	}
	wait.Until(t, "all room is given back", func() bool { return p.budget.Load() == p.opts.BudgetBytes })
}

// TestRoomIsGivenToOneAddressAfterAnother: a client with a hundred large requests delays itself.
func TestRoomIsGivenToOneAddressAfterAnother(t *testing.T) {
	t.Parallel()
	p := New(Options{Conns: NewConnLimit(10), BudgetBytes: 10})
	if !p.tryDraw(10, 0, true) {
		t.Fatal("there is no room")
	}
	many, one := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var mu sync.Mutex
	var order []netip.Addr
	var wg sync.WaitGroup
	queued := func(n int) {
		wait.Until(t, "they wait", func() bool {
			p.waitRoom.mu.Lock()
			defer p.waitRoom.mu.Unlock()
			return len(p.waitRoom.all) == n
		})
	}
	for i := range 6 {
		site := many
		if i == 5 {
			site = one
		}
		wg.Go(func() {
			if !p.await(10, site, true, time.Minute) {
				t.Error("it was refused")
			}
			mu.Lock()
			order = append(order, site)
			mu.Unlock()
			p.returnRoom(10)
		})
		queued(i + 1)
	}
	p.returnRoom(10)
	wg.Wait()
	if order[0] != many || order[1] != one {
		t.Errorf("given in the order %v", order)
	}
	if p.await(11, one, true, time.Minute) {
		t.Error("more than all room")
	}
	p.tryDraw(10, 0, true)
	if p.await(1, one, true, time.Millisecond) {
		t.Error("there is none")
	}
	queued(0)
	p.returnRoom(10)
	if p.budget.Load() != 10 {
		t.Errorf("%d are left", p.budget.Load())
	}
}

// TestAnAnswerBeforeTheBodyIsRead: a body over the limit is refused by its length, in the door's form, and the client that is still sending
// hears it.
func TestAnAnswerBeforeTheBodyIsRead(t *testing.T) {
	t.Parallel()
	refusal := func(code int, text string) (string, []byte) {
		return "application/json", []byte(fmt.Sprintf("{%d %s}", code, text))
	}
	addr, p := serveEcho(t, Options{MaxBodyBytes: 1 << 20, Refusal: refusal, HTTP1: func(ctx *fasthttp.RequestCtx) { t.Error("it was handled") }})
	for range 10 {
		resp, err := http.Post("http://"+addr, "application/json", bytes.NewReader(make([]byte, 12<<20)))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 413 || !strings.Contains(string(b), "at most 1048576 bytes") || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%d %q", resp.StatusCode, b)
		}
		if h, _, _ := p.Held(); h != 0 {
			t.Errorf("%d bytes are held", h)
		}
	}
	// A client that sends its whole request before it reads anything, as many do.
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 12 << 20
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", n); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(make([]byte, n)); err != nil {
		t.Fatalf("while it was sent: %v", err)
	}
	if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 413") {
		t.Errorf("%q, %v", b, err)
	}
}

func TestWhatAHeadAnnounces(t *testing.T) {
	for head, want := range map[string]int{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n":     12,
		"POST / HTTP/1.1\r\ncontent-length:12\r\nHost: x\r\n\r\nbody":  12,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n":         0,
		"POST / HTTP/1.1\r\nHost: x\r\n\r\nContent-Length: 12\r\n\r\n": 0,
		"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n":                0,
		"POST / HTTP/1.1\r\nX-Content-Length: 5\r\n\r\n":               0,
		"": 0,
	} {
		if got := announced([]byte(head)); got != want {
			t.Errorf("%q announces %d, want %d", head, got, want)
		}
	}
}

// serveEcho is a port on loopback that ends with the test.
func serveEcho(t *testing.T, o Options) (addr string, p *Port) {
	p = New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go p.Serve(l, Protocols{NoGRPC: true})
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), p
}
