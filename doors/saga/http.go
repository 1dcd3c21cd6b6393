package saga

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/internal/browser"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/port"
)

// prefix is where DTM has its paths, ownPrefix where those are that it does not have.
const (
	prefix    = "/api/dtmsvr/"
	ownPrefix = "/api/holdfast/"
)

// endpoint is one path.
type endpoint struct {
	method  string // "": any
	name    string // in metrics
	open    bool   // every client is answered
	changes bool   // by GET too: DTM's subscribe, for example
	run     func(d *Door, q *ask, in *input) (any, error)
}

// input is an HTTP request. Its memory belongs to the request.
type input struct {
	args *fasthttp.Args
	body []byte
	rest string // of the path, behind the endpoint
}

// get implements params.
func (in *input) get(name string) string { return string(in.args.Peek(name)) }

// request is the body's request about a transaction.
func (d *Door) request(in *input) (*request, error) {
	began := d.opts.Steps.Decode.Begin()
	defer d.opts.Steps.Decode.End(began)
	return readRequest(in.body)
}

// about makes an endpoint's run of a function for the transaction in the body. nil is answered as SUCCESS.
func about(do func(d *Door, q *ask, r *request) error) func(*Door, *ask, *input) (any, error) {
	return func(d *Door, q *ask, in *input) (any, error) {
		r, err := d.request(in)
		if err == nil {
			err = r.plain()
		}
		if err == nil {
			err = do(d, q, r)
		}
		return nil, err
	}
}

// looking makes an endpoint's run of what only looks at parameters.
func looking(do func(d *Door, q *ask, p params) (any, error)) func(*Door, *ask, *input) (any, error) {
	return func(d *Door, q *ask, in *input) (any, error) { return do(d, q, in) }
}

// endpoints are the paths that are whole, by path.
var endpoints = func() map[string]*endpoint {
	register := func(d *Door, q *ask, in *input) (any, error) {
		r, err := readRegistration(in.body)
		if err == nil {
			err = d.registerBranch(q, r)
		}
		return nil, err
	}
	all := map[string]*endpoint{
		"/api/ping": {open: true, run: func(*Door, *ask, *input) (any, error) { return map[string]string{"msg": "pong"}, nil }},
		"/api/metrics": {method: "GET", open: true, run: func(d *Door, _ *ask, _ *input) (any, error) {
			return d.metrics(), nil
		}},
		"/api/json-rpc": {method: "POST", changes: true, run: func(d *Door, q *ask, in *input) (any, error) { return d.jsonRPC(q, in.body), nil }},
		prefix + "version": {method: "GET", open: true, run: func(d *Door, _ *ask, _ *input) (any, error) {
			return map[string]string{"version": d.opts.Version}, nil
		}},
		prefix + "newGid": {method: "GET", run: func(_ *Door, q *ask, _ *input) (any, error) {
			q.over = true // it tells nothing of the log
			return map[string]string{"dtm_result": wordSuccess, "gid": newGid()}, nil
		}},
		prefix + "prepare":           {method: "POST", changes: true, run: about((*Door).prepare)},
		prefix + "submit":            {method: "POST", changes: true, run: about((*Door).submit)},
		prefix + "abort":             {method: "POST", changes: true, run: about((*Door).abort)},
		prefix + "forceStop":         {method: "POST", changes: true, run: about((*Door).forceStop)},
		prefix + "resetNextCronTime": {method: "POST", changes: true, run: about((*Door).resetNextCronTime)},
		prefix + "registerBranch":    {method: "POST", changes: true, run: register},
		prefix + "registerXaBranch":  {method: "POST", changes: true, run: register},
		prefix + "registerTccBranch": {method: "POST", changes: true, run: register},
		prefix + "prepareWorkflow": {method: "POST", changes: true, run: func(d *Door, q *ask, in *input) (any, error) {
			r, err := d.request(in)
			if err == nil {
				err = r.plain()
			}
			if err != nil {
				return nil, err
			}
			return d.prepareWorkflow(q, r)
		}},
		prefix + "query":         {method: "GET", run: looking((*Door).query)},
		prefix + "all":           {method: "GET", run: looking((*Door).all)},
		prefix + "scanKV":        {method: "GET", run: looking((*Door).scanKV)},
		prefix + "queryKV":       {method: "GET", run: looking((*Door).queryKV)},
		prefix + "resetCronTime": {method: "GET", changes: true, run: looking((*Door).resetCronTime)},
		prefix + "subscribe": {method: "GET", changes: true, run: func(d *Door, q *ask, in *input) (any, error) {
			return nil, d.subscribe(q, in.get("topic"), in.get("url"), in.get("remark"))
		}},
		prefix + "unsubscribe": {method: "GET", changes: true, run: func(d *Door, q *ask, in *input) (any, error) {
			return nil, d.unsubscribe(q, in.get("topic"), in.get("url"))
		}},
		ownPrefix + "all":   {method: "GET", run: looking((*Door).allTried)},
		ownPrefix + "query": {method: "GET", run: looking((*Door).queryTried)},
		ownPrefix + "submit": {method: "POST", changes: true, run: func(d *Door, q *ask, in *input) (any, error) {
			r, err := d.request(in)
			if err != nil {
				return nil, err
			}
			return d.submitBeside(q, r)
		}},
	}
	for path, e := range all { // any order: each is named by itself
		e.name = strings.ToLower(path[strings.LastIndexByte(path, '/')+1:])
		if strings.HasPrefix(path, ownPrefix) {
			e.name = "holdfast-" + e.name
		}
	}
	return all
}()

// topicPath is followed by the name of a topic.
const topicPath = prefix + "topic/"

var topicEndpoint = &endpoint{method: "DELETE", name: "topic", changes: true, run: func(d *Door, q *ask, in *input) (any, error) {
	return nil, d.dropTopic(q, in.rest)
}}

// watchPaths answer with a stream of events.
var watchPaths = map[string]bool{"/watch": true, ownPrefix + "watch": true}

// http1 answers an HTTP/1.1 request.
func (d *Door) http1(ctx *fasthttp.RequestCtx) {
	path, _, _ := bytes.Cut(ctx.Request.Header.RequestURI(), []byte("?"))
	if len(path) == 0 || path[0] != '/' { // the absolute form that proxies use
		path = ctx.URI().PathOriginal()
	}
	method := string(ctx.Method())
	in := &input{args: ctx.QueryArgs(), body: ctx.Request.Body()}
	e := endpoints[string(path)]
	if rest, ok := bytes.CutPrefix(path, []byte(topicPath)); ok {
		e = topicEndpoint
		if name, err := url.PathUnescape(string(rest)); err == nil {
			in.rest = name
		}
	}
	watch := watchPaths[string(path)]
	if !d.mayAsk(ctx, method, e) {
		return
	}
	switch {
	case watch && method == "GET":
		d.adapted(ctx)
	case e == nil || e.method != "" && e.method != method:
		plain(ctx, http.StatusNotFound, "404 page not found")
	default:
		began := time.Now()
		code := d.run(ctx, e, in)
		d.meters.http[e.name].done(began, code < 400)
	}
}

// run answers a request to an endpoint and returns the status.
func (d *Door) run(ctx *fasthttp.RequestCtx, e *endpoint, in *input) int {
	q := askOf(ctx)
	var v any
	var err error
	if !e.open {
		err = d.admit(q)
	}
	if err == nil {
		v, err = e.run(d, q, in)
		v, err = d.gate(q, v, err)
	}
	if err == nil {
		err = d.answer(ctx, v)
	}
	if err == nil {
		return http.StatusOK
	}
	f := broken(err)
	switch f.code {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		ctx.Response.Header.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	}
	document(ctx, f.code, f.body())
	return f.code
}

var successBody = []byte(`{"dtm_result":"SUCCESS"}`)

// answer writes a success.
func (d *Door) answer(ctx *fasthttp.RequestCtx, v any) error {
	switch v := v.(type) {
	case nil:
		document(ctx, http.StatusOK, successBody)
		return nil
	case *Metrics:
		ctx.SetStatusCode(http.StatusOK)
		ctx.SetContentType("text/plain; version=0.0.4; charset=utf-8")
		ctx.Response.SetBodyRaw(v.b)
		return nil
	case *pageStream:
		return v.send(ctx)
	}
	began := d.opts.Steps.Reply.Begin()
	b, err := json.Marshal(v)
	d.opts.Steps.Reply.End(began)
	if err != nil {
		return err
	}
	document(ctx, http.StatusOK, b)
	return nil
}

const jsonType = "application/json; charset=utf-8"

// document writes JSON.
func document(ctx *fasthttp.RequestCtx, code int, b []byte) {
	ctx.SetStatusCode(code)
	ctx.SetContentType(jsonType)
	ctx.Response.SetBodyRaw(b)
}

func plain(ctx *fasthttp.RequestCtx, code int, text string) {
	ctx.SetStatusCode(code)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text)
}

// mayAsk answers pages in browsers that may not ask, and questions whether they may; it reports whether the request is to be answered.
func (d *Door) mayAsk(ctx *fasthttp.RequestCtx, method string, e *endpoint) bool {
	h := &ctx.Request.Header
	origin := string(h.Peek("Origin"))
	if allowed := d.allowed(origin); allowed != "" {
		ctx.Response.Header.Set("Access-Control-Allow-Origin", allowed)
		ctx.Response.Header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
		ctx.Response.Header.Set("Access-Control-Allow-Headers", "accept, content-type, authorization, kv-authorization, holdfast-ack")
	}
	if method == "OPTIONS" {
		ctx.SetStatusCode(http.StatusNoContent)
		return false
	}
	b := browser.Request{Method: method, Host: string(h.Host()), Origin: origin, Site: string(h.Peek("Sec-Fetch-Site")), Local: ctx.LocalAddr(),
		TLS: ctx.IsTLS() || ctx.RemoteAddr().Network() == port.InProcess} // HTTP/2 is always inside TLS
	if e != nil && e.changes {
		b.Method = "POST"
	}
	why := browser.Refusal(&b, d.opts.CORS)
	if why != "" {
		plain(ctx, http.StatusForbidden, why+"\n")
	}
	return why == ""
}

// allowed is what to allow of an origin, "" for nothing.
func (d *Door) allowed(origin string) string {
	for _, o := range d.opts.CORS {
		if o == "*" || o == origin && origin != "" {
			return o
		}
	}
	return ""
}

// askOf is a request over HTTP/1.1 with its sender.
func askOf(ctx *fasthttp.RequestCtx) *ask {
	h := &ctx.Request.Header
	var state *tls.ConnectionState
	if ctx.IsTLS() {
		state = ctx.TLSConnectionState()
	}
	return &ask{acked: acked{asked: string(h.Peek(ack.Header))}, Caller: Caller{Host: port.Host(ctx), Authorization: string(h.Peek("Authorization")), KVAuthorization: string(h.Peek("Kv-Authorization")),
		TLS: state}, gone: func() <-chan struct{} { return port.Gone(ctx) }}
}
