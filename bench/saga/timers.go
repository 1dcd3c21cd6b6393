package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	farDelay = 24 * 3600 // seconds: not due during the measurement
	// dueAtRestart is how many timers beside those are due soon after the restart.
	dueAtRestart = 5000
	settling     = 3 * time.Second // after a start, before memory is looked at
)

// Timers is the cost of open timers for a restarted server.
type Timers struct {
	Open  int     `json:"open"`
	Setup float64 `json:"submitted_in_s"`
	Idle  int64   `json:"idle_rss_bytes"` // of a server without any
	Ready float64 `json:"ready_after_s"`  // the restarted server, to its first answer
	RSS   int64   `json:"restarted_rss_bytes"`
	Due   Delayed `json:"due_after_restart"`
}

func (t *Timers) String() string {
	return fmt.Sprintf("%d open timers (submitted in %.0f s): ready %.2f s after the restart, %.1f MB resident, %.1f MB above an idle server; "+
		"of %d then due %d early, %d not delivered, late by p50 %.1f ms, p99 %.1f ms", t.Open, t.Setup, t.Ready, megabytes(t.RSS), megabytes(t.RSS-t.Idle),
		t.Due.Messages, t.Due.Early, t.Due.Lost, t.Due.P50, t.Due.P99)
}

func megabytes(n int64) float64 { return float64(n) / (1 << 20) }

// openTimers measures Holdfast alone: it starts a server, submits messages for tomorrow and some for soon, kills it and starts it again.
func (b *bench) openTimers(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(b.dir, "timers.")
	if err != nil {
		return err
	}
	c, err := b.start(holdfast, filepath.Join(dir, "coordinator"))
	if err != nil {
		return err
	}
	s, err := newServices(1)
	if err != nil {
		return errors.Join(err, c.close())
	}
	defer func() {
		err = errors.Join(err, s.close(), c.close(), os.RemoveAll(dir))
		syscall.Sync()
	}()
	t := &Timers{Open: b.timers}
	time.Sleep(settling)
	if t.Idle, err = c.memory(); err != nil {
		return err
	}
	began := time.Now()
	err = submitAll(ctx, b.timers, func(n int) *transaction {
		return &transaction{gid: "far-" + strconv.Itoa(n), kind: "msg", delay: farDelay, steps: [][2]string{{s.url(0, agrees), ""}}}
	})
	if err != nil {
		return err
	}
	t.Setup = time.Since(began).Seconds()
	sent, err := sendDelayed(ctx, s, dueAtRestart)
	if err != nil {
		return err
	}
	if err := c.kill(); err != nil {
		return err
	}
	ready, err := c.run()
	if err != nil {
		return err
	}
	t.Ready = ready.Seconds()
	time.Sleep(settling)
	if t.RSS, err = c.memory(); err != nil {
		return err
	}
	late, err := arrivals(ctx, s, sent, delaySeconds*time.Second, time.Now().Add(b.patience))
	if err != nil {
		return err
	}
	t.Due = *judgeDelays(late)
	t.Due.Server = holdfast
	for n := range b.timers {
		if n%1000 == 0 && s.seen("far-"+strconv.Itoa(n)).action != [2]uint16{} {
			return fmt.Errorf("message far-%d was delivered a day early", n)
		}
	}
	b.report.Timers = t
	fmt.Println("  " + t.String())
	return nil
}
