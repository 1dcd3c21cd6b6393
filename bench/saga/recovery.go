package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// recovered is the number of open sagas when the coordinator is killed. They are spread over so many hanging services because a
	// coordinator may limit the calls to one.
	recovered        = 10_000
	recoveryServices = 40
	// hangTimeout is how long a coordinator may wait for an answer, in seconds: longer than it takes to get them all to hang.
	hangTimeout = 60
	submitters  = 64
)

// Recovery is what became of open sagas after a kill and a restart.
type Recovery struct {
	Server   string  `json:"coordinator"`
	Sagas    int     `json:"sagas"`
	Hanging  int     `json:"calls_under_way_at_the_kill"`
	Answers  float64 `json:"answers_after_s"` // the restarted coordinator, at all
	First    float64 `json:"first_call_after_s"`
	Half     float64 `json:"half_finished_after_s"` // second calls answered
	Seconds  float64 `json:"all_finished_after_s"`  // as the coordinator says; 0: not within the time it was watched
	Watched  float64 `json:"watched_s"`
	Finished int     `json:"second_calls_answered"`
	Repeated int     `json:"repeated_calls"` // beyond the second ones, which had been under way
}

func (r *Recovery) String() string {
	end := fmt.Sprintf("all finished after %.1f s", r.Seconds)
	if r.Seconds == 0 {
		end = fmt.Sprintf("%d finished within %.0f s", r.Finished, r.Watched)
	}
	return fmt.Sprintf("%s: killed with %d sagas open, %d calls under way; answers after %.2f s, first call after %.2f s, half after %.1f s, %s",
		r.Server, r.Sagas, r.Hanging, r.Answers, r.First, r.Half, end)
}

// recovery kills each coordinator with sagas open whose second call hangs.
func (b *bench) recovery(ctx context.Context) error {
	var failed error
	for _, server := range b.servers {
		if server == none || server == floor || ctx.Err() != nil {
			continue
		}
		r, err := b.recover(ctx, server)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", server, err))
			continue
		}
		b.report.Recovery = append(b.report.Recovery, r)
		fmt.Println("  " + r.String())
	}
	return failed
}

func (b *bench) recover(ctx context.Context, server string) (r *Recovery, err error) {
	dir, err := os.MkdirTemp(b.dir, "recovery.")
	if err != nil {
		return nil, err
	}
	c, err := b.start(server, filepath.Join(dir, "coordinator"))
	if err != nil {
		return nil, err
	}
	s, err := newServices(1 + recoveryServices)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	defer func() {
		err = errors.Join(err, s.close(), c.close(), os.RemoveAll(dir))
		syscall.Sync()
	}()
	gids := make([]string, recovered)
	err = submitAll(ctx, len(gids), func(n int) *transaction {
		gids[n] = "open-" + strconv.Itoa(n)
		first, second := s.url(0, agrees), s.url(1+n%recoveryServices, hangs)
		return &transaction{gid: gids[n], kind: "saga", timeout: hangTimeout, steps: [][2]string{{first, first}, {second, second}}}
	})
	if err != nil {
		return nil, err
	}
	r = &Recovery{Server: server, Sagas: len(gids)}
	if r.Hanging, err = steady(ctx, &s.hanging); err != nil {
		return nil, err
	}
	if err := c.kill(); err != nil {
		return nil, err
	}
	before := make([]calls, len(gids))
	for i, gid := range gids {
		before[i] = s.seen(gid)
	}
	s.release()
	began := time.Now()
	took, err := c.run()
	if err != nil {
		return nil, err
	}
	r.Answers = took.Seconds()
	if err := b.watch(ctx, r, s, gids, before, began); err != nil {
		return nil, err
	}
	for i, gid := range gids {
		n := s.seen(gid)
		if n.compensate != [2]uint16{} {
			return nil, fmt.Errorf("saga %s was compensated although nobody refused it", gid)
		}
		if r.Seconds > 0 && n.action[1] == before[i].action[1] {
			return nil, fmt.Errorf("saga %s has ended and its second call was never answered", gid)
		}
		r.Repeated += max(0, int(n.action[0])-1) + max(0, int(n.action[1])-int(before[i].action[1])-1)
	}
	return r, nil
}

// watch waits until the coordinator has no open saga, or until its time is up, and fills in when what happened.
func (b *bench) watch(ctx context.Context, r *Recovery, s *services, gids []string, before []calls, began time.Time) error {
	for ctx.Err() == nil {
		now := time.Since(began).Seconds()
		r.Watched, r.Finished = now, 0
		for i, gid := range gids {
			if s.seen(gid).action[1] > before[i].action[1] {
				r.Finished++
			}
		}
		if r.Finished > 0 && r.First == 0 {
			r.First = now
		}
		if 2*r.Finished >= len(gids) && r.Half == 0 {
			r.Half = now
		}
		if r.Finished == len(gids) {
			open, err := some("submitted")
			if err != nil {
				return err
			}
			if !open {
				r.Seconds = time.Since(began).Seconds()
				return nil
			}
		}
		if now > b.patience.Seconds() {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ctx.Err()
}

// submitAll submits n transactions without waiting for them.
func submitAll(ctx context.Context, n int, of func(n int) *transaction) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make([]error, submitters)
	for i := range submitters {
		wg.Go(func() {
			c := newClient()
			defer c.close()
			for ctx.Err() == nil && failed[i] == nil {
				k := int(next.Add(1)) - 1
				if k >= n {
					return
				}
				_, failed[i] = c.submit(of(k))
			}
		})
	}
	wg.Wait()
	return first(append(failed, ctx.Err()))
}

// first of several errors, which mostly are one and the same.
func first(all []error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// steady waits until a number has not grown for a second and returns it.
func steady(ctx context.Context, n *atomic.Int64) (int, error) {
	was, since := int64(math.MinInt64), time.Now()
	for ctx.Err() == nil {
		if now := n.Load(); now != was {
			was, since = now, time.Now()
		}
		if time.Since(since) > time.Second {
			return int(was), nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, ctx.Err()
}
