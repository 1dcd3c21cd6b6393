package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// writersOfDoor is how many clients write through each door of a mixed load.
const writersOfDoor = 4

// mixed is clients that write through several doors of a cluster. Every name is written once, and the client's answer is remembered. A
// client that gets an error goes to the next member.
type mixed struct {
	c     *proctest.Cluster
	http  *http.Client
	steps *httptest.Server // takes every step of every saga
	conns []*grpc.ClientConn
	pools []*sql.DB
	group sync.WaitGroup
	stop  context.CancelFunc
	named atomic.Int64 // numbers names

	mu      sync.Mutex
	acked   map[string][]string // guarded by mu: names by door
	entries map[uint64]string   // guarded by mu: names by their index in the transparency log
}

// newMixed returns the clients of a cluster. The caller closes them.
func newMixed(c *proctest.Cluster) (*mixed, error) {
	m := &mixed{c: c, http: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 32}},
		steps:   httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
		stop:    func() {},
		acked:   map[string][]string{},
		entries: map[uint64]string{}}
	for _, n := range c.Nodes {
		cc, err := grpc.NewClient("passthrough:///"+n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.conns = append(m.conns, cc)
		db, err := open(n, "", "")
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.pools = append(m.pools, db)
	}
	return m, nil
}

func (m *mixed) close() error {
	m.end()
	m.steps.Close()
	var errs []error
	for _, cc := range m.conns {
		errs = append(errs, cc.Close())
	}
	for _, db := range m.pools {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

// door writes one name through a member.
type door func(ctx context.Context, to int, name string) error

// begin lets clients write through the named doors until end.
func (m *mixed) begin(doors ...string) {
	all := map[string]door{"kv": m.put, "tlog": m.add, "saga": m.submit, "rows": m.insert}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	for _, name := range doors {
		for i := range writersOfDoor {
			m.group.Go(func() { m.write(ctx, name, all[name], i) })
		}
	}
}

// end stops the clients and waits until they have had their last answers.
func (m *mixed) end() {
	m.stop()
	m.group.Wait()
}

func (m *mixed) write(ctx context.Context, door string, put door, writer int) {
	to := writer % len(m.c.Nodes)
	for ctx.Err() == nil {
		name := fmt.Sprintf("%s-%d-%d", door, writer, m.named.Add(1))
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		err := put(bound, to, name)
		cancel()
		if err != nil {
			to = (to + 1) % len(m.c.Nodes)
			time.Sleep(20 * time.Millisecond)
			continue
		}
		m.mu.Lock()
		m.acked[door] = append(m.acked[door], name)
		m.mu.Unlock()
	}
}

// acknowledged counts the names of a door.
func (m *mixed) acknowledged(door string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.acked[door])
}

func (m *mixed) put(ctx context.Context, to int, name string) error {
	_, err := pb.NewKVClient(m.conns[to]).Put(ctx, &pb.PutRequest{Key: []byte("mixed/" + name), Value: []byte(name)})
	return err
}

func (m *mixed) add(ctx context.Context, to int, name string) error {
	body, err := m.send(ctx, http.MethodPost, "http://"+m.c.Nodes[to].Addr("tlog")+"/add", "application/octet-stream", name)
	if err != nil {
		return err
	}
	index, err := strconv.ParseUint(body, 10, 64)
	if err != nil {
		return fmt.Errorf("add: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[index] = name
	return nil
}

func (m *mixed) submit(ctx context.Context, to int, name string) error {
	_, err := m.send(ctx, http.MethodPost, "http://"+m.c.Nodes[to].Addr("saga")+"/api/dtmsvr/submit", "application/json",
		fmt.Sprintf(`{"gid":%q,"trans_type":"msg","steps":[{"action":%q}],"payloads":["{}"]}`, name, m.steps.URL))
	return err
}

// rowTables are the tables of insert.
var rowTables = []string{"CREATE DATABASE mixed", "CREATE TABLE mixed.entries (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL, " +
	"part INT NOT NULL, UNIQUE KEY by_name (name, part), KEY by_part (part))", "CREATE TABLE mixed.heads (door VARCHAR(20) PRIMARY KEY, n BIGINT NOT NULL)",
	"INSERT INTO mixed.heads VALUES ('rows', 0)"}

// insert writes two rows of a name and counts the transaction in a row that all clients share.
func (m *mixed) insert(ctx context.Context, to int, name string) error {
	tx, err := m.pools[to].BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO mixed.entries (name, part) VALUES ('%s', 1), ('%s', 2)", name, name)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE mixed.heads SET n = n + 1 WHERE door = 'rows'"); err != nil {
		return err
	}
	return tx.Commit()
}

func (m *mixed) send(ctx context.Context, method, url, kind, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.GetBody = nil // or net/http sends it again where a kept connection has broken
	req.Header.Set("Content-Type", kind)
	res, err := m.http.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s %s", method, url, res.Status, b)
	}
	return string(b), err
}

// logKeys makes the private key of the log default, for all members.
func logKeys(bin, dir string) (string, error) {
	keys := filepath.Join(dir, "keys")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if out, err := exec.Command(bin, "tlog", "keygen", "default", "--origin", "log.example/rows", "--tlog-keys", keys).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tlog keygen: %w: %s", err, out)
	}
	return keys, nil
}
