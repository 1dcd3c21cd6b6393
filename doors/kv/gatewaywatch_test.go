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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestGatewayWatchesThatLagHoldLittle: slow clients of the gateway have in memory only one message each, for which there is room. None of
// them is cut, and each hears of everything.
func TestGatewayWatchesThatLagHoldLittle(t *testing.T) {
	const watches, events, room = 40, 3000, 6 << 20
	s := serve(t, doorkv.Options{MaxAnswerBytes: room})
	c := s.client(t)
	var all []*gatewayWatch
	for range watches {
		all = append(all, watchSlowly(t, s.addr, "lag/"))
	}
	full := make(chan struct{}) // closed when they may read as fast as they can
	var readers, writers sync.WaitGroup
	for _, w := range all {
		readers.Go(func() {
			if err := w.follow(events, full); err != nil {
				t.Error(err)
			}
		})
	}
	value := strings.Repeat("x", 1000)
	var put atomic.Int64
	for range 16 {
		writers.Go(func() {
			for i := put.Add(1); i <= events; i = put.Add(1) {
				if _, err := c.Put(context.Background(), fmt.Sprintf("lag/%d", i), value); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	behind := heap()
	close(full)
	readers.Wait()
	const most = watches << 20 // the clients of the test have a part of it
	if held := behind - heap(); held > most {
		t.Errorf("%d watches hold %d bytes for slow clients, more than %d", watches, held, most)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
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

// follow reads until it has heard of so many events, each of another key, in the order of their revisions. It reads slowly until full is closed.
func (w *gatewayWatch) follow(events int, full <-chan struct{}) error {
	seen, last := map[string]bool{}, int64(0)
	for len(seen) < events {
		m, err := w.next()
		if err != nil {
			return fmt.Errorf("after %d events: %w", len(seen), err)
		}
		for _, e := range m.Result.Events {
			revision, _ := strconv.ParseInt(e.KV.ModRevision, 10, 64)
			if seen[string(e.KV.Key)] || revision <= last {
				return fmt.Errorf("%s at %d after %d", e.KV.Key, revision, last)
			}
			seen[string(e.KV.Key)], last = true, revision
		}
		select {
		case <-full:
		case <-time.After(time.Duration(len(m.Result.Events)) * 20 * time.Millisecond):
		}
	}
	return nil
}

func (w *gatewayWatch) next() (m gatewayEvents, err error) {
	err = w.in.Decode(&m)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return m, err
}
