// Command etcdfile takes a history from Holdfast to etcd 3.7.3 and back by files, with etcd's own tools, and compares the three servers. It
// compares every key at sampled revisions (all if they are few), and every watch event from the compacted revision on. It also compares
// leases with their keys, users and roles. Then it writes the same to all and compares again. Last it kills an etcd, 3.7.3 and 3.4, under
// writes, imports its data directory, and takes its place under the name etcd. Both must equal that etcd once it runs again.
//
//	etcdfile [-keys 1000000] [-seed S] [-samples 6]
//
// The last line says what was compared and how large the files were.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

type options struct {
	keys, samples   int
	seed            uint64
	peers, holdfast string
}

func main() {
	var o options
	flag.IntVar(&o.keys, "keys", 1_000_000, "how many keys; half as many changes come on top")
	flag.IntVar(&o.samples, "samples", 6, "at how many revisions everything is read; at all of them if there are at most 40 times as many")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "what the history is drawn from")
	flag.StringVar(&o.peers, "peers", "build/peers", "where `make peers` has put etcd 3.7.3")
	flag.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary under test")
	flag.Parse()
	fmt.Printf("seed %d, %d keys\n", o.seed, o.keys)
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "etcdfile:", err)
		os.Exit(1)
	}
}

// tool runs a program to its end.
func tool(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// server is one server of one member, with its client.
type server struct {
	name string
	*proctest.Cluster
	c *clientv3.Client
}

func prepare(dir, name string, kind proctest.Server) (*server, error) {
	c, err := proctest.New(filepath.Join(dir, name), kind, 1)
	return &server{name: name, Cluster: c}, err
}

func (s *server) begin() (err error) {
	if err := s.Run(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.c, err = clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), DialTimeout: 20 * time.Second, Logger: zap.NewNop(),
		MaxCallRecvMsgSize: 64 << 20})
	return err
}

func (s *server) close() {
	if s.c != nil {
		s.c.Close()
	}
	s.Close()
}

// save writes what etcdctl snapshot save would: its whole work is to copy the stream.
func (s *server) save(file string) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	r, err := s.c.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := io.Copy(f, r)
	if err != nil {
		return n, fmt.Errorf("snapshot of %s: %w", s.name, err)
	}
	return n, f.Close()
}

func run(o *options) error {
	dir, err := os.MkdirTemp("", "etcdfile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	etcdutl := filepath.Join(o.peers, "etcd-3.7.3", "etcdutl")
	ours, err := prepare(dir, "holdfast", proctest.Holdfast(o.holdfast))
	if err != nil {
		return err
	}
	defer ours.close()
	if err := ours.begin(); err != nil {
		return err
	}
	began := time.Now()
	h, err := fill(ours.c, o)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	fmt.Printf("%d changes up to revision %d, compacted at %d, in %.0f s\n", h.changes, h.revision, h.compacted, time.Since(began).Seconds())

	began = time.Now()
	file := filepath.Join(dir, "ours.db")
	size, err := ours.save(file)
	if err != nil {
		return err
	}
	fmt.Printf("holdfast's file: %d MiB in %.1f s\n", size>>20, time.Since(began).Seconds())
	out, err := tool(etcdutl, "snapshot", "status", file, "-w", "json")
	if err != nil {
		return err
	}
	if want := fmt.Sprintf(`"revision":%d,`, h.revision); !strings.Contains(out, want) || !strings.Contains(out, `"version":"3.7.0"`) {
		return fmt.Errorf("etcdutl snapshot status says %s; want %s", out, want)
	}

	theirs, err := prepare(dir, "etcd", proctest.Etcd(filepath.Join(o.peers, "etcd-3.7.3", "etcd"), "--quota-backend-bytes", "8589934592"))
	if err != nil {
		return err
	}
	defer theirs.close()
	n := theirs.Nodes[0]
	if err := os.Remove(n.Dir); err != nil {
		return err
	}
	if _, err := tool(etcdutl, "snapshot", "restore", file, "--data-dir", n.Dir, "--name", n.Name,
		"--initial-cluster", n.Name+"=http://"+n.Peer, "--initial-advertise-peer-urls", "http://"+n.Peer); err != nil {
		return err
	}
	if err := theirs.begin(); err != nil {
		return err
	}
	if err := same(o, h, ours, theirs); err != nil {
		return err
	}

	began = time.Now()
	file = filepath.Join(dir, "theirs.db")
	if size, err = theirs.save(file); err != nil {
		return err
	}
	back, err := prepare(dir, "again", proctest.Holdfast(o.holdfast))
	if err != nil {
		return err
	}
	defer back.close()
	if out, err = tool(o.holdfast, "import", "--from", file, "--data", back.Nodes[0].Dir); err != nil {
		return err
	}
	fmt.Printf("etcd's file: %d MiB, imported in %.1f s: %s\n", size>>20, time.Since(began).Seconds(), strings.SplitN(out, "\n", 2)[0])
	if err := back.begin(); err != nil {
		return err
	}
	if err := same(o, h, theirs, back); err != nil {
		return err
	}

	// All three go on alike.
	all := []*server{ours, theirs, back}
	for _, s := range all {
		if err := goOn(s.c, h); err != nil {
			return fmt.Errorf("%s goes on: %w", s.name, err)
		}
	}
	h.revision, h.compacted = h.revision+3, h.revision-1
	for _, s := range all[1:] {
		if err := same(o, h, ours, s); err != nil {
			return fmt.Errorf("after more writes: %w", err)
		}
	}
	for _, version := range []string{"3.7.3", "3.4"} {
		if err := dead(o, filepath.Join(dir, "dead-"+version), version); err != nil {
			return fmt.Errorf("a killed etcd %s: %w", version, err)
		}
	}
	fmt.Printf("equal: %d keys and %d changes from holdfast to etcd 3.7.3 and back, and after more writes\n", o.keys, h.changes)
	return nil
}
