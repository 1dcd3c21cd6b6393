// Package browser tells a web page's hidden requests from those of programs. Such a page belongs to another site and writes to a server on
// the reader's machine or network. Or it made its own name resolve to loopback, and so reads as well. It decides by header fields that
// every browser sends and no page can change. It is no authentication: requests of programs pass.
package browser

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Request holds the parts of a request that the decision depends on. Host and the others are header fields, "" where there is
// none.
type Request struct {
	Method, Host, Origin string
	// Site is Sec-Fetch-Site.
	Site string
	// Local is the address the request came to. TLS: it came encrypted, so under a name this server has a certificate for.
	Local net.Addr
	TLS   bool
}

// The refusals.
const (
	CrossSite = "a page of another site may not write here; allow its origin with --cors"
	Rebound   = "this address answers to localhost and addresses only; use one of them, or allow every name with --cors '*'"
)

// Refusal says why r is not answered, "" if it is. allowed lists origins whose pages may ask, "*" for all.
func Refusal(r *Request, allowed []string) string {
	if slices.Contains(allowed, "*") {
		return ""
	}
	if !r.TLS && loopback(r.Local) && !plainHost(r.Host) {
		return Rebound
	}
	switch {
	case r.Method == "GET" || r.Method == "HEAD" || r.Method == "OPTIONS": // they change nothing, and the page does not see the answer
		return ""
	case r.Origin != "" && slices.Contains(allowed, r.Origin):
		return ""
	case r.Site == "same-origin" || r.Site == "none":
		return ""
	case r.Site == "" && (r.Origin == "" || sameHost(r.Origin, r.Host)): // an older browser, or a program
		return ""
	}
	return CrossSite
}

func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// plainHost reports whether a Host field names no host that an attacker could make resolve to loopback.
func plainHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "" || strings.EqualFold(host, "localhost") { // without a name nothing was resolved
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
