package kv

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/door/kv/gateway"
	"github.com/holdfastdb/holdfast/door/kv/port"
)

// web is everything on the port that is not gRPC: who may ask, and who answers which path.
type web struct {
	cors, hosts []string // "*" stands for any; none: nobody is told anything, and any host will do
	v2          fasthttp.RequestHandler
	rest        http.Handler            // the gateway and ops
	adapted     fasthttp.RequestHandler // rest, for HTTP/1.1
	bridge      http.Handler            // v2, for HTTP/2
	conn        *grpc.ClientConn        // from the gateway to this process's own gRPC server
}

const v2Prefix = "/v2/"

// newWeb makes the HTTP half of the door. The port is needed for calls into the door's own gRPC server.
func (d *Door) newWeb() *web {
	w := &web{cors: d.opts.CORS, hosts: d.opts.HostWhitelist, v2: d.opts.V2}
	if w.v2 == nil {
		w.v2 = noV2
	}
	conn, err := grpc.NewClient("passthrough:///holdfast",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d.port.DialGRPC(ctx) }),
		// The door's limits are the server's; what it sends is taken.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		panic(err) // its arguments are constants
	}
	w.conn = conn
	gw, err := gateway.New(w.conn)
	if err != nil {
		panic(err) // as above: it registers generated paths
	}
	mux := http.NewServeMux()
	d.ops.Register(mux)
	if d.opts.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	if !d.opts.NoGateway {
		for _, prefix := range gateway.Prefixes {
			mux.Handle(prefix, gw)
		}
	}
	w.rest = mux
	w.adapted = port.Adapt(w.rest)
	return w
}

// noV2 answers for the v2 API where it is not offered.
func noV2(ctx *fasthttp.RequestCtx) {
	ctx.Error("the v2 API is not served here\n", fasthttp.StatusNotFound)
}

// http1 answers a request of HTTP/1.1.
func (w *web) http1(ctx *fasthttp.RequestCtx) {
	if len(w.hosts) > 0 && !ctx.IsTLS() && !w.knows(string(ctx.Host())) {
		ctx.Error(strangeHost, fasthttp.StatusMisdirectedRequest)
		return
	}
	if len(w.cors) > 0 {
		if origin := w.origin(string(ctx.Request.Header.Peek("Origin"))); origin != "" {
			h := &ctx.Response.Header
			h.Set("Access-Control-Allow-Methods", corsMethods)
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Headers", corsHeaders)
		}
	}
	if ctx.Request.Header.IsOptions() {
		return
	}
	if bytes.HasPrefix(ctx.Path(), []byte(v2Prefix)) {
		w.v2(ctx)
		return
	}
	w.adapted(ctx)
}

// ServeHTTP answers a request of HTTP/2, which is always inside TLS.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, v2Prefix) {
		w.bridge.ServeHTTP(rw, r)
		return
	}
	if len(w.cors) > 0 {
		if origin := w.origin(r.Header.Get("Origin")); origin != "" {
			h := rw.Header()
			h.Set("Access-Control-Allow-Methods", corsMethods)
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Headers", corsHeaders)
		}
	}
	if r.Method == http.MethodOptions {
		return
	}
	w.rest.ServeHTTP(rw, r)
}

// What a page of another origin may do once that origin is allowed at all; etcd's words.
const (
	corsMethods = "POST, GET, OPTIONS, PUT, DELETE"
	corsHeaders = "accept, content-type, authorization"
	strangeHost = "this server does not know itself by the name in the Host header; use TLS, or allow the name with --host-whitelist\n"
)

// origin returns what to allow of an origin, "" for nothing.
func (w *web) origin(origin string) string {
	if slices.Contains(w.cors, "*") {
		return "*"
	}
	if slices.Contains(w.cors, origin) {
		return origin
	}
	return ""
}

// knows reports whether this server goes by the name in a Host header. A page in somebody's browser can make a name of its
// own resolve to this machine; it cannot make the browser send another name.
func (w *web) knows(host string) bool {
	u := url.URL{Host: host}
	return slices.Contains(w.hosts, "*") || slices.Contains(w.hosts, u.Hostname())
}
