package hammer

import (
	"errors"
	"fmt"
	"time"
)

// Report is how a run went, or how it stands.
type Report struct {
	URL        string `json:"url"`
	Origin     string `json:"origin"`
	Writers    int    `json:"writers"`
	Rate       int    `json:"asked_adds_per_second"` // 0: as many as the writers could
	EntryBytes int    `json:"entry_bytes"`

	Seconds    float64 `json:"seconds"` // until the last answer
	Adds       uint64  `json:"adds"`    // acknowledged
	AddsPerSec float64 `json:"adds_per_second"`
	PushedBack uint64  `json:"pushed_back"` // answers that told to come later; the entry was sent again
	Failed     uint64  `json:"failed"`      // adds with an unknown outcome
	FirstError string  `json:"first_error,omitempty"`

	FirstSize  uint64  `json:"first_size"` // of the tree
	Size       uint64  `json:"size"`
	Growth     float64 `json:"growth_per_second"` // over the last GrowthSecs
	GrowthSecs float64 `json:"growth_seconds"`

	// Queue is the time from when an entry was sent, or at a rate should have been, until its index came.
	Queue Spread `json:"time_in_queue"`
	// Integrate is from the same moment until a checkpoint was seen that covers the entry.
	Integrate Spread `json:"time_to_integrate"`
	Untimed   uint64 `json:"untimed"` // acknowledged entries whose time to integrate was not taken for want of room
	Uncovered bool   `json:"uncovered"`

	Verify   Verify `json:"verify"`
	Asked    uint64 `json:"verify_asked"` // entries that were to be verified
	Verified uint64 `json:"verified"`     // were found at their index, and included
	Wrong    uint64 `json:"wrong"`        // were not
	Fault    string `json:"fault,omitempty"`
}

// report returns the figures so far.
func (h *hammer) report(took time.Duration, grown growth) *Report {
	r := &Report{
		URL: h.URL, Origin: h.Key.Name, Writers: h.Writers, Rate: h.Rate, EntryBytes: h.Size,
		Seconds: took.Seconds(), Adds: h.adds.Load(), PushedBack: h.pushed.Load(), Failed: h.failed.Load(),
		Growth: grown.rate, GrowthSecs: grown.seconds,
		Queue: h.queue.spread(), Integrate: h.integrate.spread(), Verify: h.Verify,
	}
	r.AddsPerSec = float64(r.Adds) / max(r.Seconds, 1e-9)
	h.mu.Lock()
	defer h.mu.Unlock()
	r.FirstSize, r.Size, r.Untimed, r.Asked = h.first.Size, h.newest.Size, h.untimed, uint64(len(h.kept))
	r.Uncovered = h.newest.Size < h.top
	if h.firstErr != nil {
		r.FirstError = h.firstErr.Error()
	}
	return r
}

// Err is nil if every add was answered with an index and everything that was to be verified is true.
func (r *Report) Err() error {
	switch {
	case r.Wrong > 0:
		return fmt.Errorf("%d of %d entries are not where the log said: %s", r.Wrong, r.Asked, r.Fault)
	case r.Fault != "":
		return fmt.Errorf("verified %d of %d entries, then: %s", r.Verified, r.Asked, r.Fault)
	case r.Failed > 0:
		return fmt.Errorf("%d adds failed, the first: %s", r.Failed, r.FirstError)
	case r.FirstError != "":
		return errors.New(r.FirstError)
	case r.Uncovered:
		return fmt.Errorf("no checkpoint of all %d entries in %v", r.Adds, lastCheckpoint)
	case r.Adds == 0:
		return errors.New("no add was answered")
	}
	return nil
}

// Lines are the report in the lines of Tessera's hammer, with percentiles.
func (r *Report) Lines() []string {
	asked := "as many as they can"
	if r.Rate > 0 {
		asked = fmt.Sprintf("asked for %d/s", r.Rate)
	}
	lines := []string{
		fmt.Sprintf("Write (%d writers): %.0f/s in %.1f s, %s; %d pushed back, %d failed",
			r.Writers, r.AddsPerSec, r.Seconds, asked, r.PushedBack, r.Failed),
		fmt.Sprintf("Tree size: %d (Δ %.0f qps over %.0f s)", r.Size, r.Growth, r.GrowthSecs),
		"Time in queue: " + r.Queue.String(),
		"Observed time to integrate: " + r.Integrate.String(),
	}
	if r.Verified+r.Wrong > 0 {
		lines = append(lines, fmt.Sprintf("Verified: %d of %d entries at their index and included, %d not", r.Verified, r.Asked, r.Wrong))
	}
	return lines
}

// String is the spread in one line.
func (s Spread) String() string {
	if s.Count == 0 {
		return "none yet"
	}
	return fmt.Sprintf("%.1f/%.1f/%.1f ms (min/avg/max); p50 %.1f, p90 %.1f, p99 %.1f, p99.9 %.1f",
		s.Min, s.Avg, s.Max, s.P50, s.P90, s.P99, s.P999)
}
