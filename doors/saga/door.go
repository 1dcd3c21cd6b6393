package saga

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"google.golang.org/grpc"

	"github.com/holdfastdb/holdfast/core/entry"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/deadline"
	"github.com/holdfastdb/holdfast/serve/port"
)

// Lane is where the door's commands wait before the log; number 4 is its own for good (node.Lane).
const Lane node.Lane = 4

// Options tune a Door. The zero value is DTM's defaults.
type Options struct {
	// Version is what GET /version says.
	Version string
	// Admit judges a request by its sender. Where code is not 0, an HTTP status, the request is refused with it and text. revision is the
	// revision of the catalogue of users by which it was admitted. While authentication is on, a change carries it through the log and is
	// refused there if the catalogue has changed. 0: it was admitted without users. Nil: every request is admitted while authentication is
	// off.
	Admit func(c *Caller) (revision uint64, code int, text string)
	// KV makes the parts of a change of keys that commits together with a transaction's beginning. The part is refused if a compare is
	// false (kvpart.Part.Must). With authentication on, a pass for the user that c names comes with it. code and text are as Admit's. Nil:
	// such requests are refused.
	KV func(ctx context.Context, c *Caller, t *kvpart.Txn) (parts []entry.Part, code int, text string)
	// CORS lists the origins of pages that may write, "*" for all; none: no page of another site may.
	CORS []string

	// RetryInterval is between two passes over a transaction that does not say otherwise, TimeoutToFail how long one may stay prepared.
	// 0 = 10 s and 35 s. doors/saga/advance has the same.
	RetryInterval, TimeoutToFail time.Duration
	// RequestTimeout bounds how long a request waits for the log. 0 = 7 s.
	RequestTimeout time.Duration
	// WaitTimeout bounds how long a submit with wait_result waits for the end of a pass. 0 = 10 minutes.
	WaitTimeout time.Duration
	// MaxWatchers bounds the streams of events that are open at a time, of about 32 KiB each. 0 = 1,024.
	MaxWatchers int

	// These bound the memory of large requests, of open gRPC calls and of answers that clients have not taken. They are BudgetBytes,
	// CallBytes and AnswerBytes of port.Options. 0 = the defaults there.
	MaxFlightBytes, MaxCallBytes, MaxAnswerBytes int64
	// MaxConns bounds connections, as port.Options does, and Conns together with those of other doors; nil: alone.
	MaxConns int
	Conns    *port.ConnLimit

	// Ack is the durability dial: whether there is an archive, and whether answers wait for it by themselves.
	Ack ack.Dial

	// Trouble returns the newest error of an open transaction in a status and its newest call, zero if none is known. leads reports whether
	// this member leads: other members know neither. Leader returns the leader's name, "" if it is unknown. Nil: errors are not shown, or
	// no name.
	Trouble func(number uint64, in sagapart.Status) (of Trouble, leads bool)
	Leader  func() string

	// Collect adds to the answer of GET /api/metrics what the door cannot know: passes and calls of the worker; nil: nothing is added.
	Collect func(m *Metrics)
	// Steps receives counts and times of decoding commands and of answering them; nil: nothing is counted.
	Steps *meter.Steps
	// Now is the time of day; nil: the real one.
	Now func() time.Time
}

func (o *Options) fill() {
	o.RetryInterval = cmp.Or(o.RetryInterval, 10*time.Second)
	o.TimeoutToFail = cmp.Or(o.TimeoutToFail, 35*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 7*time.Second)
	o.WaitTimeout = cmp.Or(o.WaitTimeout, 10*time.Minute)
	o.MaxWatchers = cmp.Or(o.MaxWatchers, 1024)
	if o.Steps == nil {
		o.Steps = new(meter.Steps)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// member is the door's view of its node. *node.Node is the one; tests put a member without a log in its place.
type member interface {
	Propose(ctx context.Context, lane node.Lane, parts ...entry.Part) (*entry.Result, error)
	Linearize(ctx context.Context) error
	Status() node.Status
	Tick() int64
	StoppedC() <-chan struct{}
	ack.Member
}

// Door answers requests. Its methods may be called from any number of goroutines.
type Door struct {
	node    member
	machine *sagamachine.Machine
	users   *mident.Machine
	opts    Options
	port    *port.Port
	server  *grpc.Server
	adapted fasthttp.RequestHandler // of watches
	bridge  http.Handler            // of HTTP/2, which is always inside TLS, to HTTP/1.1
	meters  meters

	waiting  atomic.Int64 // requests that wait for news of a transaction, watches among them
	watching atomic.Int64 // streams of events
	// small and large have a token for each answer of which a page is being made (pages.go).
	small, large chan struct{}
	deadline     *deadline.Shared

	stopping chan struct{} // closed by Shutdown: ends watches, and waiting for outcomes
	stopOnce sync.Once
	runOnce  sync.Once
	wg       sync.WaitGroup
}

// maxHeaderList bounds a gRPC call's headers, by HTTP/2's measure, as in doors/kv.
const maxHeaderList = 16 << 10

// New makes a door for n that serves the transactions of m; nothing is served until Serve.
func New(n *node.Node, m *sagamachine.Machine, opts Options) *Door {
	return newDoor(n, m, n.Ident(), opts)
}

func newDoor(n member, m *sagamachine.Machine, users *mident.Machine, opts Options) *Door {
	opts.fill()
	d := &Door{node: n, deadline: deadline.New(opts.RequestTimeout), machine: m, users: users, opts: opts, small: make(chan struct{}, smallReaders), large: make(chan struct{}, largeReaders()), stopping: make(chan struct{})}
	d.meters = newMeters()
	d.server = grpc.NewServer(
		grpc.ForceServerCodecV2(codec{}),
		grpc.MaxRecvMsgSize(maxBody),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.InTapHandle(d.refuseCrowd),
		grpc.NumStreamWorkers(uint32(16*runtime.GOMAXPROCS(0))),
		grpc.InitialWindowSize(1<<20),
		grpc.InitialConnWindowSize(port.GRPCWindow),
		grpc.ReadBufferSize(0), // the port has a buffer already
		grpc.Creds(portCredentials{}),
	)
	d.register()
	d.adapted = port.Adapt(http.HandlerFunc(d.watch))
	d.port = port.New(port.Options{
		Refusal: portRefusal, RoomPatience: opts.RequestTimeout, MessagePatience: opts.RequestTimeout,
		Name: "saga", HTTP1: d.http1, HTTP2: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.bridge.ServeHTTP(w, r) }),
		MaxConns: opts.MaxConns, Conns: opts.Conns, MaxBodyBytes: maxBody, MaxMessageBytes: maxBody, BudgetBytes: opts.MaxFlightBytes, CallBytes: opts.MaxCallBytes, AnswerBytes: opts.MaxAnswerBytes,
	})
	d.bridge = d.port.Bridge()
	return d
}

// Serve accepts connections on l until Shutdown, which makes it return nil; any other error is the listener's. It serves everything that
// offer does not exclude: DTM's clients expect HTTP and gRPC at addresses of their own. It may be called for several listeners at once.
func (d *Door) Serve(l net.Listener, offer port.Protocols) error {
	d.runOnce.Do(func() {
		d.wg.Go(func() { _ = d.server.Serve(d.port.GRPC()) }) // ends by Shutdown
	})
	return d.port.Serve(l, offer)
}

// Shutdown refuses new connections, ends watches and the waiting for outcomes, lets other requests finish until ctx ends, and closes what
// is left. It returns ctx's error if requests had to be cut.
func (d *Door) Shutdown(ctx context.Context) error {
	d.stopOnce.Do(func() { close(d.stopping) })
	err := d.port.Shutdown(ctx)
	done := make(chan struct{})
	go func() {
		d.server.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		d.server.Stop()
		<-done
		err = ctx.Err()
	}
	d.wg.Wait()
	return err
}

// now is the clock that transactions go by (doors/saga/machine), in milliseconds.
func (d *Door) now() int64 { return d.node.Tick() + d.machine.Elapsed() }

// bounded returns the context a request waits for the log under, which is shared (deadline.Shared).
func (d *Door) bounded() context.Context { return d.deadline.Context(time.Now()) }
