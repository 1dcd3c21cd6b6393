package ship

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
)

// Status is the state of one member's worker. Where it does not lead, that is Archived and Entries alone.
type Status struct {
	Leads bool `json:"leads"`
	// Archived is the index up to which the archive has the log, as far as this member has heard; 0: it has heard nothing yet.
	Archived uint64 `json:"archived"`
	// Entries, Bytes and Seconds are how far the archive is behind this member's applied index. Bytes are estimated where the log was not
	// read yet.
	Entries uint64  `json:"lag_entries"`
	Bytes   int64   `json:"lag_bytes"`
	Seconds float64 `json:"lag_seconds"`
	// Flight is how many uploads are on their way.
	Flight int `json:"uploads"`
	// Requests is what this process has asked the store this month (UTC), Budget what it may; Total since its start.
	Requests int64  `json:"requests_this_month"`
	Budget   int64  `json:"requests_budget"`
	Total    uint64 `json:"requests"`
	// Failing is the newest error of the store, "" if the last request of a kind that was repeated went well.
	Failing string `json:"failing,omitempty"`
	// Alarm is why nothing is shipped any more by this process, "" if it is.
	Alarm string `json:"alarm,omitempty"`
	// Away is why nothing is acknowledged as archived for now: the store is not this member's archive, or refuses until a person changes
	// something. It goes on by itself when the archive is back. "": the archive is there.
	Away string `json:"away,omitempty"`
	// Missing is the entries acknowledged as archived that are not in the archive, until they are shipped again; nil: none.
	Missing *Range `json:"missing,omitempty"`
	// Identity is the archive's, "" if it is not known yet.
	Identity string `json:"identity,omitempty"`
	// Gaps is how often entries were lost to the archive since the start, because the log does not keep more for it.
	Gaps int64 `json:"gaps"`
	// Snapshot is the newest one in the archive.
	Snapshot SnapshotStatus `json:"snapshot"`

	oldest int64  // time along the log at the first entry that is not archived; 0: there is none
	unread uint64 // from here on the log was not read yet; 0: that is not known
	each   int64  // bytes of an entry, by those that were read
}

// Range is entries of the log.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// SnapshotStatus is one snapshot. Time is along the log.
type SnapshotStatus struct {
	Index uint64    `json:"index"`
	Bytes int64     `json:"bytes"`
	Time  time.Time `json:"time"`
}

// show updates the status from a term.
func (t *term) show() {
	s := Status{Leads: true, Snapshot: SnapshotStatus{Index: t.snapped.index, Bytes: t.snapped.bytes, Time: time.Unix(0, t.snapped.wallNs).UTC()}}
	entries := uint64(len(t.pending))
	s.Bytes = int64(t.bytes)
	if len(t.pending) > 0 {
		s.oldest = t.wallOf(t.pending[0])
	}
	t.mu.Lock()
	for i, u := range t.flight {
		s.Bytes += int64(u.size)
		entries += u.own.Last - u.before.Last
		if i == 0 {
			s.oldest = u.wallNs
		}
	}
	s.Flight = t.active
	t.mu.Unlock()
	if t.found && entries > 0 {
		s.unread, s.each = t.next, s.Bytes/int64(entries)
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if t.w.term == t {
		s.Failing, s.Gaps, s.Away, s.Missing = t.w.shown.Failing, t.w.shown.Gaps, t.w.shown.Away, t.w.shown.Missing
		t.w.shown = s
	}
}

// Status may be called from any goroutine.
func (w *Worker) Status() Status {
	applied := w.node.Status().Applied
	w.mu.Lock()
	s := Status{Gaps: w.shown.Gaps}
	if w.term != nil {
		s = w.shown
		s.Leads = true
	}
	if w.alarm != nil {
		s.Alarm = w.alarm.Error()
	}
	w.mu.Unlock()
	s.Identity = w.known().Identity
	s.Archived = w.node.ArchivedIndex()
	if s.Archived < applied {
		s.Entries = applied - s.Archived
	}
	if s.unread > 0 && applied >= s.unread {
		s.Bytes += int64(applied-s.unread+1) * s.each
	}
	if s.Leads && s.Entries > 0 && s.oldest > 0 {
		s.Seconds = max(w.opt.Wall().Sub(time.Unix(0, s.oldest)).Seconds(), 0)
	}
	s.Requests, s.Total = w.requests.made()
	s.Budget = w.opt.Requests
	return s
}

// wentWrong notes an error of the store that may be gone at the next try, and says it once until all is well again.
func (w *Worker) wentWrong(err error) {
	w.mu.Lock()
	first := w.shown.Failing == ""
	w.shown.Failing = err.Error()
	w.mu.Unlock()
	if first {
		w.opt.Logger.Warn("the archive's store fails; it is tried again", "err", err)
	}
}

// wentWell notes that an upload is there.
func (w *Worker) wentWell() {
	w.mu.Lock()
	was := w.shown.Failing
	w.shown.Failing = ""
	w.mu.Unlock()
	if was != "" {
		w.opt.Logger.Info("the archive's store is well again")
	}
}

// lost counts a gap.
func (w *Worker) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown.Gaps++
}

// wentAway notes that the store is not this member's archive, or refuses for good, and logs it once until it is back. The line names the
// entries acknowledged since the last look: they may lie in another place.
func (w *Worker) wentAway(err error) {
	at := w.node.ArchivedIndex()
	w.mu.Lock()
	first := w.shown.Away == ""
	w.shown.Away = err.Error()
	w.stale = w.stale || errors.Is(err, objstore.ErrSwapped)
	looked := w.looked
	w.mu.Unlock()
	if !first {
		return
	}
	log := w.opt.Logger
	if looked > 0 && looked < at {
		log = log.With("acknowledged_since_the_last_look", fmt.Sprintf("%d to %d", looked+1, at))
	}
	log.Error("the archive is away: nothing is acknowledged as archived until it is back; it is tried again", "err", err)
}

// wentBack notes that a look found the archive.
func (w *Worker) wentBack() {
	w.mu.Lock()
	was := w.shown.Away
	w.shown.Away = ""
	w.mu.Unlock()
	if was != "" {
		w.opt.Logger.Info("the archive is back, and shipping goes on")
	}
}

// miss notes entries that were acknowledged as archived and are not in the archive. They are shipped again, as far as the log has them.
func (w *Worker) miss(first, last uint64) {
	w.mu.Lock()
	w.shown.Missing = &Range{first, last}
	w.mu.Unlock()
	w.opt.Logger.Error("entries that were acknowledged as archived are not in the archive; they are shipped again as far as the log has them",
		"first", first, "last", last)
}

// chained notes how far the archive has the log, and had it at the last look.
func (w *Worker) chained(last, looked uint64) {
	w.mu.Lock()
	missed := w.shown.Missing
	whole := missed != nil && missed.Last <= last
	if whole {
		w.shown.Missing = nil
	}
	w.looked = looked
	w.mu.Unlock()
	if whole {
		w.opt.Logger.Info("a restore from the archive has again all that was acknowledged", "up_to", missed.Last)
	}
}
