package kv

import (
	"cmp"
	"context"
	"crypto/tls"
	"math"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/holdfastdb/holdfast/core/entry"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/auth"
	"github.com/holdfastdb/holdfast/doors/kv/etcddata"
	"github.com/holdfastdb/holdfast/doors/kv/lease"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	"github.com/holdfastdb/holdfast/doors/kv/ops"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/doors/kv/watch"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/deadline"
	"github.com/holdfastdb/holdfast/serve/port"
)

// Options tune a Door. The zero value is etcd's defaults. They are one long list because they are an operator's: each is a flag of etcd's
// or ours. Most are independent of each other, and groups would only make them harder to find.
type Options struct {
	// TLS makes the door speak TLS; nil is cleartext. Set ClientAuth and ClientCAs in it to ask clients for certificates.
	TLS *tls.Config
	// QuotaBytes bounds keys and values with history. 0 = 2 GiB, negative = no quota. Beyond it puts and leases are
	// refused and the NOSPACE alarm is raised; deletes, compaction and disarming always work.
	QuotaBytes int64
	// MaxRequestBytes bounds one request that goes to the log. 0 = 1.5 MiB.
	MaxRequestBytes int
	// MaxTxnOps bounds each list of a Txn. 0 = 128.
	MaxTxnOps int
	// MaxAnswerBytes bounds the keys and values of all unary Ranges and reading Txns together, from the read until the client has taken the
	// answer. Each is about twice in memory while it is encoded. One may have two thirds, over HTTP/1.1 one third. 0 = 48 MiB.
	MaxAnswerBytes int64
	// MaxFlightBytes bounds the large requests (over 16 KiB by gRPC, 64 KiB by HTTP/1.1) between their first bytes and their answer. More
	// of them are refused with "too many requests". 0 = 32 MiB.
	MaxFlightBytes int64
	// MaxCallBytes bounds the memory of open gRPC calls, their headers and watches. A stream takes 16 KiB, a call that waits for its answer
	// 2 KiB, a watch 600 bytes and twice the keys. Calls beyond it are refused with "too many requests"; port.Options.CallBytes has the
	// order. 0 = 64 MiB.
	MaxCallBytes int64
	// CallRoom says how many bytes of calls may be open at the moment, if that can be more than MaxCallBytes; nil: it cannot. Any goroutine.
	CallRoom func() int64
	// MaxPinnedBytes bounds the events that watchers who read slowly keep in memory. 0 = 16 MiB.
	MaxPinnedBytes int64
	// ProgressInterval is how often an idle watch that asked for it hears how far it has come. 0 = 10 minutes, at least
	// 100 ms.
	ProgressInterval time.Duration
	// MinLeaseTTL in seconds; shorter leases are lengthened. 0 = 2, which is etcd's at default election settings.
	MinLeaseTTL int64
	// MaxIdentBytes bounds the rows of users and roles, as auth.Options.MaxBytes does; nil: no bound of this door.
	MaxIdentBytes func() int64
	// MaxLeaseBytes bounds the memory of all leases, kvmachine.LeaseBytes each: a grant beyond it is refused here, so members may differ.
	// nil = 8 MiB.
	MaxLeaseBytes func() int64
	// RequestTimeout ends a request whose client set no earlier deadline. 0 = 7 s, which is etcd's at default settings.
	RequestTimeout time.Duration
	// NoLeaderTimeout is how long a member may be without a leader before streams that require one are ended. 0 = 3 s. After a third of it,
	// an election timeout, calls that require a leader are refused.
	NoLeaderTimeout time.Duration
	// MaxConns bounds client connections of every kind. 0 = three quarters of the files the process may open.
	MaxConns int
	// Conns bounds them together with those of other doors; nil: alone.
	Conns *port.ConnLimit
	// CORS lists the origins whose pages may ask over HTTP, "*" for all; none: none may (browsers enforce it).
	CORS []string
	// HostWhitelist lists the names by which HTTP clients without TLS may call this server, "*" for all; none: all.
	HostWhitelist []string
	// NoGateway leaves the JSON gateway out, Pprof puts Go's profiles below /debug/pprof/ on the port.
	NoGateway, Pprof bool
	// MaxConcurrentStreams bounds the gRPC calls one connection may have open. 0 = no bound.
	MaxConcurrentStreams uint32
	// KeepaliveMinTime is how often a client may ping, KeepaliveInterval how often the server pings an idle connection and
	// KeepaliveTimeout how long it then waits. 0 = 5 s, 2 h, 20 s; a negative interval: never.
	KeepaliveMinTime, KeepaliveInterval, KeepaliveTimeout time.Duration
	// V2 answers HTTP requests below /v2/ (doors/kv/v2); nil: they are not found.
	V2 fasthttp.RequestHandler
	// AuthToken is the kind of tokens: "simple" (the default), or "jwt,sign-method=RS256,pub-key=FILE,priv-key=FILE,ttl=5m". One
	// that makes no sense makes Serve fail; CheckAuthToken says so earlier.
	AuthToken string
	// ReadFile reads the key files AuthToken names.
	ReadFile func(name string) ([]byte, error)
	// AuthTokenTTL is how long a simple token lives unused. 0 = 300 s.
	AuthTokenTTL time.Duration
	// BcryptCost is that of new passwords, 4 to 31; anything else is 10.
	BcryptCost int
	// ClientCertAuth takes the common name of a client's certificate for the user's name where there is no token.
	ClientCertAuth bool
	// RefuseAuthEnable says why authentication cannot be enabled with this server's flags, and what to do; "" if it can.
	RefuseAuthEnable string
	// Leases is the worker whose renewals and expiries /metrics shows, V2Watchers how many watches of the v2 API wait; nil: not
	// shown.
	Leases     *lease.Worker
	V2Watchers func() int
	// SaveEtcd builds the file that Snapshot streams (package etcddata).
	SaveEtcd func(ctx context.Context, storageVersion, clusterVersion string) (*etcddata.File, error)
	// Ack is the durability dial: whether there is an archive, and whether answers wait for it by themselves.
	Ack ack.Dial
	// Steps receives counts and times of decoding commands and of answering them; nil: nothing is counted.
	Steps *meter.Steps
}

func (o *Options) fill() {
	o.QuotaBytes = cmp.Or(o.QuotaBytes, 2<<30)
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, 3<<19)
	o.MaxTxnOps = cmp.Or(o.MaxTxnOps, 128)
	o.MaxAnswerBytes = cmp.Or(o.MaxAnswerBytes, 48<<20)
	o.MaxFlightBytes = cmp.Or(o.MaxFlightBytes, 32<<20)
	o.MaxCallBytes = cmp.Or(o.MaxCallBytes, 64<<20)
	o.MaxPinnedBytes = cmp.Or(o.MaxPinnedBytes, 16<<20)
	if o.MaxLeaseBytes == nil {
		o.MaxLeaseBytes = func() int64 { return 8 << 20 }
	}
	o.ProgressInterval = cmp.Or(o.ProgressInterval, 10*time.Minute)
	o.ProgressInterval = max(o.ProgressInterval, 100*time.Millisecond)
	o.MinLeaseTTL = cmp.Or(o.MinLeaseTTL, 2)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 7*time.Second)
	o.NoLeaderTimeout = cmp.Or(o.NoLeaderTimeout, 3*time.Second)
	o.MaxConcurrentStreams = cmp.Or(o.MaxConcurrentStreams, math.MaxUint32)
	o.KeepaliveMinTime = cmp.Or(o.KeepaliveMinTime, 5*time.Second)
	o.KeepaliveInterval = cmp.Or(o.KeepaliveInterval, 2*time.Hour)
	o.KeepaliveTimeout = cmp.Or(o.KeepaliveTimeout, 20*time.Second)
	if o.KeepaliveInterval < 0 {
		o.KeepaliveInterval = math.MaxInt64
	}
	o.AuthToken = cmp.Or(o.AuthToken, "simple")
	if o.Steps == nil {
		o.Steps = new(meter.Steps)
	}
}

// maxHeaderList bounds a call's headers, by HTTP/2's measure, which counts 32 bytes for each beside its text. Compressed they may
// be a hundredth of that, and a stream that has begun holds them until it ends. A token and a handful of headers fit many times.
const maxHeaderList = 16 << 10

// member is the door's view of its node. *node.Node is the one; tests put a member without a log in its place.
type member interface {
	Propose(ctx context.Context, lane node.Lane, parts ...entry.Part) (*entry.Result, error)
	Linearize(ctx context.Context) error
	Call(ctx context.Context, service string, req []byte) ([]byte, error)
	Status() node.Status
	ClusterLevel() uint16
	Members() []node.Member
	Peers() []node.Peer
	StoppedC() <-chan struct{}
	LeaderChanged() <-chan struct{}
	AddMember(ctx context.Context, peerURLs []string, learner bool) (node.Member, error)
	RemoveMember(ctx context.Context, id uint64) error
	UpdateMember(ctx context.Context, id uint64, peerURLs []string) error
	PromoteMember(ctx context.Context, id uint64) error
	TransferLeader(ctx context.Context, to uint64) error
	Tick() int64
	Counters() node.Counters
	ack.Member
}

// reader is the door's view of the kv machine, by the contract in doors/kv/machine.
type reader interface {
	Revision() (current, compacted int64)
	Scrubbed() int64
	Range(r *kvpart.Range, maxBytes int64) (res *kvpart.RangeResult, revision int64, err error)
	Txn(t *kvpart.Txn, maxBytes int64) (*kvpart.TxnResult, error)
	RangeStream(ctx context.Context, r *kvpart.Range, chunkBytes int, fn func(chunk *kvpart.RangeResult, revision int64) error) error
	History(key, end []byte, from, to int64, maxBytes int) (evs []kvmachine.Event, next int64, err error)
	HistoryOf(from, to int64, maxBytes, maxChanges int, wanted func(key []byte) bool) (evs []kvmachine.Event, next int64, err error)
	Previous(key []byte, rev int64) (*kvpart.KeyValue, error)
	Recent(after int64) (evs []kvmachine.Event, upTo int64, ok bool, changed <-chan struct{})
	Leases() []kvmachine.Lease
	LeaseCount() int
	Lease(id int64) (kvmachine.Lease, bool)
	LeaseKeys(id int64) [][]byte
	EachLeaseKey(id int64, fn func(key []byte) bool) error
	Alarms() []kvpart.AlarmState
	Size() (withHistory, inUse int64)
	Stats() *kvmachine.Stats
	HashKV(rev int64) (hash uint32, hashRevision, compactRevision, currentRevision int64, err error)
}

// Lane is where the door's writes wait before the log; number 1 is its own for good (node.Lane). Those of the v2 API wait there too: a client
// may expect an order between the two.
const Lane node.Lane = 1

// Door serves etcd's gRPC services, and what etcd offers over HTTP, for one member.
type Door struct {
	node       member
	kv         reader
	users      *auth.Users
	v2         *v2machine.Stats // of the v2 API, for /metrics; nil: not shown
	opts       Options
	port       *port.Port
	server     *grpc.Server
	maxMessage int // bytes of a gRPC message, inflated
	web        *web
	ops        *ops.Ops
	counts     ops.Counts
	calls      ops.Calls // filled by New, read only after it
	// stays has the calls, by full method name, that stay open after their requests have come. Filled by New, read only after it.
	stays  map[string]bool
	health *health.Server
	hub    *watch.Hub
	marks  marks

	badTokens error // the fault of Options.AuthToken; Serve returns it
	pauses    pauses
	large     chan struct{} // one token for each large answer that is being made; see withRoom
	line      line          // of reads that wait for room for large answers

	// deadline is for requests whose client set no earlier one; see bounded.
	deadline *deadline.Shared
	// leaderless is closed and replaced when the member has been without a leader for NoLeaderTimeout.
	leaderless atomic.Pointer[chan struct{}]
	led        atomic.Bool // see missesLeader; written by followLeader

	stopping chan struct{}   // closed by Shutdown: ends streams
	life     context.Context // ends with Shutdown: for work that no request waits for
	endLife  context.CancelFunc
	stopOnce sync.Once
	runOnce  sync.Once // the first Serve starts the background goroutines
	wg       sync.WaitGroup
}

// New makes a door for n that reads the keys of m. v2 is the counters of etcd's v2 API, nil if that is not offered. Nothing is served until
// Serve.
func New(n *node.Node, m *kvmachine.Machine, v2 *v2machine.Stats, opts Options) *Door {
	d := newDoor(n, m, n.Ident(), opts)
	d.v2 = v2
	return d
}

func newDoor(n member, kv reader, users *mident.Machine, opts Options) *Door {
	opts.fill()
	d := &Door{kv: kv, opts: opts, deadline: deadline.New(opts.RequestTimeout), stopping: make(chan struct{}), large: make(chan struct{}, largeAnswers)}
	d.node = &countedMember{n, &d.counts}
	d.stays = map[string]bool{lpb.Lock_Lock_FullMethodName: true, epb.Election_Campaign_FullMethodName: true} // and every stream
	d.life, d.endLife = context.WithCancel(context.Background())
	d.users, d.badTokens = auth.New(auth.Options{
		Member: d.node, Machine: users, Token: opts.AuthToken, TokenTTL: opts.AuthTokenTTL, ReadFile: opts.ReadFile, BcryptCost: opts.BcryptCost,
		ClientCertAuth: opts.ClientCertAuth, MaxBytes: opts.MaxIdentBytes, RefuseEnable: opts.RefuseAuthEnable,
		Bounded: d.bounded, Written: d.written, Life: d.life, RequestTimeout: opts.RequestTimeout, LeaseKeys: kv.EachLeaseKey,
		Header: func() *pb.ResponseHeader { return d.pbHeader(0) },
	})
	d.hub = watch.NewHub(kv, opts.MaxPinnedBytes)
	if opts.Ack.Archiving {
		d.hub.Advanced = func() { d.markNow() }
	}
	d.pauses.limit = opts.MaxFlightBytes / 4 / streamWindow // together they hold a quarter of MaxFlightBytes at most
	leaderless := make(chan struct{})
	d.leaderless.Store(&leaderless)

	// As in etcd: the request and half a MiB for its envelope. The transport refuses larger ones.
	maxMessage := opts.MaxRequestBytes + 512<<10
	d.maxMessage = maxMessage
	gopts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{opts.Steps, &d.counts}),
		grpc.UnaryInterceptor(d.guardUnary),
		grpc.MaxRecvMsgSize(maxMessage),
		//lint:ignore SA1019 a compressor that is registered would inflate for every server and client of the process, on nobody's account
		grpc.RPCDecompressor(port.Gzip{}),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.InTapHandle(d.refuseCrowd),
		grpc.MaxConcurrentStreams(opts.MaxConcurrentStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: opts.KeepaliveMinTime, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: opts.KeepaliveInterval, Timeout: opts.KeepaliveTimeout}),
		// Handlers run on goroutines that stay, with stacks that have grown already. A call without a free one gets a goroutine of its own,
		// whose stack is copied in the middle of the call. The number is the usual count of waiting callers on so many processors.
		grpc.NumStreamWorkers(uint32(144 * runtime.GOMAXPROCS(0))),
		// Fixed windows: the estimator would answer our small messages with pings. They do not bound what a client can make
		// the server hold, since the server widens them for a large message; the port does that.
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(port.GRPCWindow),
		grpc.ReadBufferSize(0), // the port has a buffer already
		experimental.BufferPool(pool),
		grpc.Creds(portCredentials{}),
	}
	d.server = grpc.NewServer(gopts...)
	services := registrar{d, d.server}
	services.RegisterService(&kvService, d)
	services.RegisterService(&watchService, d)
	pb.RegisterLeaseServer(services, &leaseServer{d: d})
	pb.RegisterClusterServer(services, &clusterServer{d: d})
	pb.RegisterMaintenanceServer(services, &maintenanceServer{d: d})
	pb.RegisterAuthServer(services, d.users.Service())
	lpb.RegisterLockServer(services, &lockServer{d: d})
	epb.RegisterElectionServer(services, &electionServer{d: d})
	d.health = health.NewServer()
	healthpb.RegisterHealthServer(services, d.health)
	d.ops = d.newOps()
	d.web = d.newWeb()
	d.port = port.New(port.Options{
		Name: "kv", HTTP1: d.web.http1, HTTP2: d.web, MaxConns: opts.MaxConns, Conns: opts.Conns,
		// A request as large as gRPC takes it, in JSON with its bytes in base64, times two as a margin.
		MaxBodyBytes:    2 * maxMessage,
		MaxMessageBytes: maxMessage,
		BudgetBytes:     opts.MaxFlightBytes,
		CallBytes:       opts.MaxCallBytes,
		CallRoom:        opts.CallRoom,
		AnswerBytes:     max(opts.MaxAnswerBytes, 3*smallAnswer),
	})
	d.web.bridge = d.port.Bridge()
	return d
}

// Serve accepts connections on l until Shutdown, which makes it return nil; any other error is the listener's. It may be
// called for several listeners at once.
func (d *Door) Serve(l net.Listener) error { return d.ServeAs(l, port.Protocols{TLS: d.opts.TLS}) }

// ServeAs is Serve for a listener that offers something else than the door's TLS and every protocol.
func (d *Door) ServeAs(l net.Listener, offer port.Protocols) error {
	if d.badTokens != nil {
		l.Close()
		return d.badTokens
	}
	d.runOnce.Do(func() {
		d.wg.Go(func() { d.hub.Run(d.stopping) })
		d.wg.Go(d.followLeader)
		d.wg.Go(func() { _ = d.server.Serve(d.port.GRPC()) }) // ends by Shutdown
	})
	return d.port.Serve(l, offer)
}

// Resume serves further HTTP/1.1 requests on a connection that V2 had taken; see port.Port.Resume.
func (d *Door) Resume(c net.Conn) { d.port.Resume(c) }

// Ops answers what probes and dashboards ask, for listeners that offer nothing else.
func (d *Door) Ops() *ops.Ops { return d.ops }

// CheckAuthToken returns the fault of an Options.AuthToken, so that a server can refuse it before it starts anything.
func CheckAuthToken(spec string, readFile func(name string) ([]byte, error)) error {
	return auth.CheckToken(spec, readFile)
}

// Catalogue and RootBasic are those of the door's users (auth.Users), for other protocols on this port.
func (d *Door) Catalogue() (authEnabled bool, revision uint64) { return d.users.Catalogue() }

// RootBasic is described with Catalogue.
func (d *Door) RootBasic(host, user, password string) (revision uint64, ok bool) {
	return d.users.RootBasic(host, user, password)
}

// Shutdown ends streams with "server stopped", lets unary requests finish until ctx ends, and closes what is left. It
// returns ctx's error if requests had to be cut.
func (d *Door) Shutdown(ctx context.Context) error {
	d.stopOnce.Do(func() { close(d.stopping) })
	d.health.Shutdown()
	d.users.Stop()
	// HTTP first: a call of the gateway is one that the gRPC server waits for.
	err := d.port.Shutdown(ctx)
	_ = d.web.conn.Close() // no call uses it any more
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
	d.endLife()
	d.wg.Wait()
	return err
}

// bounded returns the context a request waits under: its own if its client set an early deadline, else one that is shared (deadline.Shared).
func (d *Door) bounded(ctx context.Context) context.Context {
	now := time.Now()
	if end, ok := ctx.Deadline(); ok && end.Sub(now) <= d.opts.RequestTimeout {
		return ctx
	}
	return d.deadline.Context(now)
}
