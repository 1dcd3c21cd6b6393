package program

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
)

// TestTheStateOfALogIsOneWord: for every fault.
func TestTheStateOfALogIsOneWord(t *testing.T) {
	for _, c := range []struct {
		held, damaged  bool
		why, lag       string
		state, inLine  string
		takesNoEntries bool
	}{
		{state: "ok"},
		{held: true, why: "the log was restored", state: "held", inLine: "the log was restored", takesNoEntries: true},
		{why: "a place is ahead", state: "held", inLine: "a place is ahead", takesNoEntries: true},
		{why: checkpoint.NoKey + ": x.key is missing", state: "read-only: no key", inLine: "x.key is missing", takesNoEntries: true},
		{held: true, why: "the log was restored; " + checkpoint.NoKey, state: "held, read-only: no key", inLine: "the log was restored", takesNoEntries: true},
		{damaged: true, why: "found it damaged", state: "damaged", inLine: "found it damaged", takesNoEntries: true},
		{lag: "its checkpoint has covered 3 of 9", state: "behind", inLine: "covered 3 of 9"},
	} {
		s := LogStatus{Name: "releases", Held: c.held}
		s.judge(c.why, c.lag, c.damaged)
		line := s.line()
		if s.State != c.state || (line == "") != (c.state == "ok") || !strings.Contains(line, c.inLine) || strings.Contains(line, "takes no entries") != c.takesNoEntries ||
			line != "" && !strings.Contains(line, c.state) {
			t.Errorf("%+v is %q: %q", c, s.State, line)
		}
	}
}

// TestALogIsBehindWhenItsCheckpointStandsStill for longer than a signature takes.
func TestALogIsBehindWhenItsCheckpointStandsStill(t *testing.T) {
	l := logOf300(t)
	logs := []*tlogmachine.Log{l}
	var g lags
	now := time.Unix(1000, 0)
	g.look(logs, now)
	g.look(logs, now.Add(2*time.Second))
	if why := g.of(l, now.Add(2*time.Second)); why != "" {
		t.Errorf("at once: %s", why)
	}
	if why := g.of(l, now.Add(lagGrace)); !strings.Contains(why, "covered 0 of 300 entries") {
		t.Errorf("after a while: %q", why)
	}
	g.look(nil, now)
	if why := g.of(l, now.Add(time.Hour)); why != "" {
		t.Errorf("one that is signed: %s", why)
	}
}
