package auth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// busy takes the only turn; what it returns gives it back.
func busy(t *testing.T, g *guesses) (end func()) {
	t.Helper()
	end, err := g.enterExempt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// wrong is a host's wrong guess at a user, with all that it waits for.
func wrong(ctx context.Context, g *guesses, host, user string) error {
	end, err := g.enter(ctx, host, user)
	if err == nil {
		end(false)
	}
	return err
}

// TestARightPasswordGoesFirst: a host without wrong guesses goes before two hundred with some.
func TestARightPasswordGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses(1)
		for i := range 200 {
			if err := wrong(t.Context(), g, fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("user %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		end := busy(t, g)
		var order []string
		queue := func(host, user string) {
			go func() {
				end, err := g.enter(context.Background(), host, user)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, host)
				end(false)
			}()
			synctest.Wait()
		}
		queue("192.0.2.1", "alice")
		for i := range 200 {
			queue(fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("user %d", i))
		}
		queue("192.0.2.2", "bob")
		end()
		synctest.Wait()
		if len(order) != 202 || order[0] != "192.0.2.2" || order[1] != "192.0.2.1" {
			t.Errorf("the order is %v", order[:min(len(order), 10)])
		}
	})
}

// TestAHostRunsOutOfGuesses: twenty at once and one a second from there, by the address or, of IPv6, by its network; a right password
// costs nothing.
func TestAHostRunsOutOfGuesses(t *testing.T) {
	for _, host := range []func(i int) string{
		func(int) string { return "192.0.2.1" },
		func(i int) string { return fmt.Sprintf("2001:db8::%x", i) },
		func(i int) string { return "::ffff:192.0.2.7" },
		func(i int) string { return "@" }, // a socket file
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuesses(1)
			began := time.Now()
			for i := range 100 {
				end, err := g.enter(t.Context(), host(i), "alice")
				if err != nil {
					t.Fatal(err)
				}
				end(true)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("right passwords took %v", took)
			}
			for i := range 50 {
				if err := wrong(t.Context(), g, host(i), fmt.Sprint("user ", i)); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took < 29*time.Second || took > 31*time.Second {
				t.Errorf("50 guesses of %s took %v", host(0), took)
			}
		})
	}
}

// TestAUserRunsOutOfGuesses: many hosts that guess at one name slow one another down, whether it exists or not. They slow neither the host
// its owner comes from, nor guesses at other names.
func TestAUserRunsOutOfGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses(1)
		end, err := g.enter(t.Context(), "192.0.2.1", "alice")
		if err != nil {
			t.Fatal(err)
		}
		end(true)
		began := time.Now()
		for i := range 140 {
			if err := wrong(t.Context(), g, fmt.Sprintf("10.0.0.%d", i), "alice"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("140 guesses took %v", took)
		}
		began = time.Now()
		for _, pair := range [][2]string{{"192.0.2.1", "alice"}, {"10.0.0.1", "bob"}} {
			if err := wrong(t.Context(), g, pair[0], pair[1]); err != nil || time.Since(began) != 0 {
				t.Errorf("%v: %v after %v", pair, err, time.Since(began))
			}
		}
	})
}

// TestNobodyWaitsForEver: a guess whose client gives up is dropped, and beyond the bound those with the fewest tokens are
// refused.
func TestNobodyWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses(1)
		for range hostBurst - 1 {
			if err := wrong(t.Context(), g, "192.0.2.9", "alice"); err != nil {
				t.Fatal(err)
			}
		}
		end := busy(t, g)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := wrong(ctx, g, "192.0.2.1", "alice"); !errors.Is(err, rpctypes.ErrGRPCRequestTooManyRequests) {
			t.Errorf("after five seconds: %v", err)
		}
		if len(g.waiting) != 0 {
			t.Errorf("%d wait", len(g.waiting))
		}
		refused := 0
		guess := func(host string, want error) {
			go func() {
				if err := wrong(context.Background(), g, host, "alice"); errors.Is(err, rpctypes.ErrGRPCRequestTooManyRequests) {
					if want == nil {
						t.Errorf("%s: %v", host, err)
					}
					refused++
				}
			}()
			synctest.Wait()
		}
		guess("192.0.2.9", rpctypes.ErrGRPCRequestTooManyRequests)
		for i := range maxGuesses {
			guess(fmt.Sprintf("10.0.%d.%d", i/256, i%256), nil)
		}
		if refused != 1 || len(g.waiting) != maxGuesses {
			t.Errorf("%d refused, %d wait", refused, len(g.waiting))
		}
		end()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(g.waiting) != 0 {
			t.Errorf("%d wait", len(g.waiting))
		}
	})
}

// TestBucketsAreBounded: the tables stay bounded against a client with many addresses and many names.
func TestBucketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses(1)
		for i := range 3 * maxBuckets {
			end, err := g.enter(t.Context(), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), fmt.Sprint("user ", i))
			if err != nil {
				t.Fatal(err)
			}
			end(i%2 == 0)
		}
		if len(g.hosts) > maxBuckets || len(g.users) > maxBuckets || len(g.right) > maxBuckets {
			t.Errorf("%d hosts, %d users, %d pairs", len(g.hosts), len(g.users), len(g.right))
		}
	})
}

// TestNobodyWaitsForADoorThatStops: waiting guesses are refused at once, and so are later ones.
func TestNobodyWaitsForADoorThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses(1)
		end := busy(t, g)
		refused := make(chan error, 3)
		for i := range cap(refused) {
			go func() { refused <- wrong(context.Background(), g, fmt.Sprintf("10.0.0.%d", i), "alice") }()
		}
		synctest.Wait()
		g.stop()
		synctest.Wait()
		for range cap(refused) {
			select {
			case err := <-refused:
				if !errors.Is(err, rpctypes.ErrGRPCStopped) {
					t.Error(err)
				}
			default:
				t.Fatal("one still waits")
			}
		}
		end()
		if err := wrong(context.Background(), g, "10.0.0.9", "alice"); !errors.Is(err, rpctypes.ErrGRPCStopped) {
			t.Error(err)
		}
	})
}

// TestAClientThatWentAwayGivesUpItsPlace: its guess is not compared in vain, although requests of that time may wait longer.
func TestAClientThatWentAwayGivesUpItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &Users{passwords: &passwords{guesses: newGuesses(1)}, opts: Options{RequestTimeout: time.Minute,
			Bounded: func(context.Context) context.Context { return context.Background() }}}
		defer busy(t, u.passwords.guesses)()
		ctx, leave := context.WithCancel(t.Context())
		gone := false
		go func() {
			if right, err := u.matches(ctx, "10.0.0.1", "alice", nil, "guess"); right || err == nil {
				t.Error("compared")
			}
			gone = true
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		if !gone {
			t.Error("the guess of a client that went away still waits")
			u.Stop()
		}
	})
}
