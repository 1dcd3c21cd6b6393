package main

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	neighbourAddress = "127.0.0.2"
	// pause is between two requests of the neighbour at one door.
	pause = 10 * time.Millisecond
	// patience is how long it waits for one answer.
	patience = 5 * time.Second
)

// neighbour is a well-behaved client with one connection to each door, and a watch.
type neighbour struct {
	doors  []*neighbourDoor
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	closed []func()

	mu    sync.Mutex
	took  map[string][]time.Duration // guarded by mu: since the last take
	wrong map[string]*trouble        // guarded by mu: by door, what a well-behaved client must not see
	lost  int                        // guarded by mu: connections and streams that ended
}

// neighbourDoor is what the neighbour does at one door, again and again.
type neighbourDoor struct {
	name string
	do   func(ctx context.Context) error
}

// trouble is what was answered with an error at one door.
type trouble struct {
	n     int
	first error
}

// times are those of some seconds.
type times map[string][]time.Duration

func dialNeighbour(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(neighbourAddress)}, Timeout: patience}
	return d.DialContext(ctx, "tcp", addr)
}

func newNeighbour(t *target) (*neighbour, error) {
	n := &neighbour{took: map[string][]time.Duration{}, wrong: map[string]*trouble{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	scheme, creds := "http://", insecure.NewCredentials()
	if t.tls != nil {
		scheme, creds = "https://", credentials.NewTLS(t.tls)
	}
	conn, err := grpc.NewClient("passthrough:///"+t.addr("kv"), grpc.WithTransportCredentials(creds), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dialNeighbour(ctx, addr) }))
	if err != nil {
		return nil, err
	}
	n.closed = append(n.closed, func() { conn.Close() })
	kv := pb.NewKVClient(conn)
	n.add("kv put", func(ctx context.Context) error {
		_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte("neighbour"), Value: []byte("value")})
		return err
	})
	n.add("kv range", func(ctx context.Context) error {
		_, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("neighbour")})
		return err
	})
	for _, of := range []struct{ name, port, path string }{
		{"kv over HTTP", "kv", "/version"}, {"tlog", "tlog", "/checkpoint"}, {"saga", "saga", "/api/dtmsvr/newGid"}, {"admin", "admin", "/readyz"},
	} {
		if of.port == "admin" { // in the clear on loopback
			n.addHTTP(t, "http://", of.name, of.port, of.path)
			continue
		}
		n.addHTTP(t, scheme, of.name, of.port, of.path)
	}
	if err := n.addSQL(t); err != nil {
		return nil, err
	}
	for _, d := range n.doors { // they must work before anything is measured
		ctx, cancel := context.WithTimeout(n.ctx, 30*time.Second)
		err := d.do(ctx)
		for err != nil && ctx.Err() == nil { // a server that has just begun has no checkpoint yet
			time.Sleep(pause)
			err = d.do(ctx)
		}
		cancel()
		if err != nil {
			n.close()
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	stream, err := pb.NewWatchClient(conn).Watch(n.ctx)
	if err != nil {
		n.close()
		return nil, err
	}
	n.wg.Go(func() { n.watch(stream) })
	return n, nil
}

func (n *neighbour) add(name string, do func(ctx context.Context) error) {
	n.doors = append(n.doors, &neighbourDoor{name, do})
}

// addHTTP adds a door that speaks HTTP/1.1. Its connection is opened once: another is one that was lost.
func (n *neighbour) addHTTP(t *target, scheme, name, port, path string) {
	addr, opened := t.addr(port), 0
	transport := &http.Transport{MaxConnsPerHost: 1, TLSClientConfig: t.tls, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			n.mu.Lock()
			if opened++; opened > 1 {
				n.lost++
			}
			n.mu.Unlock()
			return dialNeighbour(ctx, addr)
		}}
	client := &http.Client{Transport: transport}
	n.closed = append(n.closed, transport.CloseIdleConnections)
	n.add(name, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+addr+path, nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %.200s", res.Status, b)
		}
		return err
	})
}

func (n *neighbour) addSQL(t *target) error {
	conf := mysql.NewConfig()
	conf.User, conf.Net, conf.Addr = "root", "tcp", t.addr("sql")
	opened := 0
	conf.DialFunc = func(ctx context.Context, _, addr string) (net.Conn, error) {
		n.mu.Lock()
		if opened++; opened > 1 {
			n.lost++
		}
		n.mu.Unlock()
		d := net.Dialer{Timeout: patience} // root without a password is let in from loopback alone, and 127.0.0.2 is that, too
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(neighbourAddress)}
		return d.DialContext(ctx, "tcp", addr)
	}
	connector, err := mysql.NewConnector(conf)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	n.closed = append(n.closed, func() { db.Close() })
	n.add("sql", func(ctx context.Context) error {
		var one int
		return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
	})
	return nil
}

// watch hears of the neighbour's own puts until the neighbour ends.
func (n *neighbour) watch(stream pb.Watch_WatchClient) {
	err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("neighbour")}}})
	for err == nil {
		_, err = stream.Recv()
	}
	if n.ctx.Err() == nil {
		n.mu.Lock()
		n.lost++
		n.wrong["the watch"] = &trouble{1, err}
		n.mu.Unlock()
	}
}

// begin has every door be asked until end.
func (n *neighbour) begin() {
	for _, d := range n.doors {
		n.wg.Go(func() {
			for n.ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(n.ctx, patience)
				began := time.Now()
				err := d.do(ctx)
				took := time.Since(began)
				cancel()
				if n.ctx.Err() != nil {
					return
				}
				n.mu.Lock()
				n.took[d.name] = append(n.took[d.name], took)
				if err != nil {
					if n.wrong[d.name] == nil {
						n.wrong[d.name] = &trouble{first: err}
					}
					n.wrong[d.name].n++
				}
				n.mu.Unlock()
				select {
				case <-time.After(pause):
				case <-n.ctx.Done():
				}
			}
		})
	}
}

// take returns the times since the last take.
func (n *neighbour) take() times {
	n.mu.Lock()
	defer n.mu.Unlock()
	took := n.took
	n.took = map[string][]time.Duration{}
	return took
}

func (n *neighbour) end() {
	n.cancel()
	n.wg.Wait()
}

func (n *neighbour) close() {
	n.end()
	for _, f := range n.closed {
		f()
	}
}

// p99 is that of a door; 0: it was not asked.
func (t times) p99(door string) time.Duration {
	all := slices.Sorted(slices.Values(t[door]))
	if len(all) == 0 {
		return 0
	}
	return all[len(all)*99/100]
}

// text is the doors' p99 beside what they were alone.
func (t times) text(alone times) string {
	var all []string
	for _, door := range slices.Sorted(maps.Keys(t)) {
		all = append(all, fmt.Sprintf("%s %s (%s)", door, short(t.p99(door)), short(alone.p99(door))))
	}
	return strings.Join(all, ", ")
}

func short(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// judge names the neighbour's damage. A p99 below floor is none.
func (n *neighbour) judge(alone, during times, floor time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, d := range n.doors {
		was, is := alone.p99(d.name), during.p99(d.name)
		if len(during[d.name]) == 0 {
			errs = append(errs, fmt.Errorf("%s: nothing was answered", d.name))
		} else if is > floor && is > slower*was {
			errs = append(errs, fmt.Errorf("%s: p99 %s, alone %s", d.name, short(is), short(was)))
		}
	}
	if n.lost > 0 {
		errs = append(errs, fmt.Errorf("%d connections or streams of a well-behaved client were lost", n.lost))
	}
	for _, door := range slices.Sorted(maps.Keys(n.wrong)) {
		errs = append(errs, fmt.Errorf("%s: %d errors, the first: %w", door, n.wrong[door].n, n.wrong[door].first))
	}
	return errors.Join(errs...)
}
