package litestream

import (
	"context"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/agent"
	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

// watchInterval is how often directories are looked at.
const watchInterval = time.Second

// watching looks for databases that come and go in directories whose entry says watch.
type watching struct {
	p       *program
	a       *agent.Agent
	r       *replication
	have    map[string]bool // paths; the goroutine's
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	trouble string // the last logged message; the goroutine's
}

// watch begins, where there is anything to watch. Databases of all are replicated already.
func (p *program) watch(a *agent.Agent, r *replication, all []conf.Database) *watching {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watching{p: p, a: a, r: r, have: map[string]bool{}, cancel: cancel}
	var dirs []conf.Database
	for _, d := range r.set.Databases {
		if d.Watch {
			dirs = append(dirs, d)
		}
	}
	for _, d := range all {
		w.have[d.Path] = true
	}
	if len(dirs) > 0 && !r.once {
		w.ended.Go(func() { w.loop(ctx, dirs) })
	}
	return w
}

// stop ends it; nothing is added afterwards.
func (w *watching) stop() {
	w.cancel()
	w.ended.Wait()
}

func (w *watching) loop(ctx context.Context, dirs []conf.Database) {
	t := time.NewTicker(watchInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, d := range dirs {
			w.look(ctx, &d)
		}
	}
}

// look compares one directory with the replicated databases.
func (w *watching) look(ctx context.Context, dir *conf.Database) {
	found, err := databasesIn(dir)
	if err != nil {
		w.say("directory cannot be read", dir.Dir, err)
		return
	}
	there := map[string]bool{}
	for _, d := range found {
		there[d.Path] = true
		if w.have[d.Path] {
			continue
		}
		t, err := w.p.target(&d)
		if t.Discovered = true; err == nil {
			err = w.a.Add(t)
		}
		if err != nil {
			w.say("database cannot be added", d.Path, err)
			continue
		}
		w.have[d.Path] = true
		logTarget(w.r.log, &d)
	}
	for path := range w.have { // any order: each by itself
		if there[path] {
			continue
		}
		if _, of := dir.Entry(path); !of || w.r.lists(path) {
			continue
		}
		delete(w.have, path)
		w.r.log.Info("database is gone", "path", path)
		if err := w.a.Remove(ctx, path); err != nil && ctx.Err() == nil {
			w.r.log.Warn("database is gone, and not everything of it is stored", "path", path, "error", err)
		}
	}
}

// say logs a failure once, until another comes.
func (w *watching) say(text, path string, err error) {
	if line := text + path + err.Error(); line != w.trouble {
		w.trouble = line
		w.r.log.Warn(text, "path", path, "error", err)
	}
}
