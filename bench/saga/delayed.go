package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	delayedMessages = 10_000
	delayedRate     = 1000 // submitted a second, so they are due over ten seconds
	delaySeconds    = 10
)

// Delayed says how late messages were delivered that should wait. A message is late by the time between the end of its delay and the call.
// The delay is counted from just before the submit, so the duration of the submit is included. One called sooner than its delay is early.
type Delayed struct {
	Server   string  `json:"coordinator"`
	Killed   bool    `json:"leader_killed"`
	Messages int     `json:"messages"`
	Early    int     `json:"early"`
	Lost     int     `json:"lost"` // never called in the time they were watched
	P50      float64 `json:"p50_late_ms"`
	P99      float64 `json:"p99_late_ms"`
	Max      float64 `json:"max_late_ms"`
}

func (d *Delayed) String() string {
	how := ""
	if d.Killed {
		how = ", leader killed meanwhile"
	}
	return fmt.Sprintf("%s%s: %d messages, %d early, %d not delivered, late by p50 %.1f ms, p99 %.1f ms, most %.0f ms", d.Server, how, d.Messages,
		d.Early, d.Lost, d.P50, d.P99, d.Max)
}

// delayed measures delayed messages, and with three nodes what a leader's end does to them.
func (b *bench) delayed(ctx context.Context) error {
	var failed error
	for _, server := range b.servers {
		if server == none || server == floor || ctx.Err() != nil {
			continue
		}
		kills := []bool{false}
		if server == three {
			kills = []bool{false, true}
		}
		for _, kill := range kills {
			d, err := b.delay(ctx, server, kill)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", server, err))
				continue
			}
			b.report.Delayed = append(b.report.Delayed, d)
			fmt.Println("  " + d.String())
		}
	}
	return failed
}

func (b *bench) delay(ctx context.Context, server string, kill bool) (d *Delayed, err error) {
	dir, err := os.MkdirTemp(b.dir, "delayed.")
	if err != nil {
		return nil, err
	}
	c, err := b.start(server, filepath.Join(dir, "coordinator"))
	if err != nil {
		return nil, err
	}
	s, err := newServices(1)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	defer func() {
		err = errors.Join(err, s.close(), c.close(), os.RemoveAll(dir))
		syscall.Sync()
	}()
	sent, err := sendDelayed(ctx, s, delayedMessages)
	if err != nil {
		return nil, err
	}
	if kill {
		// The first are due now: those whose time comes without a leader are late by the election.
		leader, err := c.cluster.WaitLeader(10 * time.Second)
		if err != nil {
			return nil, err
		}
		if err := leader.Kill(); err != nil {
			return nil, err
		}
	}
	late, err := arrivals(ctx, s, sent, delaySeconds*time.Second, time.Now().Add(b.patience))
	if err != nil {
		return nil, err
	}
	d = judgeDelays(late)
	d.Server, d.Killed = server, kill
	return d, nil
}

func delayedGid(n int) string { return "delayed-" + strconv.Itoa(n) }

// sendDelayed submits messages at a steady rate and returns when each was sent.
func sendDelayed(ctx context.Context, s *services, n int) (sent []time.Time, err error) {
	sent = make([]time.Time, n)
	_, err = paced(ctx, delayedRate, submitters, time.Duration(n)*time.Second/delayedRate, func(n int) *transaction {
		sent[n] = time.Now()
		return &transaction{gid: delayedGid(n), kind: "msg", delay: delaySeconds, steps: [][2]string{{s.url(0, stamps), ""}}}
	})
	return sent, err
}

// never is the lateness of a message that was not called.
const never = time.Duration(1<<63 - 1)

// arrivals waits until every message has been called, or until a time, and returns how late each was.
func arrivals(ctx context.Context, s *services, sent []time.Time, delay time.Duration, until time.Time) ([]time.Duration, error) {
	late := make([]time.Duration, len(sent))
	for missing := true; missing && ctx.Err() == nil; {
		missing = false
		for n := range sent {
			late[n] = never
			if at := s.seen(delayedGid(n)).stamped; !at.IsZero() {
				late[n] = at.Sub(sent[n].Add(delay))
			} else {
				missing = true
			}
		}
		if time.Now().After(until) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return late, ctx.Err()
}

func judgeDelays(late []time.Duration) *Delayed {
	d := &Delayed{Messages: len(late)}
	var came []time.Duration
	for _, l := range late {
		switch {
		case l == never:
			d.Lost++
			continue
		case l < 0:
			d.Early++
		}
		came = append(came, l)
	}
	slices.Sort(came)
	d.P50, d.P99, d.Max = percentile(came, 50), percentile(came, 99), percentile(came, 100)
	return d
}
