package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// fromSnapshot saves a server with tables twice, under its writers and after they have ended, and restores both files.
func (s *suite) fromSnapshot() (note string, err error) {
	dir := filepath.Join(s.dir, "saved")
	cluster, err := server(s.bin, filepath.Join(dir, "first"))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	c, were, all, err := s.stock(n)
	if err != nil {
		return "", err
	}
	defer c.close()
	under, after := filepath.Join(dir, "under.snap"), filepath.Join(dir, "after.snap")
	least, most := map[int64]int64{}, map[int64]int64{}
	if err := besideWriters(n, all, func() error {
		time.Sleep(500 * time.Millisecond)
		for _, w := range all {
			least[w.id] = w.acknowledged.Load()
		}
		err := s.holdfast(nil, "snapshot", "save", under, "--admin", n.Admin)
		for _, w := range all {
			most[w.id] = w.tried.Load()
		}
		time.Sleep(300 * time.Millisecond)
		return err
	}); err != nil {
		return "", err
	}
	if err := s.holdfast(nil, "snapshot", "save", after, "--admin", n.Admin); err != nil {
		return "", err
	}
	var moved int64
	for _, w := range all {
		moved += most[w.id] - least[w.id]
	}
	if moved == 0 {
		return "", errors.New("no writer has committed while the snapshot was saved")
	}
	for _, f := range []struct {
		file   string
		bounds func(*writer) (int64, int64)
	}{
		{under, func(w *writer) (int64, int64) { return least[w.id], most[w.id] }},
		{after, func(w *writer) (int64, int64) { return w.acknowledged.Load(), w.acknowledged.Load() }},
	} {
		if err := s.restored(nil, all, were, f.bounds, "snapshot", "restore", f.file); err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(f.file), err)
		}
	}
	return fmt.Sprintf("%d rows in %d tables and 8 writers, %d transactions while it was saved: equal by every index, CHECK TABLE is OK, also of a save at rest",
		len(were), len(shop), moved), nil
}

// stock fills the shop of a server that is new and returns its rows, with writers beside it. The caller closes the client.
func (s *suite) stock(n *proctest.Node) (c *client, were []string, all []*writer, err error) {
	if c, err = connect(n, ""); err != nil {
		return nil, nil, nil, err
	}
	if err = fillShop(c, s.rowsOfShop()); err == nil {
		were, err = readShop(n)
	}
	if err == nil {
		all, err = newWriters(n)
	}
	if err != nil {
		c.close()
		return nil, nil, nil, err
	}
	return c, were, all, nil
}

// besideWriters lets writers run while do does.
func besideWriters(n *proctest.Node, all []*writer, do func() error) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, w := range all {
		wg.Go(func() { errs[i] = w.write(ctx, n, func() bool { return false }) })
	}
	err := do()
	stop()
	wg.Wait()
	return errors.Join(append(errs, err)...)
}

// restored makes a server by a command of the program, which gets its directory, and judges what it holds.
func (s *suite) restored(env []string, all []*writer, were []string, bounds func(*writer) (least, most int64), args ...string) error {
	dir, err := os.MkdirTemp(s.dir, "restored.")
	if err != nil {
		return err
	}
	cluster, err := members(s.bin, dir, 1)
	if err != nil {
		return err
	}
	n := cluster.Nodes[0]
	if err := s.holdfast(env, append(args, "--data", n.Dir)...); err != nil {
		return err
	}
	if err := cluster.Run(); err != nil {
		return err
	}
	defer cluster.Close()
	if err := keepsShop(n, were); err != nil {
		return err
	}
	if _, err := positions(n, all, bounds); err != nil {
		return err
	}
	c, err := connect(n, "kills")
	if err != nil {
		return err
	}
	defer c.close()
	return c.checkTables("moves", "heads", "starts")
}

// holdfast runs a command of the program.
func (s *suite) holdfast(env []string, args ...string) error {
	cmd := exec.Command(s.bin, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("holdfast %s: %w: %s", strings.Join(args[:2], " "), err, last(out))
	}
	return nil
}
