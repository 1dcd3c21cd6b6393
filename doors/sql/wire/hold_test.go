package wire

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestAnAnswerIsHeld until the session lets it go: the client gets nothing before, and all of it then.
func TestAnAnswerIsHeld(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	held, letGo := make(chan struct{}, 100), make(chan struct{})
	r.hold = func(context.Context) error {
		held <- struct{}{}
		<-letGo
		return nil
	}
	db := open(t, r, "root:", "interpolateParams=true")
	for _, text := range []string{"select one", "many", "insert"} {
		done := make(chan error, 1)
		go func() {
			_, err := db.Exec(text)
			done <- err
		}()
		wait.For(t, text+" is held", held)
		select {
		case err := <-done:
			t.Fatalf("%s: answered while it was held: %v", text, err)
		default:
		}
		end := time.Now().Add(wait.Limit(t))
		for answered := false; !answered; {
			select {
			case letGo <- struct{}{}:
			case err := <-done:
				if answered = true; err != nil {
					t.Errorf("%s: %v", text, err)
				}
			case <-time.After(time.Until(end)):
				t.Fatalf("%s: no answer", text)
			}
		}
		for len(held) > 0 {
			<-held
		}
	}
}

// TestAnAnswerThatMustNotBeSent: the client gets the error in its place, or behind the rows that it has got already, and the connection goes on.
func TestAnAnswerThatMustNotBeSent(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	pieces, from := 0, 0 // of the answers; the piece from which on nothing may be sent
	r.hold = func(context.Context) error {
		if pieces++; pieces > from {
			return Errorf(3024, "not archived")
		}
		return nil
	}
	c := r.dial(t)
	c.login(rawCapabilities | deprecateEOF)
	for _, x := range []struct {
		text string
		from int
		rows int // that arrive
	}{{"select one two", 0, 0}, {"many", 0, 0}, {"many", 1, 33}, {"many", 2, 66}, {"insert", 0, 0}, {"select one two", 1, 2}, {"half", 0, 0}} {
		pieces, from = 0, x.from
		c.send(0, append([]byte{comQuery}, x.text...)...)
		packets, failed := 0, false
		for !failed {
			b, err := c.read()
			if err != nil {
				t.Fatalf("%s: %v", x.text, err)
			}
			if int(b[3]) != packets+1 {
				t.Fatalf("%s: packet %d has the number %d", x.text, packets+1, b[3])
			}
			packets++
			if failed = b[4] == 0xff; failed && !strings.Contains(string(b), "not archived") {
				t.Errorf("%s: %q", x.text, b)
			}
			if b[4] == 0xfe && len(b) < 20 {
				break
			}
		}
		if want := x.rows > 0; !failed && !(x.from == 1 && x.rows == 2) || want && failed && packets != x.rows+3 || !want && packets != 1 {
			t.Errorf("%s, nothing behind piece %d: %d packets, failed %v", x.text, x.from, packets, failed)
		}
		pieces, from = 0, 100
		c.send(0, comPing)
		if b, err := c.read(); err != nil || b[4] != 0 {
			t.Fatalf("COM_PING behind %s: %x %v", x.text, b, err)
		}
	}
}

// TestAHeldAnswerEndsWithItsClient: the session is told that the client has gone.
func TestAHeldAnswerEndsWithItsClient(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	held, ended := make(chan struct{}, 100), make(chan error, 100)
	r.hold = func(ctx context.Context) error {
		held <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	c := r.dial(t)
	c.login(rawCapabilities | deprecateEOF)
	c.send(0, append([]byte{comQuery}, "select one"...)...)
	wait.For(t, "the answer is held", held)
	_ = c.nc.Close()
	if err := wait.For(t, "the session hears of it", ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAStatementWhoseAnswerIsNotSentIsFreed: the client never hears its number, and could not close it.
func TestAStatementWhoseAnswerIsNotSentIsFreed(t *testing.T) {
	t.Parallel()
	r := serve(t, func(s *Server) { s.MaxStatements = 1 })
	refuse := true
	r.hold = func(context.Context) error {
		if refuse {
			return Errorf(3024, "not archived")
		}
		return nil
	}
	c := r.dial(t)
	c.login(rawCapabilities | deprecateEOF)
	for range 3 {
		c.send(0, append([]byte{comStmtPrepare}, "select ?"...)...)
		if b, err := c.read(); err != nil || b[4] != 0xff || !strings.Contains(string(b), "not archived") {
			t.Fatalf("%q %v", b, err)
		}
	}
	refuse = false
	c.send(0, append([]byte{comStmtPrepare}, "select ?"...)...)
	if b, err := c.read(); err != nil || b[4] != 0 {
		t.Errorf("%q %v", b, err)
	}
}
