package v2

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/deadline"
)

// Options tune a Handler. The zero value is etcd's defaults, without users.
type Options struct {
	// Catalogue reports whether users must show who they are, and the revision of users and roles that this is read from; nil: never. With
	// authentication on, only HTTP Basic of a user with RootBasic true, at the returned revision, is let in. v2 has no users of its own
	// here.
	Catalogue func() (authEnabled bool, revision uint64)
	RootBasic func(host, user, password string) (revision uint64, ok bool)
	// Resume serves further requests on a connection on which a watch has ended; it owns the connection and may block. Give
	// it fasthttp's Server.ServeConn, and set that server's KeepHijackedConns. Nil: the connection is closed.
	Resume func(net.Conn)
	// RequestTimeout bounds a write or a quorum read. 0 = 7 s, which is etcd's at default settings.
	RequestTimeout time.Duration
	// WatchTimeout ends a watch that is still open. 0 = 5 minutes, as in etcd.
	WatchTimeout time.Duration
	// MaxRequestBytes bounds path and value of a write. 0 = 1.5 MiB.
	MaxRequestBytes int
	// MaxListBytes bounds the keys and values of one listing. 0 = 16 MiB.
	MaxListBytes int64
	// MaxWatchers bounds the watches that wait at a time. 0 = 16,384. One takes about 16 KiB.
	MaxWatchers int
	// MaxPinnedBytes bounds the events that watchers who do not read keep in memory. 0 = 16 MiB.
	MaxPinnedBytes int64
	// Ack is the durability dial: whether there is an archive, and whether answers wait for it by themselves.
	Ack ack.Dial
	// Steps receives counts and times of decoding writes and of answering them; nil: nothing is counted.
	Steps *meter.Steps
}

func (o *Options) fill() {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 7*time.Second)
	o.WatchTimeout = cmp.Or(o.WatchTimeout, 5*time.Minute)
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, 3<<19)
	o.MaxListBytes = cmp.Or(o.MaxListBytes, 16<<20)
	o.MaxWatchers = cmp.Or(o.MaxWatchers, 16<<10)
	o.MaxPinnedBytes = cmp.Or(o.MaxPinnedBytes, 16<<20)
	if o.Steps == nil {
		o.Steps = new(meter.Steps)
	}
	if o.Catalogue == nil {
		o.Catalogue = func() (bool, uint64) { return false, 0 }
	}
}

// member is the handler's view of its node. *node.Node is the one; tests put a member without a log in its place.
type member interface {
	Propose(ctx context.Context, lane node.Lane, parts ...entry.Part) (*entry.Result, error)
	Linearize(ctx context.Context) error
	Status() node.Status
	Tick() int64
	Members() []node.Member
	Followers() []node.Follower
	Removed(id uint64) bool
	StoppedC() <-chan struct{}
	AddMember(ctx context.Context, peerURLs []string, learner bool) (node.Member, error)
	RemoveMember(ctx context.Context, id uint64) error
	UpdateMember(ctx context.Context, id uint64, peerURLs []string) error
	ack.Member
}

// Handler answers requests below /v2/. Handle may be called from any number of goroutines.
type Handler struct {
	node    member
	machine *v2machine.Machine
	opts    Options
	hub     *hub
	cluster []byte          // the cluster id as a header has it
	life    context.Context // ends with Close
	endLife context.CancelFunc
	began   time.Time
	scratch sync.Pool // of *scratch

	deadline *deadline.Shared
}

// scratch is the memory of one request on its way through the handler.
type scratch struct {
	req    request
	lookup v2machine.Lookup
	path   []byte
	query  []byte // unescaped parameters
	body   []byte // the answer
	num    []byte
	dirs   []openDir
	began  time.Time // of decoding a write, zero if that is not timed or over
	// session is the request's at the gate of the archive.
	session ack.Session
}

// maxScratch is the largest answer whose memory is kept for the next request.
const maxScratch = 64 << 10

// lane is the kv door's, on whose port this is: see doors/kv.Lane.
const lane node.Lane = 1

// New makes a handler for n that serves the nodes of m; Close ends its watches.
func New(n *node.Node, m *v2machine.Machine, opts Options) *Handler { return newHandler(n, m, opts) }

func newHandler(n member, m *v2machine.Machine, opts Options) *Handler {
	opts.fill()
	h := &Handler{node: n, deadline: deadline.New(opts.RequestTimeout), machine: m, opts: opts, began: time.Now()}
	h.cluster = strconv.AppendUint(nil, n.Status().ClusterID, 16)
	h.scratch.New = func() any { return &scratch{} }
	h.life, h.endLife = context.WithCancel(context.Background())
	h.hub = newHub(m, n.StoppedC(), opts.MaxWatchers, opts.MaxPinnedBytes)
	return h
}

// Close ends all watches. Requests that come later are answered, watches are refused.
func (h *Handler) Close() {
	h.endLife()
	h.hub.close()
}

var (
	keysPrefix    = []byte("/v2/keys")
	membersPrefix = []byte("/v2/members")
	authPrefix    = []byte("/v2/auth")
)

// Handle answers one request. A watch that has to wait takes the connection from the server (fasthttp's hijacking), so that it holds no
// worker. Everything else is answered when Handle returns.
func (h *Handler) Handle(ctx *fasthttp.RequestCtx) {
	if w := h.serve(ctx); w != nil {
		h.hijack(ctx, w)
	}
}

// serve answers a request or returns the watch that will answer it.
func (h *Handler) serve(ctx *fasthttp.RequestCtx) *watch {
	s := h.scratch.Get().(*scratch)
	defer func() {
		if cap(s.body) > maxScratch {
			s.body = nil
		}
		h.scratch.Put(s)
	}()
	uri, query, _ := bytes.Cut(ctx.Request.Header.RequestURI(), []byte("?"))
	if len(uri) == 0 || uri[0] != '/' { // the absolute form that proxies use
		uri, query = ctx.URI().PathOriginal(), ctx.URI().QueryString()
	}
	var ok bool
	if s.path, ok = unescapePath(s.path[:0], uri); !ok {
		plain(ctx, fasthttp.StatusBadRequest, "400 Bad Request")
		return nil
	}
	path := s.path
	if !isClean(path) {
		redirect(ctx, path, query)
		return nil
	}
	switch {
	case below(path, keysPrefix):
		return h.keys(ctx, s, path[len(keysPrefix):], query)
	case below(path, membersPrefix):
		h.members(ctx, s, trimSlash(path[len(membersPrefix):]))
	case string(path) == "/v2/machines":
		h.machines(ctx)
	case string(path) == "/v2/stats/store":
		h.storeStats(ctx, s)
	case string(path) == "/v2/stats/self":
		h.selfStats(ctx, s)
	case string(path) == "/v2/stats/leader":
		h.leaderStats(ctx, s)
	case below(path, authPrefix):
		h.noAuth(ctx, s)
	default:
		plain(ctx, fasthttp.StatusNotFound, "404 page not found\n")
	}
	return nil
}

// below reports whether path is prefix or lies below it.
func below(path, prefix []byte) bool {
	return bytes.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}

func trimSlash(b []byte) []byte {
	b = bytes.TrimPrefix(b, []byte("/"))
	return bytes.TrimSuffix(b, []byte("/"))
}

// allow answers 405 unless the request's method is in methods, a list with commas.
func allow(ctx *fasthttp.RequestCtx, methods string) bool {
	m := ctx.Method()
	for rest := methods; rest != ""; {
		var one string
		if i := indexComma(rest); i >= 0 {
			one, rest = rest[:i], rest[i+1:]
		} else {
			one, rest = rest, ""
		}
		if one == string(m) {
			return true
		}
	}
	ctx.Response.Header.Set("Allow", methods)
	plain(ctx, fasthttp.StatusMethodNotAllowed, "Method Not Allowed\n")
	return false
}

func indexComma(s string) int {
	for i := range len(s) {
		if s[i] == ',' {
			return i
		}
	}
	return -1
}

// bounded returns the context a request waits for the log under, which is shared (deadline.Shared).
func (h *Handler) bounded() context.Context { return h.deadline.Context(time.Now()) }
