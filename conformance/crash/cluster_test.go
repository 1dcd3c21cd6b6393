package crash

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// etcdOnly is a path to an etcd to test instead, or "".
var etcdInstead = os.Getenv("CRASH_ETCD")

// processTest skips tests that start servers in `go test -short`, and tests without a counterpart when etcd stands in.
func processTest(t *testing.T, etcdHas bool) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers: not in the short unit tests, runs in make test")
	}
	if etcdInstead != "" && !etcdHas {
		t.Skip("CRASH_ETCD is set and etcd has no counterpart")
	}
}

// beside lets a test run beside others of its kind, in a short run. It waits for elections and restarts, and judges the final state, not
// its speed. The long run has one test at a time on the machine, as its figures say.
func beside(t *testing.T) {
	t.Helper()
	if !long {
		t.Parallel()
	}
}

// describe makes a cluster without starting it. Its nodes end with the test; on failure their last lines are logged.
func describe(t *testing.T, n int, flags ...string) *proctest.Cluster {
	t.Helper()
	var kind proctest.Server
	if etcdInstead != "" {
		kind = proctest.Etcd(etcdInstead)
	} else {
		bin, err := proctest.Binary()
		if err != nil {
			t.Fatal(err)
		}
		kind = proctest.Holdfast(bin, flags...)
	}
	c, err := proctest.New(t.TempDir(), kind, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			for _, node := range c.Nodes {
				t.Logf("%s, last lines:\n%s", node.Name, node.LogTail(25))
			}
		}
	})
	return c
}

// start is describe and run.
func start(t *testing.T, n int, flags ...string) *proctest.Cluster {
	t.Helper()
	c := describe(t, n, flags...)
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return c
}

// patiently repeats a read that a member has given up on. An election under way, or a machine that is busy, takes the server's own time.
// Only in the short run; a read that is repeated changes nothing.
func patiently(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	reads := slices.Contains([]string{"Range", "HashKV", "Status", "MemberList", "LeaseTimeToLive", "LeaseLeases", "Authenticate", "AuthStatus", "UserList", "RoleGet"},
		method[strings.LastIndexByte(method, '/')+1:])
	for {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if err == nil || !reads || long || ctx.Err() != nil || !slices.Contains(gaveUp, status.Convert(err).Message()) {
			return err
		}
	}
}

// gaveUp is what a member says that has waited as long as it does.
var gaveUp = []string{rpctypes.ErrTimeout.Error(), rpctypes.ErrTimeoutDueToLeaderFail.Error(), rpctypes.ErrNoLeader.Error(), rpctypes.ErrLeaderChanged.Error()}

// dial opens an unmodified etcd client.
func dial(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	return dialWith(t, endpoints)
}

// dialEager is dial for servers that die every second. By default gRPC waits longer after each failed dial, up to two minutes. A client
// whose dials fall between two kills too often would keep no lease and follow no watch.
func dialEager(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	return dialWith(t, endpoints, grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * time.Second,
		Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 300 * time.Millisecond}}))
}

func dialWith(t *testing.T, endpoints []string, options ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	options = append(options, grpc.WithChainUnaryInterceptor(patiently))
	cli, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: wait.Limit(t), Logger: zap.NewNop(), DialOptions: options,
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second, MaxCallRecvMsgSize: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Close() })
	return cli
}

// conn is a bare gRPC connection, for requests no client library would send.
func conn(t *testing.T, endpoint string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(patiently),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// within is a context that ends after d or with the test.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok reports true, or until the test has waited as long as its run allows; it returns which.
func eventually(t *testing.T, ok func() bool) bool {
	t.Helper()
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(20 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// settle waits until all members show the same revision and returns it. No writes may be under way.
func settle(t *testing.T, c *proctest.Cluster) int64 {
	t.Helper()
	var revs []int64
	same := eventually(t, func() bool {
		revs = revs[:0]
		for _, node := range c.Nodes {
			st, err := node.Status(t.Context())
			if err != nil {
				revs = append(revs, -1)
				continue
			}
			revs = append(revs, st.Header.Revision)
		}
		return revs[0] >= 0 && slices.Min(revs) == slices.Max(revs)
	})
	if !same {
		t.Fatalf("members do not come to the same revision: %v", revs)
	}
	return revs[0]
}

// hashes compares the members' hashes of everything visible at the newest revision and returns the common one.
func hashes(t *testing.T, c *proctest.Cluster) uint32 {
	t.Helper()
	rev := settle(t, c)
	var all []uint32
	for _, node := range c.Nodes {
		res, err := pb.NewMaintenanceClient(conn(t, node.KV)).HashKV(wait.Context(t), &pb.HashKVRequest{Revision: rev})
		if err != nil {
			t.Fatalf("hash of %s at revision %d: %v", node.Name, rev, err)
		}
		all = append(all, res.Hash)
	}
	if slices.Min(all) != slices.Max(all) {
		t.Fatalf("state hashes differ at revision %d: %x", rev, all)
	}
	return all[0]
}

// metric reads one sample of /metrics: the sum over all label sets whose line begins with the given text.
func metric(t *testing.T, node *proctest.Node, prefix string) (sum float64, found bool) {
	t.Helper()
	res, err := http.Get("http://" + node.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, prefix) && len(fields) >= 2 {
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				t.Fatalf("metric %q: %v", line, err)
			}
			sum, found = sum+v, true
		}
	}
	return sum, found
}

// stacks ends a node that hangs and returns what its goroutines were doing.
func stacks(n *proctest.Node) string {
	before := n.LogTail(1 << 30)
	_ = syscall.Kill(n.PID(), syscall.SIGQUIT) // the runtime prints all stacks and exits
	select {
	case <-n.Exited():
	case <-time.After(10 * time.Second):
		return "not even SIGQUIT ends it"
	}
	return strings.TrimPrefix(n.LogTail(1<<30), before)
}

// logSteps says where the time of writes went on each member: how often each step ran and how long it took on average.
func logSteps(t *testing.T, c *proctest.Cluster) {
	t.Helper()
	for _, node := range c.Nodes {
		var line strings.Builder
		for _, step := range []string{"propose", "append", "sync", "replicate", "commit", "apply"} {
			sum, _ := metric(t, node, "holdfast_"+step+"_seconds_sum")
			n, _ := metric(t, node, "holdfast_"+step+"_seconds_count")
			fmt.Fprintf(&line, ", %s %.0f × %.1f ms", step, n, 1000*sum/max(n, 1))
		}
		t.Logf("%s%s", node.Name, line.String())
	}
}

// quantile of durations; q in [0, 1].
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Clone(d)
	slices.Sort(s)
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// tenth rounds for printing.
func tenth(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
