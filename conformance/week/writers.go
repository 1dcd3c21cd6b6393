package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	writerCount = 64
	// writerPause is between two writes of a writer.
	writerPause = 200 * time.Millisecond
	// writePatience is how long a writer waits for one answer.
	writePatience = 8 * time.Second
)

// writers put a key after another, each through one member after another, and remember which puts were acknowledged. A put that failed
// is not made again: the next has another key.
type writers struct {
	h       *house
	clients map[string]*clientv3.Client // by member
	stop    atomic.Bool
	wg      sync.WaitGroup
	acked   [writerCount][]bool // each is its writer's until wg is done
	n       atomic.Int64
}

// connect makes a client for each member, and closes the one of the member that had its name before.
func (w *writers) connect(members ...*member) error {
	for _, m := range members {
		c, err := w.h.to(m)
		if err != nil {
			return err
		}
		if before := w.clients[m.Name]; before != nil {
			_ = before.Close() // its member is gone
		}
		w.clients[m.Name] = c
	}
	return nil
}

func newWriters(h *house) *writers { return &writers{h: h, clients: map[string]*clientv3.Client{}} }

// begin has them write at the members that roster says, until end.
func (w *writers) begin(roster *roster) {
	for i := range writerCount {
		w.wg.Go(func() {
			for seq := 0; !w.stop.Load(); seq++ {
				m, c := roster.pick(i + seq)
				f := failure{client: "put", member: m, began: time.Now()}
				ctx, cancel := context.WithTimeout(context.Background(), writePatience)
				_, err := c.Put(ctx, weekKey(i, seq), "written")
				cancel()
				w.acked[i] = append(w.acked[i], err == nil)
				if err == nil {
					w.n.Add(1)
				} else {
					f.text = err.Error()
					w.h.journal.fail(f)
				}
				time.Sleep(writerPause)
			}
		})
	}
}

func weekKey(writer, seq int) string { return fmt.Sprintf("week/%02d/%07d", writer, seq) }

func (w *writers) end() {
	w.stop.Store(true)
	w.wg.Wait()
}

// check reads everything from every member and says what was acknowledged and is missing.
func (w *writers) check(members []*member) (note string, err error) {
	acked, missing := 0, 0
	for _, m := range members {
		err := w.h.ask(func(_ context.Context, c *clientv3.Client) error {
			for i := range writerCount {
				found, err := w.keys(c, i)
				if err != nil {
					return err
				}
				for seq, yes := range w.acked[i] {
					if !yes {
						continue
					}
					if acked++; !found[weekKey(i, seq)] {
						missing++
					}
				}
			}
			return nil
		}, m)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	note = fmt.Sprintf("%d puts acknowledged, read from each of %d members", acked/len(members), len(members))
	if missing > 0 {
		err = fmt.Errorf("%d are missing", missing)
	}
	return note, err
}

// keys are all keys of a writer, read in pages.
func (w *writers) keys(c *clientv3.Client, writer int) (map[string]bool, error) {
	prefix := fmt.Sprintf("week/%02d/", writer)
	found, from, end := map[string]bool{}, prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		res, err := c.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(5000), clientv3.WithKeysOnly())
		cancel()
		if err != nil {
			return nil, err
		}
		for _, kv := range res.Kvs {
			found[string(kv.Key)] = true
			from = string(kv.Key) + "\x00"
		}
		if !res.More {
			return found, nil
		}
	}
}
