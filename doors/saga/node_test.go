package saga_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	doorsaga "github.com/holdfastdb/holdfast/doors/saga"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/port"
)

// TestOverARealNode: below its level the cluster takes no transaction and says so. At it each is in the log once, with its keys or not at
// all, and the same after a restart.
func TestOverARealNode(t *testing.T) {
	dir := t.TempDir()
	m := startMember(t, dir)
	submit := func(gid string) (int, string) {
		return m.post("/api/dtmsvr/submit", `{"gid":"`+gid+`","trans_type":"saga","steps":[{"action":"http://a","compensate":"http://b"}],"payloads":["{}"]}`)
	}
	before := m.node.Status().Applied
	if code, body := submit("early"); code != 503 || !strings.Contains(body, "level") {
		t.Fatalf("below the level: %d %s", code, body)
	}
	if code, body := m.post("/api/holdfast/submit", `{"gid":"early","trans_type":"saga","kv":{"success":[{"request_put":{"key":"YQ=="}}]}}`); code != 503 {
		t.Fatalf("with keys: %d %s", code, body)
	}
	if after := m.node.Status().Applied; after != before {
		t.Errorf("the log went from %d to %d", before, after)
	}
	m.raise(sagapart.Level)

	// Ten clients take from one stock, each with a delivery; every compare is against what the client has seen.
	m.put("stock", "0")
	const clients, each = 10, 3
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := 0; i < each; {
				value, version := m.get("stock")
				code, body := m.post("/api/holdfast/submit", fmt.Sprintf(`{"gid":"delivery-%s-%d-%d","trans_type":"saga","kv":{"compare":[{"key":"c3RvY2s=","target":"MOD","mod_revision":"%d"}],
					"success":[{"request_put":{"key":"c3RvY2s=","value":"%s"}}]}}`, value, c, i, version, base64.StdEncoding.EncodeToString([]byte(next(value)))))
				switch code {
				case 200:
					i++
				case 409: // another was faster
				default:
					t.Errorf("%d %s", code, body)
					return
				}
			}
		})
	}
	wg.Wait()
	if value, _ := m.get("stock"); value != fmt.Sprint(clients*each) || m.saga.Counts().Submitted != clients*each {
		t.Errorf("the stock is %s after %d deliveries", value, m.saga.Counts().Submitted)
	}
	for range 2 {
		if code, body := submit("late"); code != 200 {
			t.Fatalf("at the level: %d %s", code, body)
		}
	}
	m.stop()
	again := startMember(t, dir)
	if code, body := again.fetch("/api/dtmsvr/query?gid=late"); code != 200 || strings.Count(body, `"branch_id":"01"`) != 2 {
		t.Errorf("after a restart: %d %s", code, body)
	}
	if n := again.saga.Counts().Submitted; n != clients*each+1 {
		t.Errorf("%d transactions after a restart", n)
	}
}

// next is the number after one.
func next(s string) string {
	var n int
	_, _ = fmt.Sscan(s, &n)
	return fmt.Sprint(n + 1)
}

// realMember is one real node with the door.
type realMember struct {
	t    *testing.T
	node *node.Node
	kv   *kvmachine.Machine
	saga *sagamachine.Machine
	addr string
	stop func()
}

func startMember(t *testing.T, dir string) *realMember {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	m := &realMember{t: t, kv: kvmachine.New(kvmachine.Options{}), saga: sagamachine.New(sagamachine.Options{})}
	var err error
	m.node, err = node.Start(ctx, node.Config{Dir: dir, Machines: []machine.Machine{m.kv, m.saga}, MemoryBytes: 64 << 20, Logger: slog.New(slog.DiscardHandler),
		Lanes: []node.LaneSpec{{Number: 1, Name: "kv"}, {Number: doorsaga.Lane, Name: "saga", Level: sagapart.Level}}}, node.StartOptions{Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	d := doorsaga.New(m.node, m.saga, doorsaga.Options{RequestTimeout: 10 * time.Minute, KV: func(_ context.Context, _ *doorsaga.Caller, t *kvpart.Txn) ([]entry.Part, int, string) {
		return []entry.Part{{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Must: true, Txn: t})}}, 0, ""
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.addr = "http://" + l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(l, port.Protocols{NoGRPC: true}) }()
	m.stop = sync.OnceFunc(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		wait.GivenBack(t, d.Owed)
		m.node.Stop()
	})
	t.Cleanup(m.stop)
	wait.Until(t, "the member is ready", func() bool { return m.node.Status().Ready })
	return m
}

func (m *realMember) propose(p entry.Part) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(m.t))
	defer cancel()
	if res, err := m.node.Propose(ctx, node.LaneSystem, p); err != nil || res.Rejection != nil {
		m.t.Fatal(res, err)
	}
}

func (m *realMember) raise(level uint16) {
	_, id := m.node.IDs()
	for at := m.node.ClusterLevel() + 1; at <= level; at++ {
		m.propose(entry.Part{Machine: entry.MachineMember, Body: emember.AppendPart(nil, &emember.Part{RaiseLevel: &emember.RaiseLevel{Level: at, Members: []uint64{id}}})})
	}
}

func (m *realMember) put(key, value string) {
	m.propose(entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Put: &kvpart.Put{Key: []byte(key), Value: []byte(value)}})})
}

func (m *realMember) get(key string) (value string, revision int64) {
	res, _, err := m.kv.Range(&kvpart.Range{Key: []byte(key)}, 1<<20)
	if err != nil || len(res.KVs) != 1 {
		m.t.Error(res, err)
		return "", 0
	}
	return string(res.KVs[0].Value), res.KVs[0].ModRevision
}

func (m *realMember) post(path, body string) (int, string) {
	res, err := http.Post(m.addr+path, "application/json", bytes.NewReader([]byte(body)))
	return m.read(res, err)
}

func (m *realMember) fetch(path string) (int, string) {
	res, err := http.Get(m.addr + path)
	return m.read(res, err)
}

func (m *realMember) read(res *http.Response, err error) (int, string) {
	if err != nil {
		m.t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		m.t.Error(err)
	}
	return res.StatusCode, string(b)
}
