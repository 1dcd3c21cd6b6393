package outcall

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// The service of the benchmarks is a process of its own, so that the processor time of this one is the client's: TestMain becomes it.
const serviceEnv = "HOLDFAST_OUTCALL_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(serviceEnv) != "" {
		serveBench()
		return
	}
	os.Exit(m.Run())
}

const benchAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nDate: Mon, 23 Nov 2026 08:00:00 GMT\r\nContent-Length: 25\r\n\r\n" +
	`{"dtm_result":"SUCCESS"}` + "\n"

// serveBench answers every request with the same bytes until its standard input ends.
func serveBench() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					var length int
					for {
						line, err := r.ReadSlice('\n')
						if err != nil {
							return
						}
						if len(bytes.TrimSpace(line)) == 0 {
							break
						}
						if v, ok := bytes.CutPrefix(bytes.ToLower(line), []byte("content-length:")); ok {
							fmt.Sscan(string(v), &length)
						}
					}
					r.Discard(length)
					if _, err := c.Write([]byte(benchAnswer)); err != nil {
						return
					}
				}
			}()
		}
	}()
	io.Copy(io.Discard, os.Stdin)
}

func benchService(b *testing.B) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serviceEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return "http://" + strings.TrimSpace(line)
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const benchPayload = `{"amount":30,"transInResult":"","transOutResult":""}`

// benchCalls makes b.N calls, so many at a time, and reports what each cost this process.
func benchCalls(b *testing.B, atOnce int, call func()) {
	call()
	b.ResetTimer()
	b.ReportAllocs()
	before := cpu()
	var wg sync.WaitGroup
	for w := range atOnce {
		wg.Go(func() {
			for i := w; i < b.N; i += atOnce {
				call()
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(cpu()-before)/float64(b.N)/1e3, "cpu-µs/op")
}

// BenchmarkHTTP compares this package with the two clients that it might have been made of. They do less: no limits, no breaker, no
// judgement of targets, no cancel.
func BenchmarkHTTP(b *testing.B) {
	url := benchService(b) + "/api/busi/TransOut"
	for _, atOnce := range []int{1, 20, 200} {
		b.Run(fmt.Sprintf("outcall/%d", atOnce), func(b *testing.B) {
			n := New(Options{})
			defer n.Close()
			req := &Request{URL: url, Gid: "bench-123456", Mode: "saga", BranchID: "01", Op: "action", Payload: []byte(benchPayload)}
			benchCalls(b, atOnce, func() {
				done := make(chan Result, 1)
				n.Go(req, func(r Result) { done <- r })
				if r := <-done; r.Outcome != OK {
					b.Error(r)
				}
			})
		})
		full := url + "?branch_id=01&gid=bench-123456&op=action&trans_type=saga"
		b.Run(fmt.Sprintf("net_http/%d", atOnce), func(b *testing.B) {
			t := &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256}
			defer t.CloseIdleConnections()
			client := &http.Client{Transport: t, Timeout: wait.Limit(b)}
			benchCalls(b, atOnce, func() {
				done := make(chan error, 1)
				go func() {
					req, _ := http.NewRequest("POST", full, strings.NewReader(benchPayload))
					req.Header.Set("Content-Type", "application/json")
					resp, err := client.Do(req)
					if err == nil {
						io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
						resp.Body.Close()
					}
					done <- err
				}()
				if err := <-done; err != nil {
					b.Error(err)
				}
			})
		})
		b.Run(fmt.Sprintf("fasthttp/%d", atOnce), func(b *testing.B) {
			client := &fasthttp.Client{MaxConnsPerHost: 256, MaxResponseBodySize: maxBody}
			benchCalls(b, atOnce, func() {
				done := make(chan error, 1)
				go func() {
					req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
					defer fasthttp.ReleaseRequest(req)
					defer fasthttp.ReleaseResponse(resp)
					req.SetRequestURI(full)
					req.Header.SetMethod("POST")
					req.Header.SetContentType("application/json")
					req.SetBodyString(benchPayload)
					done <- client.DoTimeout(req, resp, 3*time.Second)
				}()
				if err := <-done; err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// BenchmarkGRPC has its service in this process: the time is that of both sides.
func BenchmarkGRPC(b *testing.B) {
	at := serveGRPC(b, func(context.Context, string, []byte) ([]byte, error) { return nil, nil })
	n := New(Options{})
	defer n.Close()
	req := &Request{URL: at + "/busi.Busi/TransOut", Protocol: GRPC, Gid: "bench-123456", Mode: "saga", BranchID: "01", Op: "action", Payload: []byte(benchPayload)}
	benchCalls(b, 20, func() {
		done := make(chan Result, 1)
		n.Go(req, func(r Result) { done <- r })
		if r := <-done; r.Outcome != OK {
			b.Error(r)
		}
	})
}
