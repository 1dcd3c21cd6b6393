package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// client submits transactions over one connection that it keeps. It belongs to one goroutine.
type client struct {
	http fasthttp.HostClient
	req  *fasthttp.Request
	res  *fasthttp.Response
	body []byte
}

func newClient() *client {
	c := &client{req: fasthttp.AcquireRequest(), res: fasthttp.AcquireResponse()}
	c.http = fasthttp.HostClient{Addr: address, MaxConns: 1, NoDefaultUserAgentHeader: true, MaxIdemponentCallAttempts: 1}
	c.req.SetRequestURI(api + "submit")
	c.req.Header.SetMethod(fasthttp.MethodPost)
	c.req.Header.SetContentType("application/json")
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// transaction is what a client submits.
type transaction struct {
	gid     string
	kind    string      // saga or msg
	steps   [][2]string // URLs of action and compensation, of which a msg has none
	wait    bool        // for its end
	timeout int         // of a call, in seconds; 0: the coordinator's own
	delay   int         // of a msg, in seconds
}

// append writes the transaction as DTM's Go client does.
func (t *transaction) append(b []byte) []byte {
	b = append(b, `{"gid":"`...)
	b = append(b, t.gid...)
	b = append(b, `","trans_type":"`...)
	b = append(b, t.kind...)
	b = append(b, '"')
	if t.delay > 0 {
		b = append(b, `,"custom_data":"{\"delay\":`...)
		b = strconv.AppendInt(b, int64(t.delay), 10)
		b = append(b, `}"`...)
	}
	if t.wait {
		b = append(b, `,"wait_result":true`...)
	}
	if t.timeout > 0 {
		b = append(b, `,"request_timeout":`...)
		b = strconv.AppendInt(b, int64(t.timeout), 10)
	}
	b = append(b, `,"concurrent":false,"steps":[`...)
	for i, s := range t.steps {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"action":"`...)
		b = append(b, s[0]...)
		if t.kind == "saga" {
			b = append(b, `","compensate":"`...)
			b = append(b, s[1]...)
		}
		b = append(b, `"}`...)
	}
	b = append(b, `],"payloads":[`...)
	b = append(b, strings.Repeat(`,"{}"`, len(t.steps))[1:]...)
	return append(b, `],"protocol":""}`...)
}

// submitTime is how long an answer may take.
const submitTime = 30 * time.Second

var errAnswer = errors.New("neither a success nor a failure")

// submit sends a transaction and reports whether it was accepted, or with wait whether it was done; false: it was undone.
func (c *client) submit(t *transaction) (done bool, err error) {
	c.body = t.append(c.body[:0])
	c.req.SetBodyRaw(c.body)
	if err := c.http.DoTimeout(c.req, c.res, submitTime); err != nil {
		return false, fmt.Errorf("submit %s: %w", t.gid, err)
	}
	body := c.res.Body()
	switch code := c.res.StatusCode(); {
	case code == fasthttp.StatusOK && strings.Contains(string(body), "SUCCESS"):
		return true, nil
	case code == fasthttp.StatusConflict && t.wait && strings.Contains(string(body), "FAILURE"):
		return false, nil
	default:
		return false, fmt.Errorf("submit %s: %w: status %d: %.200s", t.gid, errAnswer, code, body)
	}
}
