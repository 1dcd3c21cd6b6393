package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// The sides that are measured.
const (
	alone      = "app alone"
	litestream = "Litestream 0.5.18"
	local      = "Holdfast --ack local"
	stored     = "Holdfast --ack archive"
)

// appName begins the names of the app's files.
const appName = "counter.db"

// agent is the program that replicates the database at path to a prefix of the bucket, with the command it runs, if any. nil: there is
// none.
func (b *bench) agent(side, dir, prefix string, run ...string) (*proctest.Process, error) {
	path, log := filepath.Join(dir, appName), filepath.Join(dir, "agent.log")
	switch side {
	case alone:
		return nil, nil
	case litestream:
		config, err := b.litestreamConfig(dir, prefix)
		if err != nil {
			return nil, err
		}
		args := []string{b.litestream, "replicate", "-config", config}
		if len(run) > 0 {
			args = append(args, "-restore-if-db-not-exists", "-exec", strings.Join(run, " "))
		}
		return b.onAppCore(log, args...), nil
	}
	ack := strings.TrimPrefix(side, "Holdfast --ack ")
	args := []string{b.bin, "sqlite", "replicate", "--replica", b.store.URL(prefix), "--ack", ack, path}
	if len(run) > 0 {
		args[2] = "run"
		args = append(append(args, "--"), run...)
	}
	return b.onAppCore(log, args...), nil
}

// restore is the command that makes the database at to from a prefix of the bucket.
func (b *bench) restore(side, dir, prefix, to string) ([]string, error) {
	if side == litestream {
		config, err := b.litestreamConfig(dir, prefix)
		return []string{b.litestream, "restore", "-config", config, "-o", to, filepath.Join(dir, appName)}, err
	}
	return []string{b.bin, "sqlite", "restore", "--to", to, b.store.URL(prefix)}, nil
}

// litestreamConfig writes Litestream's configuration: its defaults, and where the bucket is.
func (b *bench) litestreamConfig(dir, prefix string) (string, error) {
	text := fmt.Sprintf("dbs:\n  - path: %s\n    replica:\n      type: s3\n      bucket: %s\n      path: %s\n      endpoint: %s\n      region: us-east-1\n"+
		"      force-path-style: true\n      access-key-id: key\n      secret-access-key: secret\n",
		filepath.Join(dir, appName), strings.TrimSuffix(strings.TrimPrefix(b.store.URL(""), "s3://"), "/"), prefix, os.Getenv("AWS_ENDPOINT_URL"))
	config := filepath.Join(dir, "litestream.yml")
	return config, os.WriteFile(config, []byte(text), 0o644)
}

// onAppCore is a process on the core of the app.
func (b *bench) onAppCore(log string, args ...string) *proctest.Process {
	return proctest.NewProcess(log, "taskset", append([]string{"-c", b.appCore}, args...)...)
}

// app is the command that serves the database in dir.
func (b *bench) app(dir string, port int) []string {
	return []string{b.python, b.script, "serve", filepath.Join(dir, appName), fmt.Sprint(port)}
}

// appEnv is what the app is told on that side.
func (b *bench) appEnv(side string) []string {
	env := []string{fmt.Sprintf("COUNTER_BURN_MS=%g", ms(b.burn))}
	if side == local || side == stored {
		env = append(env, "COUNTER_EXTENSION="+b.extension)
	}
	return env
}

// stand is one app with its agent, at work.
type stand struct {
	b           *bench
	dir, prefix string
	agent       *proctest.Process // nil: there is none
	app         *proctest.Process
	url         string
}

// stand makes a database, with so many megabytes beside the counter, and starts agent and app. end ends it and removes everything.
func (b *bench) stand(ctx context.Context, side string, mb int) (s *stand, err error) {
	s = &stand{b: b, prefix: fmt.Sprintf("%s-%d", filepath.Base(b.dir), time.Now().UnixNano())}
	if s.dir, err = os.MkdirTemp(b.dir, "stand."); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	if _, err := b.output(ctx, b.python, b.script, "init", filepath.Join(s.dir, appName), fmt.Sprint(mb)); err != nil {
		return nil, err
	}
	if s.agent, err = b.agent(side, s.dir, s.prefix); err != nil {
		return nil, err
	}
	if s.agent != nil {
		if err := s.agent.Start(); err != nil {
			return nil, err
		}
		if err := s.until(ctx, s.agent, "puts nothing", func() bool { return b.has(ctx, s.prefix) }); err != nil {
			return nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	s.app = b.onAppCore(filepath.Join(s.dir, "app.log"), b.app(s.dir, port)...)
	s.app.Setenv(b.appEnv(side)...)
	if err := s.app.Start(); err != nil {
		return nil, err
	}
	return s, s.until(ctx, s.app, "does not answer", func() bool {
		_, err := ask(ctx, "GET", s.url+"/count")
		return err == nil
	})
}

// until waits for an action of a process, at most a minute.
func (s *stand) until(ctx context.Context, p *proctest.Process, fails string, done func() bool) error {
	for limit := time.Now().Add(time.Minute); !done(); {
		if !p.Running() || time.Now().After(limit) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%s %s:\n%s", p.LogFile(), fails, p.LogTail(10)), ctx.Err())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// kill ends app and agent as a power cut would, in either order: there is no moment for both.
func (s *stand) kill() (err error) {
	all := []*proctest.Process{s.agent, s.app}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, p := range all {
		if p != nil && p.Running() {
			err = errors.Join(err, p.Kill())
		}
	}
	return err
}

// end kills the processes, and removes the files and the bucket's content.
func (s *stand) end() error {
	return errors.Join(s.kill(), os.RemoveAll(s.dir), s.b.forget(s.prefix))
}
