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
	median := func(host string) time.Duration {
		c, took := from(host), make([]time.Duration, 9)
		for i := range took {
			began := time.Now()
			_, err := c.Authenticate(context.Background(), &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"})
			for status.Code(err) == codes.ResourceExhausted && time.Since(began) < time.Minute { // a machine that does little else; it counts as slow
				_, err = c.Authenticate(context.Background(), &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"})
			}
			if err != nil {
				t.Fatal(err)
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	alone := median("127.0.1.1")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var guesses atomic.Int64
	for i := range 200 {
		c, name := from(fmt.Sprintf("127.0.2.%d", i+1)), []string{"alice", "root", "nobody"}[i%3]
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := c.Authenticate(ctx, &pb.AuthenticateRequest{Name: name, Password: "guess"})
				if err == nil {
					t.Error("a guess was right")
				}
				guesses.Add(1)
			}
		})
	}
	for guesses.Load() < 3 {
		time.Sleep(10 * time.Millisecond)
	}
	for _, host := range []string{"127.0.1.1", "127.0.1.2"} {
		// In the order of arrival it would be two hundred comparisons, so the second for a machine that does something else is no loophole.
		if beside := median(host); beside > 4*alone+time.Second {
			t.Errorf("from %s a right password takes %v beside guessers, %v alone", host, beside, alone)
		} else {
			t.Logf("from %s %v, alone %v, %d guesses", host, beside, alone, guesses.Load())
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
		// The least of several rounds is what a comparison costs. A name that is refused without one stays far below it, however many
		// rounds there are, so more of them may be played until every name has been seen to cost enough.
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
