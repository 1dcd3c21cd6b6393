package hammer

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// answerTime is how long one request may take.
	answerTime = 30 * time.Second
	// maxAnswer is the most an answer may have: a bundle of 256 entries of the longest kind.
	maxAnswer = 256 * (2 + 65535)
	// longestRefusal is the most a Retry-After is obeyed.
	longestRefusal = 5 * time.Second
)

// client is one connection to the log. It belongs to one goroutine.
type client struct {
	base string
	http fasthttp.HostClient
	req  fasthttp.Request
	res  fasthttp.Response
}

// newClient takes a URL that Options.check has accepted.
func newClient(base string) *client {
	u, err := url.Parse(base)
	if err != nil {
		panic("hammer: a URL that was not checked: " + err.Error())
	}
	addr, secure := u.Host, u.Scheme == "https"
	if u.Port() == "" {
		addr += map[bool]string{false: ":80", true: ":443"}[secure]
	}
	c := &client{base: strings.TrimSuffix(base, "/")}
	c.http = fasthttp.HostClient{
		Addr: addr, IsTLS: secure, MaxConns: 1, ReadTimeout: answerTime, WriteTimeout: answerTime, MaxResponseBodySize: maxAnswer,
		MaxIdemponentCallAttempts: 1, // nothing is sent twice unseen: it would be an entry more than was counted
	}
	if secure {
		c.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// get reads a resource of the log.
func (c *client) get(path string) ([]byte, error) {
	c.req.Reset()
	c.req.SetRequestURI(c.base + "/" + path)
	if err := c.http.Do(&c.req, &c.res); err != nil {
		return nil, fmt.Errorf("get %s: %w", path, err)
	}
	if code := c.res.StatusCode(); code != fasthttp.StatusOK {
		return nil, fmt.Errorf("get %s: status %d", path, code)
	}
	return bytes.Clone(c.res.Body()), nil
}

// add sends an entry. Where again is above 0 the log has refused it, it is not in the log and may be sent again after that
// time; after an error nobody knows.
func (c *client) add(entry []byte) (index uint64, again time.Duration, err error) {
	c.req.Reset()
	c.req.Header.SetMethod(fasthttp.MethodPost)
	c.req.SetRequestURI(c.base + "/add")
	c.req.SetBodyRaw(entry)
	if err := c.http.Do(&c.req, &c.res); err != nil {
		return 0, 0, fmt.Errorf("add: %w", err)
	}
	body := c.res.Body()
	switch code := c.res.StatusCode(); code {
	case fasthttp.StatusOK:
		line, _, _ := bytes.Cut(body, []byte("\n"))
		if index, err = strconv.ParseUint(string(line), 10, 64); err != nil {
			return 0, 0, fmt.Errorf("add: answered %q, no index", short(body))
		}
		return index, 0, nil
	case fasthttp.StatusTooManyRequests, fasthttp.StatusServiceUnavailable:
		again = time.Second
		if n, err := strconv.Atoi(string(c.res.Header.Peek("Retry-After"))); err == nil && n >= 0 {
			again = max(min(time.Duration(n)*time.Second, longestRefusal), 10*time.Millisecond)
		}
		return 0, again, nil
	default: // 502 and 504 among them: a proxy does not know what became of the entry
		return 0, 0, fmt.Errorf("add: status %d: %s", code, short(body))
	}
}

// short is as much of an answer as fits a line.
func short(b []byte) string {
	return strings.TrimSpace(string(b[:min(len(b), 120)]))
}
