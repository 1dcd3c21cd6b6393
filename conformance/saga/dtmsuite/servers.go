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
	runs  int
}

func newServers(dir string) (*servers, error) {
	m, err := proctest.NewMariaDB("--port=3306")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir, maria: m}
	s.redis = proctest.NewProcess(filepath.Join(dir, "redis.log"), "redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	if err := s.redis.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; scripts/dtmsuite.sh installs it", err), m.Close())
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:6379")
		if err == nil {
			return s, c.Close()
		}
		if !s.redis.Running() || time.Since(began) > patience {
			return nil, errors.Join(err, errors.New(s.redis.LogTail(10)), s.close())
		}
	}
}

func (s *servers) close() error { return errors.Join(s.redis.Kill(), s.maria.Close()) }

// fresh ends what a test that was cut off has left open. The suite makes its tables anew itself, and rolls back what is prepared.
func (s *servers) fresh() error {
	if err := s.maria.Kill(); err != nil { // ends its transactions
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
