package crash

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestQuietAfterReading reads many times more than memory holds and leaves the server alone. Within a minute it is about as small as before
// the first request, although there are no writes that would bring a collection about.
func TestQuietAfterReading(t *testing.T) {
	processTest(t, false)
	const value = 1000
	keys := count("REST_KEYS", 20_000, 200_000)
	megabytes := count("REST_MB", 300, 10_000)
	c := start(t, 1)
	node := c.Nodes[0]
	cli := dial(t, node.KV)
	for from := 0; from < keys; from += 100 {
		var ops []clientv3.Op
		for i := from; i < from+100; i++ {
			ops = append(ops, clientv3.OpPut(smallKey(i), string(bytes.Repeat([]byte(strconv.Itoa(i%10)), value))))
		}
		if _, err := cli.Txn(wait.Context(t)).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	patience := 62 * time.Second
	if !long {
		node.Setenv("HOLDFAST_TEST_QUIET=4s")
		patience = wait.Limit(t)
	}
	if err := node.Term(wait.Limit(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(node); err != nil {
		t.Fatal(err)
	}
	rss := func() int64 {
		n, err := node.RSS()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	idle := rss()
	r := rng(t)
	const page = 500
	for read := 0; read < megabytes<<20; {
		from := r.IntN(keys - page)
		res, err := cli.Get(wait.Context(t), smallKey(from), clientv3.WithRange(smallKey(from+page)))
		if err != nil || len(res.Kvs) != page {
			t.Fatalf("a page from %d: %d keys, %v", from, len(res.Kvs), err)
		}
		read += page * value
	}
	busy, began := rss(), time.Now()
	bar := idle * 13 / 10
	if busy <= bar {
		t.Errorf("RSS %d MB after reading and %d MB before: there is nothing to give back", busy>>20, idle>>20)
	}
	small := rss()
	for ; small > bar; small = rss() {
		if time.Since(began) > patience {
			t.Fatalf("RSS %d MB %s after reading %d MB, %d MB before: bar %d MB", small>>20, patience, megabytes, idle>>20, bar>>20)
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(began)
	// Dropped blocks are read again.
	if res, err := cli.Get(wait.Context(t), smallKey(7), clientv3.WithRange(smallKey(9))); err != nil || len(res.Kvs) != 2 {
		t.Errorf("after the rest: %v %v", res, err)
	}
	summary(t, "quiet after reading: RSS %.1f MB when ready, %.1f MB after %d MB had been read, %.1f MB %s later", float64(idle)/(1<<20), float64(busy)/(1<<20),
		megabytes, float64(small)/(1<<20), tenth(took))
}
