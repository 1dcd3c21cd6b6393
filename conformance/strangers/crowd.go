package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// crowd is many honest clients that stay: what an API server or a gateway has open all the time.
type crowd struct {
	name                    string
	conns, streams, watches int // streams of a connection, watches of a stream
	tls                     bool
}

// crowds fit --memory 256MiB beside writers.
var crowds = []*crowd{
	{name: "1,000 streams with 10 idle watches each on 100 connections", conns: 100, streams: 10, watches: 10},
	{name: "1,000 connections with one watch each", conns: 1000, streams: 1, watches: 1},
	{name: "1,000 streams with 10 idle watches each on 100 connections", conns: 100, streams: 10, watches: 10, tls: true},
}

const (
	writers = 64
	// writerPause is between two puts of a writer.
	writerPause = 20 * time.Millisecond
	// sampled watches hear of a put in the end: one of so many.
	sampled = 23
	// heard is how long an event may take to come.
	heard = 10 * time.Second
)

// crowdWatch is one watch of a crowd, of a key of its own.
type crowdWatch struct {
	key    string
	events chan struct{}
}

// stay has the crowd stay beside the writers for a time. Nothing of it may be cut, and in the end its watches must hear.
func (c *campaign) stay(of *crowd, lasts time.Duration) (note string, err error) {
	dir, err := os.MkdirTemp("", "strangers")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	s, err := c.serve(dir, of.tls)
	if err != nil {
		return "", err
	}
	defer s.cluster.Close()
	t := &target{at: ports(s.node), port: "kv", from: []string{neighbourAddress}, tls: s.conf}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	var cut atomic.Int64
	var first atomic.Pointer[error]
	lost := func(err error) {
		if ctx.Err() == nil {
			cut.Add(1)
			first.CompareAndSwap(nil, &err)
		}
	}
	var watches []*crowdWatch
	for range of.conns {
		conn, err := t.client(ctx)
		if err != nil {
			return "", err
		}
		for range of.streams {
			more, err := openWatches(ctx, conn, len(watches), of.watches, &wg, lost)
			if err != nil {
				return "", fmt.Errorf("after %d watches: %w", len(watches), err)
			}
			watches = append(watches, more...)
		}
	}
	conn, err := t.client(ctx)
	if err != nil {
		return "", err
	}
	var puts, refused atomic.Int64
	var why atomic.Pointer[error]
	writing, end := context.WithTimeout(ctx, lasts)
	defer end()
	var writes sync.WaitGroup
	for w := range writers {
		writes.Go(func() {
			for i := 0; writing.Err() == nil; i++ {
				// The last put outlives the writing: the server may tell of its deadline before this process sees it.
				one, done := context.WithTimeout(ctx, patience)
				_, err := pb.NewKVClient(conn).Put(one, &pb.PutRequest{Key: fmt.Appendf(nil, "writer/%d/%d", w, i%1000), Value: make([]byte, 100)})
				done()
				if puts.Add(1); err != nil && refused.Add(1) == 1 {
					why.Store(&err)
				}
				select {
				case <-time.After(writerPause):
				case <-writing.Done():
				}
			}
		})
	}
	writes.Wait()
	deaf := 0
	for i := 0; i < len(watches); i += sampled {
		w := watches[i]
		if _, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte(w.key)}); err != nil {
			return "", err
		}
		select {
		case <-w.events:
		case <-time.After(heard):
			deaf++
		}
	}
	note = fmt.Sprintf("%d watches, %d puts beside them", len(watches), puts.Load())
	var errs []error
	if n := cut.Load(); n > 0 {
		errs = append(errs, fmt.Errorf("%d watches or streams were cut, the first: %w", n, *first.Load()))
	}
	if deaf > 0 {
		errs = append(errs, fmt.Errorf("%d of %d sampled watches did not hear", deaf, (len(watches)+sampled-1)/sampled))
	}
	if n := refused.Load(); n > 0 { // its writer has stored why: all have ended
		errs = append(errs, fmt.Errorf("%d puts were refused, the first: %w", n, *why.Load()))
	}
	peak, err := s.node.PeakRSS()
	if err == nil && peak > mostResident {
		err = fmt.Errorf("%d MB resident", peak/1e6)
	}
	return fmt.Sprintf("%s; %d MB", note, peak/1e6), errors.Join(append(errs, err)...)
}

// openWatches opens one stream with n watches, numbered from a number on, and waits until the server has them all. lost hears of its end.
func openWatches(ctx context.Context, conn *grpc.ClientConn, from, n int, wg *sync.WaitGroup, lost func(error)) ([]*crowdWatch, error) {
	stream, err := pb.NewWatchClient(conn).Watch(ctx)
	if err != nil {
		return nil, err
	}
	var all []*crowdWatch
	byID := map[int64]*crowdWatch{}
	for i := range n {
		w := &crowdWatch{key: fmt.Sprintf("crowd/%d", from+i), events: make(chan struct{}, 1)}
		create := &pb.WatchCreateRequest{Key: []byte(w.key)}
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
			return nil, err
		}
		res, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if !res.Created || res.Canceled {
			return nil, fmt.Errorf("a watch is refused: %s", res.CancelReason)
		}
		byID[res.WatchId] = w
		all = append(all, w)
	}
	wg.Go(func() {
		for {
			res, err := stream.Recv()
			if err != nil {
				lost(err)
				return
			}
			if res.Canceled {
				lost(fmt.Errorf("cancelled: %s", res.CancelReason))
			}
			if w := byID[res.WatchId]; w != nil && len(res.Events) > 0 {
				select {
				case w.events <- struct{}{}:
				default: // it is known already
				}
			}
		}
	})
	return all, nil
}
