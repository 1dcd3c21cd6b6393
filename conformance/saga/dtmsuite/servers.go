package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/conformance/saga/coordinator"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	// controlVariable and alertVariable tell a Holdfast with the tag sagatest where its control door is and where alerts go.
	controlVariable = "HOLDFAST_SAGA_CONTROL"
	alertVariable   = "HOLDFAST_SAGA_ALERT"
	controlAt       = "127.0.0.1:36788"
	// alertAt is where the suite's own services take alerts.
	alertAt = "http://localhost:8081/api/busi/AlertWebHook"
)

// servers are what the suite's services need, at the ports it knows.
type servers struct {
	dir   string
	maria *proctest.MariaDB
	redis *proctest.Process
	// mongo stands in for MongoDB. All its databases share one SQLite file, so a transaction may change two of them, and an abort undoes it. Others see
	// a transaction before its commit; no test looks then.
	mongo *proctest.Process
	runs  int
}

// newServers starts them. standIn is the program that speaks MongoDB's protocol.
func newServers(dir, standIn string) (*servers, error) {
	m, err := proctest.NewMariaDB("--port=3306")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir, maria: m}
	s.redis = proctest.NewProcess(filepath.Join(dir, "redis.log"), "redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	s.mongo = proctest.NewProcess(filepath.Join(dir, "mongo.log"), standIn, "--host", "127.0.0.1", "--port", "27017", "--single-db-compat", "--db", s.mongoFile(),
		"--journal-mode", "MEMORY", "--log-file", filepath.Join(dir, "mongo-own.log"), "--pid-file", filepath.Join(dir, "mongo.pid"))
	if err := listens(s.redis, "127.0.0.1:6379"); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// listens starts a server and waits until it takes connections.
func listens(p *proctest.Process, at string) error {
	if err := p.Start(); err != nil {
		return fmt.Errorf("%w; scripts/dtmsuite.sh installs it", err)
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", at)
		if err == nil {
			return c.Close()
		}
		if !p.Running() || time.Since(began) > patience {
			return fmt.Errorf("%w; last lines:\n%s", err, p.LogTail(10))
		}
	}
}

func (s *servers) mongoFile() string { return filepath.Join(s.dir, "mongo.db") }

func (s *servers) close() error { return errors.Join(s.mongo.Kill(), s.redis.Kill(), s.maria.Close()) }

// fresh ends what a test that was cut off has left open. The suite makes its tables anew itself, and rolls back what is prepared.
func (s *servers) fresh() error {
	if err := errors.Join(s.maria.Kill(), s.mongo.Kill()); err != nil { // ends their transactions
		return err
	}
	if err := os.RemoveAll(s.mongoFile()); err != nil {
		return err
	}
	if err := listens(s.mongo, "127.0.0.1:27017"); err != nil {
		return err
	}
	if err := s.maria.Restart(); err != nil {
		return err
	}
	_, err := s.maria.SQL("CREATE DATABASE IF NOT EXISTS dtm")
	return err
}

// holdfast starts a Holdfast with an empty directory and waits until it takes transactions. stop keeps its log.
func (s *servers) holdfast(bin, log string) (stop func() error, err error) {
	for name, v := range map[string]string{controlVariable: controlAt, alertVariable: alertAt} { // any order: each is set once
		if err := os.Setenv(name, v); err != nil {
			return nil, err
		}
	}
	s.runs++
	dir := filepath.Join(s.dir, fmt.Sprintf("run%d", s.runs))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	c, err := coordinator.Ours(dir, bin)
	if err != nil {
		return nil, fmt.Errorf("%w; scripts/dtmsuite.sh builds it", err)
	}
	return func() error {
		c.Close()
		text, err := os.ReadFile(c.Nodes[0].LogFile())
		return errors.Join(err, os.WriteFile(log, text, 0o644), os.RemoveAll(dir))
	}, nil
}
