package kv_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestARightPasswordBesideGuessers: two hundred guess from other addresses without a pause, at the user's name and at others.
func TestARightPasswordBesideGuessers(t *testing.T) {
	if testing.Short() {
		t.Skip("passwords at full price")
	}
	s := serve(t, doorkv.Options{})
	enableAuth(t, s)
	from := func(host string) pb.AuthClient {
		dial := func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).DialContext(ctx, "tcp", addr)
		}
		c := must(grpc.NewClient("passthrough:///"+s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial)))(t)
		t.Cleanup(func() { c.Close() })
		return pb.NewAuthClient(c)
	}
	var compared atomic.Int64 // guesses
	// median is how many guesses were compared while a right password waited. Counted and not timed: a busy machine does all of them slowly.
	median := func(host string) int64 {
		c, meanwhile := from(host), make([]int64, 9)
		for i := range meanwhile {
			before := compared.Load()
			_, err := c.Authenticate(context.Background(), &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"})
			for status.Code(err) == codes.ResourceExhausted { // nothing was compared in time; the guesses go on counting
				_, err = c.Authenticate(context.Background(), &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"})
			}
			if err != nil {
				t.Fatal(err)
			}
			meanwhile[i] = compared.Load() - before
		}
		slices.Sort(meanwhile)
		return meanwhile[len(meanwhile)/2]
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range 200 {
		c, name := from(fmt.Sprintf("127.0.2.%d", i+1)), []string{"alice", "root", "nobody"}[i%3]
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := c.Authenticate(ctx, &pb.AuthenticateRequest{Name: name, Password: "guess"})
				if err == nil {
					t.Error("a guess was right")
				}
				if code := status.Code(err); code != codes.ResourceExhausted && code != codes.Canceled {
					compared.Add(1)
				}
			}
		})
	}
	wait.Until(t, "some guesses are compared", func() bool { return compared.Load() >= 3 })
	for _, host := range []string{"127.0.1.1", "127.0.1.2"} {
		// In the order of arrival it would be two hundred.
		if beside := median(host); beside > 50 {
			t.Errorf("from %s a right password waits for %d guesses", host, beside)
		} else {
			t.Logf("from %s a right password waits for %d guesses, %d in all", host, beside, compared.Load())
		}
	}
}

// TestEveryNameCostsTheSame: a refusal takes as long as comparing a password, for every name.
func TestEveryNameCostsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("passwords at full price")
	}
	s := serve(t, doorkv.Options{})
	root := enableAuth(t, s)
	must(root.UserAddWithOptions(context.Background(), "cert", "", &clientv3.UserAddOptions{NoPassword: true}))(t)
	c := pb.NewAuthClient(s.client(t).ActiveConnection())
	// By CPU time of the process: on a machine that does something else, one of these may wait twice as long as the next.
	cost := func(f func()) time.Duration {
		var before, after syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		f()
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		return time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	}
	for _, how := range []struct {
		name string
		ask  func(user string)
	}{
		{"Authenticate", func(user string) {
			_, _ = c.Authenticate(context.Background(), &pb.AuthenticateRequest{Name: user, Password: "x"}) // refused
		}},
		{"Basic", func(user string) { s.door.RootBasic("192.0.2."+user, user, "x") }},
	} {
		// The least of several rounds is the cost of a comparison. A name that is refused without one stays far below it in any number of
		// rounds. So more rounds may be played until every name has been seen to cost enough.
		least, cheap := map[string]time.Duration{}, ""
		for round := range 12 {
			for _, user := range []string{"root", "nobody", "alice", "cert"} {
				took := cost(func() { how.ask(user) })
				if old, ok := least[user]; !ok || took < old {
					least[user] = took
				}
			}
			cheap = ""
			for user, took := range least {
				if took < least["root"]/2 {
					cheap = user
				}
			}
			if round >= 2 && cheap == "" {
				break
			}
		}
		if cheap != "" {
			t.Errorf("%s: %s costs %v of CPU time, root %v", how.name, cheap, least[cheap], least["root"])
		}
	}
}
