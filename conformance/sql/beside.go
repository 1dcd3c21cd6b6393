package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	keyClients = 64
	keyConns   = 8   // connections that the clients share
	besideMost = 3.0 // how much longer a kv client may wait in its slowest hundredth while tables are loaded
)

// besidePrepare times kv clients alone and beside sysbench prepare.
func (s *suite) besidePrepare() (string, error) {
	alone, load := 10*time.Second, tables{n: 10, rows: 100000}
	if s.quick {
		alone, load = 1500*time.Millisecond, tables{n: 4, rows: 2500}
	}
	cluster, err := server(s.bin, filepath.Join(s.dir, "beside"))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	ctx, stop := context.WithTimeout(context.Background(), alone)
	before, err := putKeys(ctx, n)
	stop()
	if err != nil {
		return "", err
	}
	ctx, stop = context.WithCancel(context.Background())
	defer stop()
	var loaded string
	var failed error
	go func() {
		defer stop()
		loaded, failed = prepare(n, load)
	}()
	during, err := putKeys(ctx, n)
	if err = errors.Join(err, failed); err != nil {
		return "", err
	}
	a, b := quantile(before, 0.99), quantile(during, 0.99)
	ratio := float64(b) / float64(a)
	note := fmt.Sprintf("p99 of %d clients %s alone and %s beside, %.1f times; p50 %s and %s; %d and %d puts; %s", keyClients, round(a), round(b), ratio,
		round(quantile(before, 0.5)), round(quantile(during, 0.5)), len(before), len(during), loaded)
	if ratio > besideMost && !s.quick {
		return "", fmt.Errorf("%s; %.0f times is allowed", note, besideMost)
	}
	return note, nil
}

// putKeys has clients put keys one after another until ctx ends. It returns how long each put took.
func putKeys(ctx context.Context, n *proctest.Node) ([]time.Duration, error) {
	var conns []pb.KVClient
	for range keyConns {
		cc, err := grpc.NewClient("passthrough:///"+n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		defer cc.Close()
		conns = append(conns, pb.NewKVClient(cc))
	}
	value := []byte(strings.Repeat("v", 256))
	took, errs := make([][]time.Duration, keyClients), make([]error, keyClients)
	var wg sync.WaitGroup
	for i := range keyClients {
		wg.Go(func() {
			for j := 0; ctx.Err() == nil; j++ {
				began := time.Now()
				bound, cancel := context.WithTimeout(context.Background(), patience)
				_, err := conns[i%keyConns].Put(bound, &pb.PutRequest{Key: fmt.Appendf(nil, "beside/%d/%d", i, j%1000), Value: value})
				cancel()
				if err != nil && status.Code(err) != codes.Unavailable { // a put that the server gives up took as long as it took
					errs[i] = err
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	wg.Wait()
	all := slices.Concat(took...)
	if len(all) == 0 {
		errs = append(errs, errors.New("no key was put"))
	}
	return all, errors.Join(errs...)
}

// quantile returns the duration that the share q of all is not above.
func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
