package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
)

// TestAConnectionStandsBack: a client whose next command is always there does not keep the only processor from one whose command comes meanwhile.
func TestAConnectionStandsBack(t *testing.T) {
	r := serve(t, nil)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s")) // what is written is there at once: over TCP the kernel may take its time
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() *raw {
		from, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		to, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go r.Serve(context.Background(), to)
		t.Cleanup(func() { _ = from.Close() })
		return &raw{t, from}
	}
	quick, other := dial(), dial()
	quick.login(rawCapabilities)
	ofQuick := <-r.sessions
	other.login(rawCapabilities)
	ofOther := <-r.sessions
	const statements, sentAt = 3000, 10
	const most = sentAt + 8*straightStatements
	query := []byte{6, 0, 0, 0, comQuery, 'b', 'e', 'g', 'i', 'n'}
	var ran atomic.Int64
	ranBefore := make(chan int64, 1)
	ofQuick.hold = func(context.Context) error {
		if ran.Add(1) == sentAt {
			other.write(query)
		}
		return nil
	}
	ofOther.hold = func(context.Context) error {
		ranBefore <- ran.Load()
		return nil
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const ok, rounds = 4 + 7, 5
	var seen []int64
	for range rounds {
		ran.Store(0)
		quick.write(bytes.Repeat(query, statements))
		seen = append(seen, <-ranBefore)
		for c, n := range map[*raw]int{quick: statements, other: 1} {
			if _, err := io.ReadFull(c.nc, make([]byte, n*ok)); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.Sort(seen)
	if seen[rounds/2] > most { // the kernel may have taken a processor away in one of them
		t.Errorf("%d statements of one client ran before the only one of another, which came behind the %dth", seen, sentAt)
	}
}
