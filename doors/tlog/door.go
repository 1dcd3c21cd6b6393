package tlog

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/port"
)

// DefaultLog is the log that answers at the root of the address; the others answer below /logs/NAME.
const DefaultLog = "default"

// Options tune a Door. The zero value works.
type Options struct {
	// ReadOnly says why entries cannot be added to a log although it exists, "" if they can: its key is missing, for example.
	// nil: they can.
	ReadOnly func(l *tlogmachine.Log) string
	// Shown is the checkpoint that readers get of a log, nil if that is not known; nil: the newest.
	Shown func(l *tlogmachine.Log) *tlogmachine.Checkpoint
	// Admit judges an add of an entry of n bytes by the Authorization header. If code is not 0 the add is refused with it and text.
	// Otherwise done, if not nil, is called when the outcome is known. nil: every client may add.
	Admit func(log, authorization string, n int) (code int, text string, done func())
	// CORS lists the origins of pages that may add, "*" for all; none: no page of another site may.
	CORS []string
	// GetOnly answers GET and HEAD, and refuses everything else.
	GetOnly bool
	// Ack is the durability dial: whether there is an archive, and whether answers wait for it by themselves.
	Ack ack.Dial
	// RequestTimeout bounds how long an add waits for the log, and how long an answer for the archive. 0 = 7 s.
	RequestTimeout time.Duration
	// ProofTimeout is how long POST /add?proof=1 waits for a checkpoint after the entry is in the log. 0 = 5 s.
	ProofTimeout time.Duration
	// MaxQueueBytes bounds the commands of one log that wait for their turn, in bytes. Each entry counts with its length field of two
	// bytes, so that empty entries are bounded too. 0 = 8 MiB.
	MaxQueueBytes int
	// MaxConns bounds connections, as port.Options does.
	MaxConns int
	// Conns bounds them together with those of other doors; nil: alone.
	Conns *port.ConnLimit
	// Packed keeps compressed bundles; nil: the door has room of its own for 4 MiB.
	Packed *Packed
	// Meter counts what is added and refused; nil: nothing is counted.
	Meter *meter.Tlog
	// Steps receives counts and times of decoding adds and of answering them; nil: nothing is counted.
	Steps *meter.Steps
}

// member is the door's view of its node. *node.Node is the one; tests put a member without a log in its place.
type member interface {
	Propose(ctx context.Context, lane node.Lane, parts ...entry.Part) (*entry.Result, error)
	Status() node.Status
	StoppedC() <-chan struct{}
	ack.Member
}

// Door answers requests. Its methods may be called from any number of goroutines.
type Door struct {
	node member
	logs *tlogmachine.Machine
	opts Options
	port *port.Port
	h2   *http.Server
	// packed are compressed bundles.
	packed *Packed

	mu     sync.Mutex
	queues map[*tlogmachine.Log]*queue // guarded by mu
	runH2  sync.Once
	// archived: checkpoints of less than that size are known to be archived, of logs that were read at that level; guarded by mu.
	archived map[*tlogmachine.Log]uint64
}

// New makes a door for n that serves the logs of m; nothing is served until Serve.
// Lane is where entries wait before the log; number 2 is its own for good (node.Lane). One command for each log and member waits there, the
// rest at the door.
const Lane node.Lane = 2

func New(n *node.Node, m *tlogmachine.Machine, opts Options) *Door { return newDoor(n, m, opts) }

func newDoor(n member, logs *tlogmachine.Machine, opts Options) *Door {
	if opts.RequestTimeout == 0 {
		opts.RequestTimeout = 7 * time.Second
	}
	if opts.ProofTimeout == 0 {
		opts.ProofTimeout = 5 * time.Second
	}
	if opts.MaxQueueBytes == 0 {
		opts.MaxQueueBytes = 8 << 20
	}
	if opts.ReadOnly == nil {
		opts.ReadOnly = func(*tlogmachine.Log) string { return "" }
	}
	if opts.Steps == nil {
		opts.Steps = new(meter.Steps)
	}
	if opts.Packed == nil {
		opts.Packed = NewPacked(4 << 20)
	}
	if opts.Meter == nil {
		opts.Meter = new(meter.Tlog)
	}
	d := &Door{node: n, logs: logs, opts: opts, packed: opts.Packed, queues: map[*tlogmachine.Log]*queue{}, archived: map[*tlogmachine.Log]uint64{}}
	d.port = port.New(port.Options{HTTP1: d.http1, HTTP2: http.HandlerFunc(d.http2), MaxConns: opts.MaxConns, Conns: opts.Conns,
		// Room for an entry that is a little too large, so that it is refused with a sentence that says why.
		MaxBodyBytes: 2 * tiles.MaxEntryBytes})
	d.h2 = newHTTP2(http.HandlerFunc(d.http2))
	return d
}

// Serve accepts connections on l until Shutdown, which makes it return nil; any other error is the listener's. It may be
// called for several listeners at once.
func (d *Door) Serve(l net.Listener, offer port.Protocols) error {
	// The port takes every cleartext HTTP/2 connection for gRPC; here that is HTTP/2 like any other.
	d.runH2.Do(func() { go d.serveH2() })
	if offer.TLS != nil {
		offer.NoGRPC = true
	}
	return d.port.Serve(l, offer)
}

// Shutdown refuses new connections, lets requests that are being handled finish until ctx ends, and closes what is left. It
// returns ctx's error if requests had to be cut.
func (d *Door) Shutdown(ctx context.Context) error {
	d.runH2.Do(func() {}) // if nothing was served there is nothing to end
	err := d.h2.Shutdown(ctx)
	if err != nil {
		_ = d.h2.Close() // its error is ctx's
	}
	if err2 := d.port.Shutdown(ctx); err == nil {
		err = err2
	}
	return err
}

// queue is the queue of adds to a log.
func (d *Door) queue(l *tlogmachine.Log) *queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[l]
	if q == nil {
		q = &queue{d: d, log: l, meter: d.opts.Meter.Log(l.Spec.Name)}
		d.queues[l] = q
	}
	return q
}
