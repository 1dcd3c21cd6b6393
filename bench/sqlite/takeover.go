package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// takeover loses a machine with a larger database, and times a restore and the first request that another machine answers.
func (b *bench) takeover(ctx context.Context) error {
	b.store.SlowBy(delay{Median: b.upload}.next)
	for range max(3, b.rounds) {
		for _, side := range b.sides {
			if side == alone {
				continue
			}
			t, err := b.taken(ctx, side)
			if err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
			b.report.Takeovers = append(b.report.Takeovers, *t)
			fmt.Printf("  takeover  %-22s %d MB: restored in %.2f s, first request answered after %.2f s, by %d requests of the bucket and %.2f s of CPU\n", side,
				b.mb, t.Restore, t.First, t.Requests, t.CPU)
		}
	}
	return nil
}

func (b *bench) taken(ctx context.Context, side string) (t *Takeover, err error) {
	st, err := b.stand(ctx, side, b.mb)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.end()) }()
	c := count(ctx, st.url, 2)
	time.Sleep(3 * time.Second)
	answered := c.end()
	if err := st.shipped(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(st.kill(), st.lose()); err != nil {
		return nil, err
	}
	t = &Takeover{Side: side, MB: b.mb}
	if _, t.Restore, err = b.restored(ctx, side, st); err != nil {
		return nil, err
	}
	if err := st.lose(); err != nil {
		return nil, err
	}
	// One command restores, runs the agent and then the app.
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	if st.agent, err = b.agent(side, st.dir, st.prefix, b.app(st.dir, port)...); err != nil {
		return nil, err
	}
	st.app = nil
	st.agent.Setenv(b.appEnv(side)...)
	began, asked := time.Now(), b.store.Counts()
	if err := st.agent.Start(); err != nil {
		return nil, err
	}
	url, first := fmt.Sprintf("http://127.0.0.1:%d/count_up", port), int64(0)
	if err := st.until(ctx, st.agent, "answers nothing", func() bool {
		var err error
		first, err = ask(ctx, "POST", url)
		return err == nil
	}); err != nil {
		return nil, err
	}
	if first <= answered {
		return nil, fmt.Errorf("the first answer is %d, the machine that is gone had stored %d:\n%s", first, answered, st.agent.LogTail(10))
	}
	t.First, t.Requests = time.Since(began).Seconds(), b.store.Counts().Minus(asked).All()
	used, err := st.agent.CPU()
	if err != nil {
		return nil, err
	}
	t.CPU = used.Seconds()
	// It ends its app before it ends itself.
	return t, st.agent.Term(time.Minute)
}

// shipped waits until the bucket has been quiet for two seconds: what a side has not put by then it does not put.
func (s *stand) shipped(ctx context.Context) error {
	last, since := s.b.store.Counts().PutBytes, time.Now()
	for limit := time.Now().Add(2 * time.Minute); time.Since(since) < 2*time.Second; time.Sleep(50 * time.Millisecond) {
		if now := s.b.store.Counts().PutBytes; now != last {
			last, since = now, time.Now()
		}
		if time.Now().After(limit) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%s puts for two minutes after the load", filepath.Base(s.dir)), ctx.Err())
		}
	}
	_, err := os.Stat(s.dir)
	return err
}
