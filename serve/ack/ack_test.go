package ack

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
)

// A request's own level counts before the server's, in both directions; nothing else is taken for one of the two.
func TestTheLevelOfARequest(t *testing.T) {
	for _, c := range []struct {
		dial Dial
		says string
		want string
	}{
		{Dial{}, "", "commit"},
		{Dial{}, "commit", "commit"},
		{Dial{}, "archive", "holdfast-ack is archive, but this server has no archive: start it with --archive"},
		{Dial{Archiving: true}, "", "commit"},
		{Dial{Archiving: true}, "archive", "archive"},
		{Dial{Archiving: true, Default: Archive}, "", "archive"},
		{Dial{Archiving: true, Default: Archive}, "commit", "commit"},
		{Dial{Archiving: true}, "Archive", `holdfast-ack is commit or archive, not "Archive"`},
		{Dial{Archiving: true, Default: Archive}, "none", `holdfast-ack is commit or archive, not "none"`},
	} {
		level, err := c.dial.Level(c.says)
		got := level.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v, a request says %q: %s, want %s", c.dial, c.says, got, c.want)
		}
	}
}

// A client that stops waiting hears the answer before: by a tenth of its time, and 50 ms at most.
func TestAnAnswerComesAheadOfItsClientsDeadline(t *testing.T) {
	if ctx, cancel := Ahead(t.Context()); ctx != t.Context() {
		cancel()
		t.Error("a client without a deadline got one")
	}
	for _, c := range []struct{ left, ahead time.Duration }{{time.Hour, 50 * time.Millisecond}, {100 * time.Second, 50 * time.Millisecond}, {0, 0}} {
		end := time.Now().Add(c.left)
		ctx, cancel := context.WithDeadline(t.Context(), end)
		early, cancelEarly := Ahead(ctx)
		if got, ok := early.Deadline(); !ok || end.Sub(got) != c.ahead {
			t.Errorf("%v left: the answer comes %v ahead", c.left, end.Sub(got))
		}
		cancelEarly()
		cancel()
	}
}

func TestTheTextSaysWhereAWriteIs(t *testing.T) {
	if got := fmt.Sprint(&NotArchived{At: entry.Position{Index: 7, N: 2}, Term: 3}); got != "written at 7.2@3, not archived" {
		t.Error(got)
	}
}
