package agent

import (
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// TestAnAlarmThatLastsIsLoggedEachMinute: once when it begins, then a minute after the last line, and when it is over.
func TestAnAlarmThatLastsIsLoggedEachMinute(t *testing.T) {
	r := newRig(t)
	h := r.byHand(gate.Local)
	lines := func() int { return r.log.count("the replica's store fails") }
	h.raise(alarmStore, "no answer")
	began := h.now()
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Minute - 1, 1}, {time.Minute, 2}, {time.Minute + 1, 2}, {2*time.Minute - 1, 2}, {2 * time.Minute, 3}} {
		h.raise(alarmStore, "still no answer")
		h.remind(began.Add(c.after))
		if n := lines(); n != c.want {
			t.Errorf("%v after the beginning: %d lines, want %d", c.after, n, c.want)
		}
	}
	h.clear(alarmCapture) // another one, which is not on
	if v := h.stands(); len(v.Alarms) != 1 || v.Alarms[0].Text != "still no answer" {
		t.Errorf("the alarms are %v", v.Alarms)
	}
	h.clear(alarmStore, alarmOpen)
	if v := h.stands(); len(v.Alarms) != 0 || r.log.count("over: the replica's store fails") != 1 {
		t.Errorf("the alarms are %v, and the log says %s", v.Alarms, &r.log.text)
	}
	h.clear(alarmStore)
	if n := r.log.count("over: "); n != 1 {
		t.Errorf("the end of one alarm is said %d times", n)
	}
}

// TestAMissingExtensionIsSaidOnce: that alarm never ends by itself, so it is not logged again.
func TestAMissingExtensionIsSaidOnce(t *testing.T) {
	r := newRig(t)
	h := r.byHand(gate.Archive)
	h.raise(alarmExtension, "a commit")
	h.remind(h.now().Add(time.Hour))
	if n := r.log.count("a commit was made by a program without the extension"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}
