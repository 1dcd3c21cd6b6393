//go:build sagatest

package program

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	sagaadvance "github.com/holdfastdb/holdfast/doors/saga/advance"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	"github.com/holdfastdb/holdfast/serve"
)

// A build with the tag sagatest has one more door, for DTM's own test suite (conformance/saga/dtmsuite). It sets the clocks and begins the
// passes that timers begin otherwise. It listens at HOLDFAST_SAGA_CONTROL, on loopback alone, and does nothing without it.
const (
	controlVariable = "HOLDFAST_SAGA_CONTROL"
	// alertVariable is the URL that hears of transactions which do not get on.
	alertVariable = "HOLDFAST_SAGA_ALERT"
)

func init() { tune = (&control{}).tune }

// alerting knows which alerts are under way: DTM makes them within the pass, the worker beside it.
type alerting struct {
	outcall.Caller
	url   string
	under sync.WaitGroup
}

// Go implements outcall.Caller.
func (a *alerting) Go(q *outcall.Request, done func(outcall.Result)) (cancel func()) {
	if q.URL != a.url {
		return a.Caller.Go(q, done)
	}
	a.under.Add(1)
	return a.Caller.Go(q, func(r outcall.Result) {
		done(r)
		a.under.Done()
	})
}

// control is that door. Its handlers run on any goroutine.
type control struct {
	running *running
	calls   *alerting

	now, cron atomic.Int64 // nanoseconds the clocks are ahead

	mu      sync.Mutex
	hearing map[chan string]bool // guarded by mu; of /test/processed
}

// tune puts the worker into the hands of the door.
func (c *control) tune(r *running, h *serve.Host, o *sagaadvance.Options) {
	at := os.Getenv(controlVariable)
	if at == "" {
		return
	}
	c.running, c.hearing = r, map[chan string]bool{}
	l, err := net.Listen("tcp", at)
	if err == nil && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		err = fmt.Errorf("%s=%s: only loopback", controlVariable, at)
	}
	if err != nil {
		panic(err) // a build for tests: no user sees it
	}
	c.calls = &alerting{Caller: o.Caller, url: os.Getenv(alertVariable)}
	o.ByHand, o.Caller, o.AlertURL = true, c.calls, c.calls.url
	o.Ahead = func() (timeout, delay time.Duration) {
		return time.Duration(c.now.Load()), time.Duration(c.cron.Load())
	}
	o.Ended = c.ended
	mux := http.NewServeMux()
	mux.HandleFunc("POST /test/clock", c.clock)
	mux.HandleFunc("POST /test/cron-once", c.once)
	mux.HandleFunc("GET /test/processed", c.processed)
	h.Log.Warn("the door for tests is open", "control", l.Addr().String())
	go http.Serve(l, mux) // until the process ends
}

// clock sets the extra age of transactions for time limits, and how much nearer the future is for due times.
func (c *control) clock(w http.ResponseWriter, q *http.Request) {
	var body struct {
		Now  int64 `json:"now_forward_ms"`
		Cron int64 `json:"cron_forward_ms"`
	}
	if err := json.NewDecoder(q.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.now.Store(body.Now * int64(time.Millisecond))
	c.cron.Store(body.Cron * int64(time.Millisecond))
}

// once runs a pass over one due transaction. It answers with its gid when the pass has ended and alerts were sent.
func (c *control) once(w http.ResponseWriter, q *http.Request) {
	gid, err := c.running.worker.Once(time.Duration(c.cron.Load()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	c.calls.under.Wait()
	_ = json.NewEncoder(w).Encode(map[string]string{"gid": gid}) // the client has gone
}

// mostUnheard bounds the passes that a listener is behind.
const mostUnheard = 1024

// ended tells the listeners of the end of a pass.
func (c *control) ended(gid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for heard := range c.hearing { // any order: each is told
		select {
		case heard <- gid:
		default: // it does not read: the test will fail for want of this one
		}
	}
}

// processed streams the gid of every pass that ends from now on, a line each.
func (c *control) processed(w http.ResponseWriter, q *http.Request) {
	heard := make(chan string, mostUnheard)
	c.mu.Lock()
	c.hearing[heard] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.hearing, heard)
		c.mu.Unlock()
	}()
	flush := http.NewResponseController(w)
	for w.WriteHeader(http.StatusOK); flush.Flush() == nil; {
		select {
		case gid := <-heard:
			if _, err := fmt.Fprintln(w, gid); err != nil {
				return
			}
		case <-q.Context().Done():
			return
		}
	}
}
