package wire

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestAConnectionStandsBack: a client whose next command is always there does not keep the only processor from one whose command comes meanwhile.
func TestAConnectionStandsBack(t *testing.T) {
	r := serve(t, nil)
	quick, other := r.dial(t), r.dial(t)
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
	quick.write(bytes.Repeat(query, statements))
	if n := <-ranBefore; n > most {
		t.Errorf("%d statements of one client ran before the only one of another, which came behind the %dth", n, sentAt)
	}
	const ok = 4 + 7
	if _, err := io.ReadFull(quick.nc, make([]byte, statements*ok)); err != nil {
		t.Error(err)
	}
}
