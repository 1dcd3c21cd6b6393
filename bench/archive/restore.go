package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// patience is how long the last of a gigabyte may take to reach the store.
const patience = 2 * time.Minute

// restore fills a server that ships to a directory, takes the server's disk away, brings it back, and counts the restored keys.
func (b *bench) restore(ctx context.Context) (err error) {
	b.store.Slow(b.delays[0])
	prefix := fmt.Sprintf("restore-%d", time.Now().UnixNano())
	defer func() { err = errors.Join(err, b.forget(prefix)) }()
	files, err := filepath.Abs(filepath.Join(b.dir, "archive"))
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	for _, from := range []string{b.store.URL(below + "/" + prefix), "file://" + files} {
		r, err := b.restoreFrom(ctx, from)
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		if from != "file://"+files {
			r.From = fmt.Sprintf("bucket, upload %v", b.delays[0])
		} else {
			r.From = "directory"
			err = filepath.WalkDir(files, func(_ string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				info, err := d.Info()
				if err == nil {
					r.Objects += info.Size()
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		b.report.Restore = append(b.report.Restore, *r)
		fmt.Printf("  restored %.2f GB from %s in %.1f s, CPU %.1f s, RSS %.0f MB, %d of %d keys\n", float64(r.Bytes)/1e9, r.From, r.Seconds, r.CPU,
			float64(r.RSS)/(1<<20), r.Found, r.Puts)
	}
	return nil
}

func (b *bench) restoreFrom(ctx context.Context, place string) (r *Restored, err error) {
	dir, err := os.MkdirTemp(b.dir, "server.")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, err := proctest.New(dir, proctest.Holdfast(b.bin, "--archive", place, "--memory", proctest.Memory), 1)
	if err == nil {
		err = c.Run()
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r = &Restored{Puts: int(b.gb * 1e9 / largeValue)}
	r.Bytes = int64(r.Puts) * largeValue
	l := &load{addr: c.Nodes[0].KV, clients: b.clients, size: largeValue, keys: r.Puts + 1, limit: r.Puts}
	if _, _, err := l.run(ctx, 0); err != nil {
		return nil, err
	}
	// One put that is answered when the bucket has it says that all before it is there.
	if err := putStored(ctx, c.Nodes[0].KV); err != nil {
		return nil, err
	}
	c.Close()
	if err := os.RemoveAll(c.Nodes[0].Dir); err != nil {
		return nil, err
	}
	back := filepath.Join(dir, "restored")
	p := proctest.NewProcess(filepath.Join(dir, "restore.log"), b.bin, "restore", "--from", place, "--data", back)
	began := time.Now()
	if err := p.Start(); err != nil {
		return nil, err
	}
	defer p.Kill()
	for over := false; !over; { // its memory is looked at while it runs: what the kernel says afterwards counts this process too
		if rss, err := p.PeakRSS(); err == nil {
			r.RSS = max(r.RSS, rss)
		}
		if used, err := p.CPU(); err == nil {
			r.CPU = max(r.CPU, used.Seconds())
		}
		select {
		case <-p.Exited():
			over = true
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := p.ExitError(); err != nil {
		return nil, fmt.Errorf("restore: %w\n%s", err, p.LogTail(5))
	}
	r.Seconds = time.Since(began).Seconds()
	return r, b.count(ctx, back, r)
}

// putStored puts one key and waits until the archive has it.
func putStored(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer c.Close()
	for { // a put whose own time is over before the store has caught up is written all the same
		if _, err = pb.NewKVClient(c).Put(storedSession(ctx), &pb.PutRequest{Key: []byte("/last"), Value: []byte("v")}); err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// count starts the restored server and counts its keys.
func (b *bench) count(ctx context.Context, dir string, r *Restored) error {
	addr, err := proctest.FreeAddress()
	if err != nil {
		return err
	}
	p := proctest.NewProcess(filepath.Join(b.dir, "restored.log"), b.bin, "serve", "--data", dir, "--kv", addr, "--admin", "off", "--memory", proctest.Memory)
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Kill()
	c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res, err := pb.NewKVClient(c).Range(ctx, &pb.RangeRequest{Key: []byte("/bench/"), RangeEnd: []byte("/bench0"), CountOnly: true}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("the restored server: %w\n%s", err, p.LogTail(5))
	}
	if r.Found = int(res.Count); r.Found != r.Puts {
		return fmt.Errorf("%d puts were acknowledged, %d keys restored", r.Puts, r.Found)
	}
	return nil
}
