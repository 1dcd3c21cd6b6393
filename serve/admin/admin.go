// Package admin is the operator's door: readiness, metrics, status, membership and snapshots over plain HTTP. It carries no data of users
// except whole snapshots. It is not on the path of any write, so net/http is good enough. It opens before the member runs, so that a start
// which waits for other members can be watched. Until Attach, livez answers, readyz names the awaited condition, and everything else is
// 503.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/meter"
)

// Options of the admin door.
type Options struct {
	// Version is the program's, shown in status and metrics.
	Version string
	// Steps are the counts and times of this server's writes; nil: its own, which stay zero.
	Steps *meter.Steps
	// DoorsServe reports whether every door of this server accepts clients; nil: there is no other door.
	DoorsServe func() bool
	// Sections are the doors' additions.
	Sections []Section
	// Watch is called with the server before it serves: the listener wants to know what its connections do. nil: nothing is called.
	Watch    func(*http.Server)
	Logger   *slog.Logger // nil: silent
	ErrorLog *log.Logger  // of the HTTP server; nil: Logger, at its lowest level
	// Now is the clock, for tests; nil: time.Now.
	Now func() time.Time
}

// member is what this door needs of its node. *node.Node is the one; tests put a member without a log in its place.
type member interface {
	Status() node.Status
	Members() []node.Member
	Followers() []node.Follower
	Contacts() []node.Contact
	WaitsFor() string
	Counters() node.Counters
	Call(ctx context.Context, service string, req []byte) ([]byte, error)
	Handle(service string, fn func(ctx context.Context, req []byte) ([]byte, error))
	AddMember(ctx context.Context, peerURLs []string, learner bool) (node.Member, error)
	RemoveMember(ctx context.Context, id uint64) error
	PromoteMember(ctx context.Context, id uint64) error
	SaveSnapshot(ctx context.Context, w io.Writer) error
}

// attached is a running member.
type attached struct{ member }

// Admin serves the operator's door. Create it with New.
type Admin struct {
	opts    Options
	started time.Time
	server  *http.Server
	node    atomic.Pointer[attached]
	waiting atomic.Pointer[string] // the condition that the start waits for
	ending  atomic.Bool            // Ending was called
	recent  []recentStep           // in the order of meter.Steps; never changes after New

	stopOnce sync.Once
	stop     chan struct{} // closed by Shutdown
	wg       sync.WaitGroup
}

type recentStep struct {
	name   string
	step   *meter.Step
	window *meter.Window
}

// How far rates and recent durations look back, and how often they are sampled.
const (
	recentSpan     = 10 * time.Second
	sampleInterval = 2 * time.Second
)

// New makes the door; nothing is served until Serve.
func New(opts Options) *Admin {
	if opts.Steps == nil {
		opts.Steps = new(meter.Steps)
	}
	if opts.DoorsServe == nil {
		opts.DoorsServe = func() bool { return true }
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.ErrorLog == nil {
		opts.ErrorLog = slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	a := &Admin{opts: opts, started: opts.Now(), stop: make(chan struct{})}
	opts.Steps.Each(func(name string, s *meter.Step) {
		a.recent = append(a.recent, recentStep{name, s, meter.NewWindow(s, recentSpan)})
	})
	a.server = &http.Server{
		Handler:           a.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          opts.ErrorLog,
	}
	if opts.Watch != nil {
		opts.Watch(a.server)
	}
	return a
}

// Waiting tells readyz what the start waits for.
func (a *Admin) Waiting(what string) { a.waiting.Store(&what) }

// Attach hands over the running member, once. From here on the functions of the sections are called.
func (a *Admin) Attach(n *node.Node) { a.attach(&attached{n}) }

func (a *Admin) attach(m *attached) {
	m.Handle(progressService, func(context.Context, []byte) ([]byte, error) { return json.Marshal(progressOf(m)) })
	a.node.Store(m)
}

// Ending makes readyz say no, so that load balancers look elsewhere before the doors close.
func (a *Admin) Ending() { a.ending.Store(true) }

// Serve accepts connections on l until Shutdown, which makes it return nil; any other error is the listener's.
func (a *Admin) Serve(l net.Listener) error {
	a.wg.Go(a.sample)
	err := a.server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown lets requests finish until ctx ends, then cuts them.
func (a *Admin) Shutdown(ctx context.Context) error {
	a.stopOnce.Do(func() { close(a.stop) })
	err := a.server.Shutdown(ctx)
	if err != nil {
		a.server.Close()
	}
	a.wg.Wait()
	return err
}

// sample feeds the windows that rates are taken from.
func (a *Admin) sample() {
	t := time.NewTicker(sampleInterval)
	defer t.Stop()
	for {
		now := a.opts.Now()
		for _, r := range a.recent {
			r.window.Sample(now)
		}
		select {
		case <-t.C:
		case <-a.stop:
			return
		}
	}
}

func (a *Admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry(), promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /v1/status", a.running(a.getStatus))
	mux.HandleFunc("GET /v1/members", a.running(a.getMembers))
	mux.HandleFunc("POST /v1/members", a.running(a.postMember))
	mux.HandleFunc("DELETE /v1/members/{id}", a.running(a.deleteMember))
	mux.HandleFunc("POST /v1/members/{id}/promote", a.running(a.promoteMember))
	mux.HandleFunc("POST /v1/level", a.running(a.raiseLevel))
	mux.HandleFunc("GET /v1/snapshot", a.running(a.getSnapshot))
	for _, section := range a.opts.Sections {
		for _, r := range section.Routes {
			mux.HandleFunc(r.Pattern, a.running(func(_ *attached, w http.ResponseWriter, q *http.Request) { r.Handle(w, q) }))
		}
	}
	// Profiles are always on: they cost nothing until one is taken, and when one is needed it is too late to restart with a
	// flag.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	// A web page open in the operator's browser can reach a port on loopback too. It may not change members, nor, under
	// a name it made to resolve to loopback, read a snapshot.
	return http.NewCrossOriginProtection().Handler(refuseRebinding(mux))
}

// refuseRebinding answers requests that came over loopback only if they were sent to an address or to localhost.
func refuseRebinding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local != nil && local.IP.IsLoopback() {
			host, _, err := net.SplitHostPort(r.Host)
			if err != nil {
				host = r.Host
			}
			if host != "localhost" && net.ParseIP(host) == nil {
				http.Error(w, "this address answers to localhost only", http.StatusMisdirectedRequest)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// running answers 503 until there is a member.
func (a *Admin) running(fn func(*attached, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := a.node.Load()
		if n == nil {
			w.Header().Set("Retry-After", "1")
			Fail(w, http.StatusServiceUnavailable, a.notReady())
			return
		}
		fn(n, w, r)
	}
}

// Answer writes v as JSON with indents: people read it with curl.
func Answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the client went away
}

// Fail writes a refusal as {"error": "…"}.
func Fail(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(Refusal{text}) // the client went away
}

// Refusal is the body of every answer that is not 2xx under /v1.
type Refusal struct {
	Error string `json:"error"`
}
