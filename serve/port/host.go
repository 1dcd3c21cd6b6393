package port

import (
	"net"

	"github.com/valyala/fasthttp"
)

// InProcess is the network of a connection within this process (net.Pipe), over which the JSON gateway calls.
const InProcess = "pipe"

// Host returns the address an HTTP request came from, without its port; of a socket file, the system's name for it. For a request through a
// Bridge it is the address of the HTTP/2 connection. Safe for concurrent use.
func Host(ctx *fasthttp.RequestCtx) string {
	if a := ctx.RemoteAddr(); a.Network() != InProcess {
		return HostOf(a)
	}
	return string(ctx.Request.Header.Peek("X-Forwarded-For")) // the Bridge has written it
}

// HostOf is an address without its port.
func HostOf(a net.Addr) string {
	s := a.String()
	if host, _, err := net.SplitHostPort(s); err == nil {
		return host
	}
	return s
}

// remote is the origin of a request, in net/http's form. The port of a request through a Bridge is unknown.
func remote(ctx *fasthttp.RequestCtx) string {
	a := ctx.RemoteAddr()
	if a.Network() != InProcess {
		return a.String()
	}
	return net.JoinHostPort(Host(ctx), "0")
}
