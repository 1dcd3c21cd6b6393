package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// quietTime is how long each kind of quiet is watched.
const quietTime = 30 * time.Second

// quiet counts the requests of a server without clients, and of one with ten puts a second, both answered at commit.
func (b *bench) quiet(ctx context.Context) (err error) {
	b.store.Slow(b.delays[0])
	prefix := fmt.Sprintf("quiet-%d", time.Now().UnixNano())
	n, end, err := b.serve(ackCommit, prefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(), b.forget(prefix)) }()
	plain, endPlain, err := b.serve(without, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endPlain()) }()
	sleep(ctx, 5*time.Second) // what a start puts
	before := b.store.Counts()
	sleep(ctx, quietTime)
	q := &Quiet{IdleSeconds: quietTime.Seconds(), Idle: b.store.Counts().Minus(before).All()}
	more, err := n.RSS()
	if err != nil {
		return err
	}
	less, err := plain.RSS()
	if err != nil {
		return err
	}
	q.Shipping = float64(more - less)
	c, err := grpc.NewClient("passthrough:///"+n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer c.Close()
	kv := pb.NewKVClient(c)
	before = b.store.Counts()
	began := time.Now()
	for i := 0; time.Since(began) < quietTime && ctx.Err() == nil; i++ {
		if _, err := kv.Put(ctx, &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i%100), Value: []byte("v")}); err != nil {
			return err
		}
		sleep(ctx, time.Until(began.Add(time.Duration(i+1)*100*time.Millisecond)))
	}
	q.TenPuts = float64(b.store.Counts().Minus(before).All()) / time.Since(began).Seconds()
	b.report.Quiet = q
	fmt.Printf("  idle: %d requests in %.0f s, RSS %+.1f MB; ten puts a second: %.2f requests/s\n", q.Idle, q.IdleSeconds, q.Shipping/1e6, q.TenPuts)
	return ctx.Err()
}
