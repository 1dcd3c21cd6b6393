package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// TestTwoServersShipToOnePlace: a data directory is copied, and both copies run and ship to the same place, with pauses of either. There is
// one history: it has every write that either of them acknowledged as archived, and neither server stops.
func TestTwoServersShipToOnePlace(t *testing.T) {
	processTest(t, false)
	beside(t)
	r := rng(t)
	rounds, said, ended := count("CLONES", 2, 50), 0, 0
	for round := range rounds {
		n, refused := twoServers(t, r, round)
		said += n
		ended += one(refused)
		if t.Failed() {
			break
		}
	}
	summary(t, "%d rounds, every other one on files and on a bucket: %s writes of either server said to be there, 0 missing; in %d rounds one of the two gave up shipping",
		rounds, grouped(said), ended)
}

// twoServers is one round. refused reports whether one of the two says that the other's history lies there.
func twoServers(t *testing.T, r *rand.Rand, round int) (said int, refused bool) {
	t.Helper()
	b, err := bucket.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Slow(time.Duration(r.IntN(40)) * time.Millisecond)
	place := b.URL("both")
	if round%2 == 0 {
		place = "file://" + t.TempDir()
	}
	var writers []*gone
	var clusters []*proctest.Cluster
	for range 2 {
		c := describe(t, 1, "--archive", place, "--tlog", "{tlog}", "--saga", "{saga}")
		c.Nodes[0].Setenv(append(b.Env(), "HOLDFAST_TEST_COPIES=1")...)
		cc, err := grpc.NewClient(c.Nodes[0].KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		g := newGone(t, c)
		g.conns = []*grpc.ClientConn{cc}
		clusters, writers = append(clusters, c), append(writers, g)
	}
	first, second := clusters[0].Nodes[0], clusters[1].Nodes[0]
	if err := clusters[0].Run(); err != nil {
		t.Fatal(err)
	}
	if !eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return writers[0].put(ctx, 0, fmt.Sprintf("before-%d", time.Now().UnixNano()), "archive")
	}) {
		t.Fatal("nothing is said to be in the archive")
	}
	kill(t, first)
	if out, err := exec.Command("cp", "-a", first.Dir+"/.", second.Dir).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v %s", err, out)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var busy sync.WaitGroup
	for i, c := range clusters {
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		for w := range 6 {
			own := rand.New(rand.NewPCG(uint64(seed), uint64(round*100+w)))
			busy.Go(func() { writers[i].write(ctx, "kv", 10*i+w, own) })
		}
	}
	for end := time.Now().Add(between(r, time.Second, 3*time.Second)); time.Now().Before(end); {
		n := []*proctest.Node{first, second}[r.IntN(2)]
		if err := n.Pause(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(between(r, 20*time.Millisecond, 500*time.Millisecond))
		if err := n.Resume(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(between(r, 20*time.Millisecond, 300*time.Millisecond))
	}
	stop()
	busy.Wait()
	for i, g := range writers {
		if !eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			return g.put(ctx, 0, fmt.Sprintf("still-%d-%d", i, time.Now().UnixNano()), "commit")
		}) {
			t.Errorf("%s takes no writes any more", g.c.Nodes[0].Name)
		}
		log, err := os.ReadFile(g.c.Nodes[0].LogFile())
		if err != nil {
			t.Fatal(err)
		}
		refused = refused || strings.Contains(string(log), "another history")
		kill(t, g.c.Nodes[0])
	}
	b.Slow(0)

	// Both are gone with their disks; what either said to be there is there.
	bin, err := proctest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		cmd := exec.Command(bin, args...)
		cmd.Env = append(os.Environ(), b.Env()...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(args[:1], " "), err, out)
		}
		return string(out)
	}
	run("verify", "--from", place)
	c := describe(t, 1, "--tlog", "{tlog}", "--saga", "{saga}")
	run("restore", "--from", place, "--data", c.Nodes[0].Dir)
	if t.Failed() {
		return 0, refused
	}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	held := stored(t, dial(t, c.Nodes[0].KV))
	for i, g := range writers {
		for name := range g.stored { // any order
			if _, ok := held["w/"+name]; !ok {
				t.Errorf("round %d on %s: server %d said that %s is there, and it is not", round, filepath.Base(place), i, name)
			}
		}
		said += len(g.stored)
	}
	return said, refused
}
