package outcall

import (
	"errors"
	"fmt"
	"strings"
)

// prepare makes of the request what is sent first, and judges what can be judged before a place is taken. The error is for Refused.
func (c *call) prepare() (err error) {
	r := c.req
	switch r.Protocol {
	case "", HTTP, GRPC, JSONRPC:
	default:
		return fmt.Errorf("%q is no protocol: there are http, grpc and json-rpc", cut(r.Protocol, 32))
	}
	c.body = r.Payload
	overHTTP := r.Protocol == "" || r.Protocol == HTTP || isHTTP(r.URL)
	if overHTTP {
		if c.target, err = parseHTTP(r.URL); err != nil {
			return err
		}
		c.method = "GET"
		if len(r.Payload) > 0 || r.Post {
			c.method = "POST"
		}
		if r.Protocol == JSONRPC && strings.Contains(r.URL, "method") {
			c.jsonRPC, c.method = true, "POST"
			if c.body, err = jsonRPCBody(r); err != nil {
				return err
			}
		} else if r.Gid != "" {
			c.target.path = withArgs(c.target.path, r)
		}
	} else {
		if c.target, err = parseGRPC(r.URL); err != nil {
			return err
		}
		for _, s := range []string{r.Gid, r.Mode, r.BranchID, r.Op} {
			if !printable(s) {
				return fmt.Errorf("%q cannot be told over gRPC, whose metadata is printable ASCII", cut(s, 64))
			}
		}
	}
	if err := checkHeaders(r.Headers, !overHTTP); err != nil {
		return err
	}
	if r := c.net.judge.target(&c.target); r != nil {
		return r
	}
	return nil
}

// framing are the headers that say where a message begins and ends, for whom it is and how it is sent on. They are ours.
var framing = map[string]bool{
	"host": true, "connection": true, "content-length": true, "transfer-encoding": true, "trailer": true, "te": true, "upgrade": true,
	"expect": true, "keep-alive": true, "proxy-connection": true, "accept-encoding": true,
}

// checkHeaders returns the fault of headers that cannot be sent as they are. They would begin a line of their own, or a request.
func checkHeaders(all []Header, grpc bool) error {
	for _, h := range all {
		if !token(h.Name) {
			return fmt.Errorf("%q cannot be the name of a header", cut(h.Name, 64))
		}
		if grpc && strings.HasSuffix(strings.ToLower(h.Name), "-bin") {
			continue // any bytes: the library encodes them
		}
		for i := range len(h.Value) {
			if c := h.Value[i]; c < ' ' && c != '\t' || c == 0x7f {
				return fmt.Errorf("the value of the header %s has a line break or another control character in it", cut(h.Name, 64))
			}
		}
		if grpc && !printable(h.Value) {
			return fmt.Errorf("the value of the header %s cannot be told over gRPC, whose metadata is printable ASCII", cut(h.Name, 64))
		}
	}
	return nil
}

// token reports whether s can be the name of a header.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			continue
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

var errNotObject = errors.New("the payload of a JSON-RPC call is a JSON object, or empty")
