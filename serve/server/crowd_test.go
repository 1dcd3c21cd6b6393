package server

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/serve/port"
)

// TestACrowdIsToldBeforeAnybodyIsRefused: once, with the flag that helps, and again when it comes again.
func TestACrowdIsToldBeforeAnybodyIsRefused(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(0, 0)
	c := &crowd{log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }, conns: port.NewConnLimit(80), raise: "--memory",
		told: map[string]time.Time{}}
	from := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}
	lines := func(want int, notes bool) {
		t.Helper()
		c.look()
		if n := strings.Count(log.String(), "Raise --memory"); n != want {
			t.Errorf("%d log lines, want %d: %s", n, want, log.String())
		}
		if all := c.section().Notes(context.Background()); (len(all) == 1) != notes {
			t.Errorf("notes %q", all)
		}
	}
	for range 49 {
		c.conns.Enter(from)
	}
	lines(0, false)
	if !c.conns.Enter(from) {
		t.Fatal("refused")
	}
	lines(1, true)
	if st := c.look(); st.Connections != 50 || st.MostConnections != 80 || st.From != "192.0.2.1" || st.FromConnections != 50 {
		t.Errorf("%+v", st)
	}
	now = now.Add(crowdAgain)
	lines(2, true)
	c.conns.Leave(from)
	lines(2, false)
	c.conns.Enter(from)
	lines(3, true)
}
