package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	sqlprogram "github.com/holdfastdb/holdfast/doors/sql/program"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/meter"
)

const lane node.Lane = 3

// member is a whole member in this process, and its tables.
type member struct {
	dir    string
	node   *node.Node
	rows   *sqlmachine.Machine
	worker *txn.Worker
	done   chan struct{} // closed when the worker has ended
	steps  *meter.Steps
	tables []*sqlmachine.Table
}

// start starts a member with the memory of a server of the least size, and empty tables.
func start(ctx context.Context, dir string, tables int) (*member, error) {
	shares := budget.Of(budget.Small, append(kvmachine.Claims(true), sqlprogram.Door.Claims(true)...)...)
	m := &member{dir: dir, rows: sqlmachine.New(), done: make(chan struct{}), steps: &meter.Steps{}}
	cfg := node.Config{Dir: dir, MemoryBytes: budget.Small, Shares: &shares, Steps: m.steps, Machines: []machine.Machine{m.rows},
		Lanes: []node.LaneSpec{{Number: lane, Name: "sql", Level: sqlpart.Level, Bytes: max(int(shares.Lane)/2, 9<<20)}}}
	var err error
	if m.node, err = node.Start(ctx, cfg, node.StartOptions{Name: "n1"}); err != nil {
		return nil, err
	}
	m.worker = txn.New(m.node, txn.Options{View: func() (store.View, error) { return m.node.View() }, Staged: m.rows.Staged, Lane: lane, LockBytes: 24 << 20})
	go func() { defer close(m.done); m.worker.Run() }()
	if err := m.create(ctx, tables); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

func (m *member) stop() {
	m.node.Stop()
	<-m.done
}

// create makes tables with an index each.
func (m *member) create(ctx context.Context, tables int) error {
	for m.worker.Term() == 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
	if err := m.raise(ctx); err != nil {
		return err
	}
	changes := []sqlpart.Change{{Verb: sqlpart.CreateDatabase, Name: "bench"}}
	for i := range tables {
		changes = append(changes, sqlpart.Change{Verb: sqlpart.CreateTable, Name: fmt.Sprintf("t%d", i), Indexes: []sqlpart.Index{{ID: byNumber, State: sqlpart.Public}}})
	}
	res, err := m.node.Propose(ctx, lane, entry.Part{Machine: sqlpart.Machine, Body: sqlpart.AppendPart(nil, &sqlpart.Part{Kind: sqlpart.Define, Changes: changes})})
	if err == nil && res.Rejection != nil {
		err = res.Rejection
	}
	if err != nil {
		return err
	}
	m.tables = m.rows.Catalogue().Database("bench").Tables()
	if len(m.tables) != tables {
		return errors.New("the catalogue has not got the tables")
	}
	return nil
}

// raise has the cluster know tables: the server has a worker for that, which is outside the measurement.
func (m *member) raise(ctx context.Context) error {
	_, id := m.node.IDs()
	part := emember.Part{RaiseLevel: &emember.RaiseLevel{Level: m.node.KnownLevel(), Members: []uint64{id}}}
	res, err := m.node.Propose(ctx, node.LaneSystem, entry.Part{Machine: entry.MachineMember, Body: emember.AppendPart(nil, &part)})
	if err == nil && res.Rejection != nil {
		err = res.Rejection
	}
	return err
}

// onDisk are the bytes of the store's files, and those of the log's.
func (m *member) onDisk() (rows, log int64, err error) {
	err = filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if errors.Is(err, fs.ErrNotExist) { // it was compacted away meanwhile
				return nil
			}
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if below, _ := filepath.Rel(m.dir, path); filepath.Dir(below) == "wal" {
			log += info.Size()
		} else {
			rows += info.Size()
		}
		return nil
	})
	return rows, log, err
}
