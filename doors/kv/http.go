package kv

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/doors/kv/gateway"
	"github.com/holdfastdb/holdfast/internal/browser"
	"github.com/holdfastdb/holdfast/serve/port"
)

// web is everything on the port that is not gRPC: its permissions, and the handler of each path.
type web struct {
	cors, hosts []string // "*" stands for any; none: no origin is allowed, and any host will do
	v2          fasthttp.RequestHandler
	rest        http.Handler            // the gateway and ops
	adapted     fasthttp.RequestHandler // rest, for HTTP/1.1
	bridge      http.Handler            // v2, for HTTP/2
	conn        *grpc.ClientConn        // from the gateway to this process's own gRPC server
	// named reports whether client certificates name users at present, which the gateway cannot pass on; nil: they never do.
	named func() bool
}

// valuesOfAnOp is the number of JSON values of a Txn's operation with most fields given, including the objects around them. leastOps is the
// number of operations with room if no list of a Txn may have as many.
const valuesOfAnOp, leastOps = 8, 1024

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
		// The gateway's client has no limits of its own: the server's apply.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		panic(err) // its arguments are constants
	}
	w.conn = conn
	gw, err := gateway.New(w.conn, valuesOfAnOp*max(leastOps, 3*d.opts.MaxTxnOps))
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
		if d.opts.ClientCertAuth {
			w.named = func() bool { on, _ := d.Catalogue(); return on }
		}
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
	if why := w.refusal(ctx); why != "" {
		ctx.Error(why+"\n", fasthttp.StatusForbidden)
		return
	}
	if w.named != nil && forGateway(string(ctx.Path())) && w.named() && showsName(ctx.TLSConnectionState()) {
		ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetStatusCode(fasthttp.StatusBadRequest)
		ctx.SetBodyString(nameIgnored + "\n")
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

// refusal returns why a request about keys is not answered to a page in a browser, "" if it is.
func (w *web) refusal(ctx *fasthttp.RequestCtx) string {
	if path := ctx.Path(); !bytes.HasPrefix(path, []byte(v2Prefix)) && !forGateway(string(path)) {
		return ""
	}
	h := &ctx.Request.Header
	r := browser.Request{Method: string(h.Method()), Host: string(h.Host()), Origin: string(h.Peek("Origin")), Site: string(h.Peek("Sec-Fetch-Site")),
		Local: ctx.LocalAddr(), TLS: ctx.IsTLS() || len(w.hosts) > 0} // with a whitelist the name was checked before
	return browser.Refusal(&r, w.cors)
}

// ServeHTTP answers a request of HTTP/2, which is always inside TLS.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, v2Prefix) || forGateway(r.URL.Path) {
		b := browser.Request{Method: r.Method, Host: r.Host, Origin: r.Header.Get("Origin"), Site: r.Header.Get("Sec-Fetch-Site"), TLS: true}
		if why := browser.Refusal(&b, w.cors); why != "" {
			http.Error(rw, why, http.StatusForbidden)
			return
		}
	}
	if strings.HasPrefix(r.URL.Path, v2Prefix) {
		w.bridge.ServeHTTP(rw, r)
		return
	}
	if w.named != nil && forGateway(r.URL.Path) && w.named() && showsName(r.TLS) {
		http.Error(rw, nameIgnored, http.StatusBadRequest)
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

// nameIgnored is etcd's, word for word.
const nameIgnored = "CommonName of client sending a request against gateway will be ignored and not used as expected"

// forGateway reports whether the gateway would answer a path, or would say that it knows no such call.
func forGateway(path string) bool {
	return slices.ContainsFunc(gateway.Prefixes, func(p string) bool { return strings.HasPrefix(path, p) })
}

// showsName reports whether a client's certificate names a user. The gateway's own calls do not carry the certificate, so its client would
// be taken for no user or for the owner of its token. As in etcd it is told so instead.
func showsName(state *tls.ConnectionState) bool {
	if state == nil {
		return false
	}
	return slices.ContainsFunc(state.VerifiedChains, func(chain []*x509.Certificate) bool {
		return len(chain) > 0 && chain[0].Subject.CommonName != ""
	})
}

// The permissions of a page of another, allowed origin; etcd's words.
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

// knows reports whether this server may be called by the name in a Host header. A web page can make a name of its own resolve
// to this machine, but cannot make the browser send another name.
func (w *web) knows(host string) bool {
	u := url.URL{Host: host}
	return slices.Contains(w.hosts, "*") || slices.Contains(w.hosts, u.Hostname())
}
