package outcall

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxURL bounds a URL, in bytes: the common limit of servers, and ten times DTM's store's.
const maxURL = 8 << 10

// target is where a URL leads, taken apart and judged as far as words can be.
type target struct {
	scheme string     // http, https or grpc
	host   string     // a name as hostName gives it, or the text of addr
	addr   netip.Addr // if the URL has an address instead of a name
	port   uint16
	// authority is the value of the Host header. path is the target in the request line: path and query, escaped; for gRPC
	// /pkg.Service/Method.
	authority, path string
	// authorization is the value of that header, from a name and password in the URL.
	authorization string
}

// endpoint is what limits and breaker are kept for.
func (t *target) endpoint() string {
	return t.scheme + "://" + net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))
}

// isHTTP reports whether the URL says by itself that it is called over HTTP.
func isHTTP(raw string) bool {
	scheme, _, ok := strings.Cut(raw, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// parseHTTP takes an http:// or https:// URL apart.
func parseHTTP(raw string) (t target, err error) {
	if len(raw) > maxURL {
		return t, fmt.Errorf("the URL has %d bytes, more than %d", len(raw), maxURL)
	}
	if !strings.Contains(raw, "://") {
		return t, errors.New("the URL does not begin with http:// or https://, as one that is called over HTTP does")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return t, fmt.Errorf("the URL cannot be read: %w", err)
	}
	switch {
	case u.Scheme == "http":
		t.port = 80
	case u.Scheme == "https":
		t.port = 443
	default:
		return t, fmt.Errorf("a URL that begins with %q is not called, only http and https are", cut(u.Scheme, 32))
	}
	t.scheme = u.Scheme
	if u.Opaque != "" || u.Host == "" {
		return t, errors.New("the URL names no host")
	}
	named := u.Port() != ""
	if named {
		if t.port, err = parsePort(u.Port()); err != nil {
			return t, err
		}
	}
	if err := t.setHost(u.Hostname()); err != nil {
		return t, err
	}
	t.setAuthority(named)
	if u.User != nil {
		password, _ := u.User.Password()
		t.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	t.path = u.EscapedPath()
	if !strings.HasPrefix(t.path, "/") {
		t.path = "/" + t.path
	}
	if u.RawQuery != "" {
		t.path += "?" + escapeQuery(u.RawQuery)
	}
	return t, nil
}

// parseGRPC takes host:port/pkg.Service/Method apart. Nothing that a gRPC library would look up or dial in another way gets through.
func parseGRPC(raw string) (t target, err error) {
	if len(raw) > maxURL {
		return t, fmt.Errorf("the URL has %d bytes, more than %d", len(raw), maxURL)
	}
	if scheme, _, ok := strings.Cut(raw, "://"); ok {
		return t, fmt.Errorf("a URL that begins with %q is not called; for gRPC it is host:port/pkg.Service/Method", cut(scheme, 32)+"://")
	}
	at := strings.IndexByte(raw, '/')
	if at < 0 {
		return t, errors.New("the URL names no method; for gRPC it is host:port/pkg.Service/Method")
	}
	host, port, err := net.SplitHostPort(raw[:at])
	if err != nil {
		return t, fmt.Errorf("the URL does not begin with host:port, as one for gRPC does: %w", err)
	}
	if t.port, err = parsePort(port); err != nil {
		return t, err
	}
	if err := t.setHost(host); err != nil {
		return t, err
	}
	t.setAuthority(true)
	t.scheme, t.path = "grpc", raw[at:]
	service, method, ok := strings.Cut(t.path[1:], "/")
	if !ok || service == "" || method == "" {
		return t, errors.New("the URL names no method; for gRPC it is host:port/pkg.Service/Method")
	}
	for i := range len(t.path) {
		if c := t.path[i]; c <= ' ' || c > '~' {
			return t, errors.New("the method in the URL has letters other than ASCII's")
		}
	}
	return t, nil
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is no port: it is a number from 1 to 65535", cut(s, 32))
	}
	return uint16(n), nil
}

func (t *target) setHost(s string) (err error) {
	if t.addr, err = netip.ParseAddr(s); err == nil {
		t.host = t.addr.String()
		return nil
	}
	t.addr = netip.Addr{}
	if strings.ContainsAny(s, ":%") {
		return fmt.Errorf("%q is no address", cut(s, 64))
	}
	t.host, err = hostName(s)
	return err
}

// setAuthority says whom a service hears that it is called as.
func (t *target) setAuthority(withPort bool) {
	t.authority = t.host
	if t.addr.Is6() {
		t.authority = "[" + t.addr.WithZone("").String() + "]" // a zone means something here and nothing there
	}
	if withPort {
		t.authority += ":" + strconv.Itoa(int(t.port))
	}
}

// escapeQuery escapes characters that may not stand in a request line. Escaped and all other characters stay as they are.
func escapeQuery(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	done := 0
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			b.WriteString(s[done:i])
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
			done = i + 1
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// withArgs is the path with the arguments that tell a service what the call is of, behind those it has.
func withArgs(path string, r *Request) string {
	var b strings.Builder
	b.Grow(len(path) + len(r.BranchID) + len(r.Gid) + len(r.Op) + len(r.Mode) + 64)
	b.WriteString(path)
	if strings.IndexByte(path, '?') < 0 {
		b.WriteByte('?')
	} else {
		b.WriteByte('&')
	}
	b.WriteString("branch_id=")
	b.WriteString(url.QueryEscape(r.BranchID))
	b.WriteString("&gid=")
	b.WriteString(url.QueryEscape(r.Gid))
	b.WriteString("&op=")
	b.WriteString(url.QueryEscape(r.Op))
	b.WriteString("&trans_type=")
	b.WriteString(url.QueryEscape(r.Mode))
	return b.String()
}
