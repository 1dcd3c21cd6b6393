package agent

import (
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// Outcome is how a database stood when the agent ended with it.
type Outcome struct {
	Path, URL string
	// TXID and Time are those of the newest state that is stored, as far as this agent knows; zero: none.
	TXID replica.TXID
	Time time.Time
	// Why names the unstored part and the reason; "": everything is stored.
	Why string
	// Unfenced: another agent could have written to the replica unnoticed (Target.SingleWriter).
	Unfenced bool
}

// Stored reports whether everything that was committed is stored.
func (o Outcome) Stored() bool { return o.Why == "" }

// String is the outcome in one line, without the path.
func (o Outcome) String() string {
	text := fmt.Sprintf("stored up to TXID %s at %s", o.TXID, o.Time.UTC().Format(time.RFC3339Nano))
	if o.Unfenced {
		text += ", without fencing"
	}
	switch {
	case o.Stored():
		return text
	case o.TXID == 0:
		return "NOT STORED: " + o.Why
	}
	return "NOT STORED: " + o.Why + "; " + text
}

// conclusion is the outcome. The loop calls it when it ends, before the phase says so.
func (d *database) conclusion() Outcome {
	o := Outcome{Path: d.place.Named, URL: d.target.URL, TXID: d.stored.TXID, Time: d.stored.Time, Unfenced: d.target.SingleWriter}
	if d.stored.Fence && d.files == nil {
		o.TXID, o.Time = d.lastGroup.TXID, d.lastGroup.Time
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	why := ""
	for _, kind := range []alarmKind{alarmRefused, alarmSwapped, alarmCapture, alarmOpen, alarmStore} {
		if text := d.alarm(kind); text != "" {
			why = text
			break
		}
	}
	switch {
	case d.phase == gate.Fenced:
		o.Why = d.reason
	case d.files == nil && d.nowhere && why == "":
		o.Why = "there is no database at " + d.place.Named + ", or nothing was ever committed to it"
	case d.files == nil:
		o.Why = why
		if why == "" {
			o.Why = "it ended before the database was followed: " + d.reason
		}
	case len(d.ships) > 0:
		o.Why = fmt.Sprintf("%d groups of commits are not in %s", len(d.ships), d.target.URL)
		if why != "" {
			o.Why += ": " + why
		}
	case d.alarm(alarmCapture) != "":
		o.Why = d.alarm(alarmCapture)
	case !d.finalCapture, !d.first.IsZero():
		o.Why = "it ended before the last commits were captured"
	case d.stored.Empty():
		o.Why = "nothing of it is stored"
	}
	return o
}
