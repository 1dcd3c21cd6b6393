package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// hidden is where the request leads that is hidden in another's body.
func hidden(t *target) string {
	return map[string]string{"kv": "/version", "tlog": "/checkpoint", "saga": "/api/dtmsvr/newGid"}[t.port]
}

// ambiguous are heads whose end, or whose body's end, two servers may see differently. %s is the method and path of a POST, and behind each
// comes a request that one of the two takes for a second one. A line feed alone behind the first line is none of them. RFC 9112, section
// 2.2, lets a server take it, and both see the same end.
var ambiguous = []string{
	"%s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	"%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
	"%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
	"%s HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n",
	"%s HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n",
	"%s HTTP/1.1\r\nHost: x\r\nX: a\r\n Content-Length: 50\r\n\r\n",
	"%s HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}

// smuggle hides a request behind the ambiguous end of another, again and again. None may be answered.
func smuggle(ctx context.Context, t *target) (string, error) {
	var sent, answered, next atomic.Int64
	var head atomic.Value
	each(ctx, 16, func() {
		c, err := t.open(ctx)
		if err != nil {
			rest(ctx)
			return
		}
		defer c.Close()
		form := ambiguous[int(next.Add(1))%len(ambiguous)]
		c.SetDeadline(time.Now().Add(3 * time.Second))
		if _, err := fmt.Fprintf(c, form+"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path(t), hidden(t)); err != nil {
			return
		}
		sent.Add(1)
		got, _ := io.ReadAll(c) // a reset is an end too
		if bytes.Count(got, []byte("HTTP/1.1 ")) > 1 || bytes.Contains(got, []byte("HTTP/1.1 200")) {
			answered.Add(1)
			head.Store(form)
		}
		rest(ctx)
	})
	did := fmt.Sprintf("%d requests with a second one inside", sent.Load())
	if n := answered.Load(); n > 0 {
		return did, fmt.Errorf("%d were answered, one of them behind %q", n, head.Load())
	}
	if sent.Load() == 0 {
		return did, errors.New("no request was sent")
	}
	return did, nil
}

// once is a request that is answered, after which the connection is kept.
func once(t *target) ([]string, []byte) {
	at := map[string]string{"admin": "/readyz"}[t.port]
	if at == "" {
		at = hidden(t)
	}
	return nil, []byte("GET " + at + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
}

// halfHTTP2 begins a request over HTTP/2 that is not gRPC, and sends half of its body.
func halfHTTP2(t *target) ([]string, []byte) {
	_, at, _ := strings.Cut(path(t), " ")
	head := bytes.Replace(callHeaders(at), []byte("application/grpc"), []byte("application/json"), 1)
	return []string{"h2"}, appendFrame(appendHeaders(preface(0), 1, head), 0, 0, 1, []byte("{"))
}

// ownPorts submits transactions whose steps are the doors of the cluster itself. Each step writes a key, over HTTP at the kv door, by one
// of the names of this machine. The key must not be there afterwards.
func ownPorts(ctx context.Context, t *target) (string, error) {
	client, base := t.http(ctx)
	_, port, err := net.SplitHostPort(t.addr("kv"))
	if err != nil {
		return "", err
	}
	var steps []string
	for _, scheme := range []string{"http", "https"} {
		for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "[::ffff:127.0.0.1]", "2130706433"} {
			steps = append(steps, fmt.Sprintf(`{"action":"%s://%s:%s/v3/kv/put","compensate":""}`, scheme, host, port))
			steps = append(steps, fmt.Sprintf(`{"action":"%s://%s:%s/v2/keys/stolen","compensate":""}`, scheme, host, port))
		}
	}
	var submitted, next atomic.Int64
	each(ctx, 8, func() {
		i := next.Add(1)
		body := fmt.Sprintf(`{"gid":"own%d","trans_type":"saga","steps":[%s],"payloads":["{\"key\":\"c3RvbGVu\",\"value\":\"YQ==\"}"]}`, i, steps[int(i)%len(steps)])
		if code, err := do(ctx, client, "POST", base+"submit", body); err == nil && code == 200 {
			submitted.Add(1)
		}
		rest(ctx)
	})
	did := fmt.Sprintf("%d transactions were taken", submitted.Load())
	found, err := t.stolen()
	if err == nil && found {
		err = errors.New("a step has put a key through the kv port")
	}
	return did, err
}
