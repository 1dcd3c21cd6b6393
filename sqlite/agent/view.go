package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// View is how a database stands at the moment when it is asked for.
type View struct {
	Path, URL string
	Ack       gate.Ack
	Phase     gate.Refuse
	Reason    string // of the phase, for people
	// Followed: the database is open and its commits are captured.
	Followed bool
	// Stored, StoredAt and Captured are the newest states that are stored and captured; OnTheWay is how many groups lie in between.
	Stored, Captured replica.TXID
	StoredAt         time.Time
	OnTheWay         int
	// Behind is the age of the oldest commit that is captured and not stored. Uncaptured: the files have changed since the last capture, by a commit or by a
	// checkpoint.
	Behind     time.Duration
	Uncaptured bool
	Alarms     []Alarm
	// Connections are those of programs with the extension, at the moment. Without counts the commits of other programs under ack archive, as far as
	// they were told apart, and WithoutSince is when the first was seen.
	Connections  int
	Without      int64
	WithoutSince time.Time
	// Unfenced: the store ignores conditions, and two agents with this replica would write over each other.
	Unfenced bool
	Trouble  string // the last failure, however long ago
	// Bytes and WALBytes are the sizes of the files.
	Bytes, WALBytes int64
	Syncs, Failures int64 // captures that were tried, and those that failed
	// Puts and PutBytes are uploads that succeeded, PutFailures attempts that did not.
	Puts, PutBytes, PutFailures int64
}

// said is the loop's last report of itself, for View.
type said struct {
	captured, stored replica.TXID
	storedAt         time.Time
	onTheWay         int
	oldest           time.Time    // when the oldest group on its way was made; zero: none is
	seen             walfile.Look // the files as they were before the last capture
	followed         bool
	without          int64
	withoutSince     time.Time
	trouble          string
	syncs, failures  int64
	puts, putBytes   int64
	putFailures      int64
}

// report tells what the loop knows. It comes before the answers that follow from it, so that a caller who was answered sees no older state.
func (d *database) report() {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.said
	s.captured, s.stored, s.storedAt, s.onTheWay, s.seen = d.head.TXID, d.stored.TXID, d.stored.Time, len(d.ships), d.seen
	s.oldest, s.followed = time.Time{}, d.files != nil && d.alarm(alarmCapture) == ""
	if len(d.ships) > 0 {
		s.oldest = d.ships[0].made
	}
}

// stands is the database as it stands. Any goroutine.
func (d *database) stands() View {
	look := d.agent.cfg.Files.LookAt(d.target.Path)
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.said
	v := View{Path: d.place.Named, URL: d.target.URL, Ack: d.target.Ack, Phase: d.phase, Reason: d.reason, Followed: s.followed, Stored: s.stored,
		StoredAt: s.storedAt, Captured: s.captured, OnTheWay: s.onTheWay, Uncaptured: s.followed && look != s.seen, Alarms: slices.Clone(d.alarms),
		Connections: len(d.clients), Without: s.without, WithoutSince: s.withoutSince, Unfenced: d.target.SingleWriter, Trouble: s.trouble,
		Syncs: s.syncs, Failures: s.failures, Puts: s.puts, PutBytes: s.putBytes, PutFailures: s.putFailures}
	v.Bytes, v.WALBytes = look.DB.Size, look.WAL.Size
	if !s.oldest.IsZero() {
		v.Behind = max(now.Sub(s.oldest), 0)
	}
	return v
}

// Status implements gate.Database.
func (d *database) Status() string { return d.stands().String() }

// String is a line for people, without the path.
func (v View) String() string {
	var b strings.Builder
	if v.Followed || v.Stored != 0 {
		fmt.Fprintf(&b, "ack %s, stored up to TXID %s in %s, captured up to %s, %d on the way", v.Ack, v.Stored, v.URL, v.Captured, v.OnTheWay)
	} else {
		fmt.Fprintf(&b, "ack %s, nothing is stored in %s yet", v.Ack, v.URL)
	}
	if v.Phase != gate.Open {
		b.WriteString("; writes are refused: " + v.Reason)
	}
	if v.Unfenced {
		b.WriteString("; fencing is off, because the store ignores conditions")
	}
	for _, a := range v.Alarms {
		b.WriteString("; ALARM " + a.Kind + ": " + a.Text)
	}
	if v.Trouble != "" && len(v.Alarms) == 0 {
		b.WriteString("; last trouble: " + v.Trouble)
	}
	return b.String()
}
