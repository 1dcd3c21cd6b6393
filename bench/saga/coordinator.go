package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// The coordinators.
const (
	none     = "none"
	dtm      = "dtm"
	holdfast = "holdfast"
	three    = "holdfast-3" // nodes, asked at the leader
	floor    = "floor"
)

var serverNames = []string{none, dtm, holdfast, three, floor}

// Where every coordinator listens: DTM's own port, which the bench service has built in.
const (
	address = "127.0.0.1:36789"
	api     = "http://" + address + "/api/dtmsvr/"
)

// coordinator is a running one with data of its own, or none at all.
type coordinator struct {
	name     string
	servers  []*proctest.Process
	database *proctest.MariaDB // with DTM's tables and nothing else; nil for the others
	cluster  *proctest.Cluster // of three nodes, whose first one listens at address
	probes   int               // transactions by which it was asked whether it does anything
}

// manyConnections is more than DTM's pool and the bench service ever open.
const manyConnections = "--max-connections=2000"

// start runs a coordinator with empty data below dir and waits until it answers.
func (b *bench) start(name, dir string) (c *coordinator, err error) {
	c = &coordinator{name: name}
	if name == none {
		return c, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start %s: %w", name, err), c.close())
			c = nil
		}
	}()
	one := func(line ...string) {
		c.servers = append(c.servers, proctest.NewProcess(filepath.Join(dir, "log"), line[0], line[1:]...))
	}
	switch name {
	case dtm:
		schema, err := os.ReadFile(filepath.Join(b.programs, "sqls", "dtmsvr.storage.mysql.sql"))
		if err != nil {
			return c, err
		}
		if c.database, err = proctest.NewMariaDB(manyConnections); err != nil {
			return c, err
		}
		if _, err := c.database.SQL(string(schema)); err != nil {
			return c, err
		}
		host, port, _ := strings.Cut(c.database.Addr, ":")
		one("/usr/bin/env", "LOG_LEVEL=fatal", "STORE_DRIVER=mysql", "STORE_HOST="+host, "STORE_PORT="+port, "STORE_USER=root",
			filepath.Join(b.programs, "server"))
	case holdfast:
		one(b.bin, "serve", "--data", filepath.Join(dir, "data"), "--saga", address, "--saga-grpc", "off", "--admin", "off", "--memory", proctest.Memory)
	case three:
		return c, b.startThree(c, dir)
	case floor:
		one(b.floorBin, "-listen", address, "-dir", dir)
	}
	_, err = c.run()
	return c, err
}

// startThree runs three nodes and makes the one at address lead.
func (b *bench) startThree(c *coordinator, dir string) (err error) {
	if c.cluster, err = proctest.New(dir, proctest.Holdfast(b.bin, "--memory", proctest.Memory), 3); err != nil {
		return err
	}
	var peers []string
	for _, n := range c.cluster.Nodes {
		peers = append(peers, n.Name+"="+n.Peer)
	}
	for i, n := range c.cluster.Nodes {
		at := n.Addr("saga")
		if i == 0 {
			at = address
		}
		c.cluster.Reflag(n, "--peers", strings.Join(peers, ","), "--saga", at, "--saga-grpc", "off")
		c.servers = append(c.servers, n.Process)
	}
	if err := c.cluster.Run(); err != nil {
		return err
	}
	if _, err := c.answers(time.Now()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c.cluster.Lead(ctx, c.cluster.Nodes[0])
}

// run starts the servers and waits until the first carries a transaction to its end; it returns how long that took.
func (c *coordinator) run() (took time.Duration, err error) {
	began := time.Now()
	for _, s := range c.servers {
		if err := s.Start(); err != nil {
			return 0, err
		}
	}
	return c.answers(began)
}

func (c *coordinator) answers(began time.Time) (took time.Duration, err error) {
	for ; ; time.Sleep(5 * time.Millisecond) {
		if err = c.probe(); err == nil {
			return time.Since(began), nil
		}
		if !c.servers[0].Running() || time.Since(began) > time.Minute {
			return 0, fmt.Errorf("no answer: %w\n%s", err, c.servers[0].LogTail(10))
		}
	}
}

// probe has it do a saga without calls.
func (c *coordinator) probe() error {
	one := newClient()
	defer one.close()
	c.probes++
	done, err := one.submit(&transaction{gid: "probe-" + strconv.Itoa(c.probes), kind: "saga", wait: true, steps: [][2]string{{"", ""}}})
	if err == nil && !done {
		err = errors.New("a saga that calls nobody was undone")
	}
	return err
}

// kill ends the servers at once. DTM's database lives on: it is not what is being tested.
func (c *coordinator) kill() error {
	var failed error
	for _, s := range c.servers {
		failed = errors.Join(failed, s.Kill())
	}
	return failed
}

// close kills everything that belongs to it. The data stays, but for a database's.
func (c *coordinator) close() error {
	failed := c.kill()
	if c.database != nil {
		failed = errors.Join(failed, c.database.Close())
	}
	return failed
}

// used is processor time.
type used struct{ server, database time.Duration }

// cpu is what its servers and its database have used in their present runs.
func (c *coordinator) cpu() (u used, err error) {
	for _, s := range c.servers {
		d, err := s.CPU()
		if err != nil {
			return u, fmt.Errorf("%s is gone: %w; last lines:\n%s", c.name, err, s.LogTail(10))
		}
		u.server += d
	}
	if c.database != nil {
		u.database, err = c.database.CPU()
	}
	return u, err
}

// memory is the resident memory of its servers, without a database.
func (c *coordinator) memory() (sum int64, err error) {
	for _, s := range c.servers {
		n, err := s.RSS()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// asking has a connection of its own for every request: servers are killed meanwhile.
var asking = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

// get returns the body of an answer with status 200.
func get(url string) ([]byte, error) {
	res, err := asking.Get(url)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.200s", url, res.Status, b)
	}
	return b, nil
}
