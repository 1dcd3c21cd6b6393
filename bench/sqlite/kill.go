package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// killing kills every side under load and counts what was answered and is not in the bucket.
func (b *bench) killing(ctx context.Context) error {
	b.store.SlowBy(delay{Median: b.upload}.next)
	for round := range b.kills {
		for _, side := range b.sides {
			if side == alone {
				continue
			}
			k, err := b.killed(ctx, side)
			if err != nil {
				return fmt.Errorf("%s, kill %d: %w", side, round+1, err)
			}
			b.report.Kills = append(b.report.Kills, *k)
			fmt.Printf("  kill %d %-22s after %.1f s: answered %d, restored %d, lost %d; restored in %.2f s\n", round+1, side, k.After, k.Answered, k.Restored,
				k.Lost, k.Seconds)
		}
	}
	return nil
}

// killed is one such end: app and agent at the same random moment, the files removed, the database restored from the bucket alone.
func (b *bench) killed(ctx context.Context, side string) (k *Killed, err error) {
	st, err := b.stand(ctx, side, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.end()) }()
	c := count(ctx, st.url, mostUsers)
	after := time.Second + time.Duration(rand.Int64N(int64(4*time.Second)))
	time.Sleep(after)
	if err := st.kill(); err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	k = &Killed{Side: side, After: after.Seconds(), Answered: c.end()}
	if k.Answered == 0 {
		return nil, fmt.Errorf("nothing was answered:\n%s", st.app.LogTail(5))
	}
	if err := st.lose(); err != nil {
		return nil, err
	}
	k.Restored, k.Seconds, err = b.restored(ctx, side, st)
	k.Lost = max(0, k.Answered-k.Restored)
	return k, err
}

// lose removes the files of app and agent.
func (s *stand) lose() error {
	return errors.Join(os.RemoveAll(s.dir), os.MkdirAll(s.dir, 0o755))
}

// restored restores a database from the bucket. It returns its count, read after SQLite has checked all of it, and the seconds that the
// restore took.
func (b *bench) restored(ctx context.Context, side string, st *stand) (count int64, seconds float64, err error) {
	to := filepath.Join(st.dir, "restored.db")
	args, err := b.restore(side, st.dir, st.prefix, to)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if _, err := b.output(ctx, append([]string{"taskset", "-c", b.appCore}, args...)...); err != nil {
		return 0, 0, err
	}
	seconds = time.Since(began).Seconds()
	text, err := b.output(ctx, b.python, b.script, "read", to)
	if err != nil {
		return 0, 0, err
	}
	count, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return count, seconds, err
}
