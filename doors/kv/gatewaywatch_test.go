package kv_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestGatewayWatchesThatLagHoldLittle: what waits for clients of the gateway who do not read is not in memory, and each of them hears of
// everything when it goes on reading.
func TestGatewayWatchesThatLagHoldLittle(t *testing.T) {
	const watches, events, most = 50, 4000, 50 << 10
	s := serve(t, doorkv.Options{MaxAnswerBytes: 6 << 20})
	c := s.client(t)
	for _, size := range []int{10, 1000} {
		t.Run(fmt.Sprintf("values of %d bytes", size), func(t *testing.T) {
			prefix := fmt.Sprintf("lag%d/", size)
			var slow []*gatewayWatch
			for range watches {
				slow = append(slow, watchSlowly(t, s.addr, prefix))
			}
			padding := strings.Repeat("x", size)
			var wg sync.WaitGroup
			var next sync.Mutex
			n := 0
			for range 16 {
				wg.Go(func() {
					for {
						next.Lock()
						i := n
						n++
						next.Unlock()
						if i >= events {
							return
						}
						if _, err := c.Put(context.Background(), prefix+strconv.Itoa(i), padding); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			time.Sleep(200 * time.Millisecond)
			lagging := heap()
			for _, w := range slow {
				wg.Go(func() {
					seen := map[string]bool{}
					last := int64(0)
					for len(seen) < events {
						m, err := w.next()
						if err != nil {
							t.Errorf("after %d events: %v", len(seen), err)
							return
						}
						for _, e := range m.Result.Events {
							revision, _ := strconv.ParseInt(e.KV.ModRevision, 10, 64)
							if seen[string(e.KV.Key)] || revision <= last {
								t.Errorf("%s at %d after %d", e.KV.Key, revision, last)
							}
							seen[string(e.KV.Key)], last = true, revision
						}
					}
				})
			}
			wg.Wait()
			if held := (lagging - heap()) / watches; held > most {
				t.Errorf("each watch that lags holds %d bytes more than one that is told, more than %d", held, most)
			} else {
				t.Logf("%d bytes", held)
			}
			for _, w := range slow {
				w.conn.Close()
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// gatewayWatch is a watch through the JSON gateway on a connection of its own, whose client's system takes little ahead.
type gatewayWatch struct {
	conn net.Conn
	in   *json.Decoder
}

type gatewayEvents struct {
	Result struct {
		Created bool
		Events  []struct {
			KV struct {
				Key         []byte
				ModRevision string `json:"mod_revision"`
			}
		}
	}
}

// watchSlowly begins a watch and reads that it was created.
func watchSlowly(t *testing.T, addr, prefix string) *gatewayWatch {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		if err == nil {
			err = controlErr
		}
		return err
	}}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(wait.Limit(t)))
	encode := base64.StdEncoding.EncodeToString
	end := []byte(prefix)
	end[len(end)-1]++
	body := fmt.Sprintf(`{"create_request":{"key":%q,"range_end":%q}}`, encode([]byte(prefix)), encode(end))
	fmt.Fprintf(conn, "POST /v3/watch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("%s: %s", res.Status, text)
	}
	w := &gatewayWatch{conn, json.NewDecoder(res.Body)}
	if m, err := w.next(); err != nil || !m.Result.Created {
		t.Fatalf("%+v, %v", m, err)
	}
	return w
}

func (w *gatewayWatch) next() (m gatewayEvents, err error) {
	err = w.in.Decode(&m)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return m, err
}
