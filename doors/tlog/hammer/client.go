package hammer

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// answerTime is how long one request may take, within a second.
	answerTime = 30 * time.Second
	// maxAnswer is the most an answer may have: a bundle of 256 entries of the longest kind.
	maxAnswer = 256 * (2 + 65535)
	// longestRefusal is the most a Retry-After is obeyed.
	longestRefusal = 5 * time.Second
	// idleTime is how long a connection that nothing was sent over is trusted. Servers close idle connections, and a request sent over one
	// at that moment may or may not have arrived.
	idleTime = 5 * time.Second
)

// client is one connection to the log. It belongs to one goroutine.
//
// It writes its requests itself, since those of one writer differ only in their entries. It reads answers with fasthttp, since those come
// in every form HTTP has. An HTTP client with a pool of connections, address parsing and a timer per request costs as much as the measured
// server.
type client struct {
	addr   string // to connect to
	tls    *tls.Config
	path   string // of the log, without a slash at the end
	header string // of every request
	bearer string // of every add, "" = none

	conn     net.Conn // nil: none is open
	in       *bufio.Reader
	deadline time.Time // that conn has
	used     time.Time // when conn was asked last
	request  []byte
	head     int // bytes of request that come before the entry; 0 if request is no add
	res      fasthttp.Response
}

// newClient takes options that Check has accepted.
func newClient(o *Options) *client {
	u, err := url.Parse(o.URL)
	if err != nil {
		panic("hammer: a URL that was not checked: " + err.Error())
	}
	c := &client{addr: u.Host, path: strings.TrimSuffix(u.EscapedPath(), "/"), header: " HTTP/1.1\r\nHost: " + u.Host + "\r\n"}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		c.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if o.TLS != nil {
			c.tls = o.TLS.Clone()
		}
		c.tls.ServerName = u.Hostname()
	}
	if o.Token != "" {
		c.bearer = "Authorization: Bearer " + o.Token + "\r\n"
	}
	if u.Port() == "" {
		c.addr = net.JoinHostPort(u.Hostname(), port)
	}
	return c
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // no answer is expected on it any more
		c.conn = nil
	}
}

// do sends the request and reads the answer into res. A request is never repeated silently, because that could add an entry
// more than was counted.
func (c *client) do() error {
	now := time.Now()
	if c.conn != nil && now.Sub(c.used) > idleTime {
		c.close()
	}
	if c.conn == nil {
		if err := c.dial(); err != nil {
			return err
		}
	}
	// A deadline for each request would be a timer set twice for each.
	if c.deadline.Sub(now) < answerTime {
		c.deadline = now.Add(answerTime + time.Second)
		if err := c.conn.SetDeadline(c.deadline); err != nil {
			c.close()
			return err
		}
	}
	c.used = now
	if _, err := c.conn.Write(c.request); err != nil {
		c.close()
		return err
	}
	if err := c.res.ReadLimitBody(c.in, maxAnswer); err != nil {
		c.close()
		return err
	}
	if c.res.ConnectionClose() {
		c.close()
	}
	return nil
}

func (c *client) dial() error {
	d := net.Dialer{Timeout: answerTime}
	var err error
	if c.tls != nil {
		c.conn, err = tls.DialWithDialer(&d, "tcp", c.addr, c.tls)
	} else {
		c.conn, err = d.Dial("tcp", c.addr)
	}
	if err != nil {
		c.conn = nil
		return err
	}
	c.deadline = time.Time{}
	if c.in == nil {
		c.in = bufio.NewReader(c.conn)
	}
	c.in.Reset(c.conn)
	return nil
}

// get reads a resource of the log.
func (c *client) get(path string) ([]byte, error) {
	c.request, c.head = append(c.request[:0], "GET "+c.path+"/"+path+c.header+"\r\n"...), 0
	if err := c.do(); err != nil {
		return nil, fmt.Errorf("get %s: %w", path, err)
	}
	if code := c.res.StatusCode(); code != fasthttp.StatusOK {
		return nil, fmt.Errorf("get %s: status %d", path, code)
	}
	return bytes.Clone(c.res.Body()), nil
}

// add sends an entry; all entries of one client must be of one length. If again is above 0 the log has refused the entry: it is not in the
// log and may be sent again after that time. After an error the outcome is not known.
func (c *client) add(entry []byte) (index uint64, again time.Duration, err error) {
	if c.head == 0 {
		c.request = fmt.Appendf(c.request[:0], "POST %s/add%s%sContent-Length: %d\r\n\r\n", c.path, c.header, c.bearer, len(entry))
		c.head = len(c.request)
	}
	c.request = append(c.request[:c.head], entry...)
	if err := c.do(); err != nil {
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
	default: // 502 and 504 among them: a proxy does not know the outcome
		return 0, 0, fmt.Errorf("add: status %d: %s", code, short(body))
	}
}

// short is as much of an answer as fits a line.
func short(b []byte) string {
	return strings.TrimSpace(string(b[:min(len(b), 120)]))
}
