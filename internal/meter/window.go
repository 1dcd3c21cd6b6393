package meter

import (
	"sync"
	"time"
)

// Window answers questions about a Step's recent rates. A goroutine calls Sample every second or two, and Recent compares the newest state
// with the oldest sample still held. The hot path is not involved: rates kept there, in slots of a second, would make every write pay for a
// rare question.
type Window struct {
	step *Step
	span time.Duration

	mu      sync.Mutex
	samples []sample // oldest first; the first is at most one sampling interval older than span
}

type sample struct {
	at      time.Time
	total   uint64
	reading Reading
}

// NewWindow watches step over the last span.
func NewWindow(step *Step, span time.Duration) *Window {
	return &Window{step: step, span: span}
}

// Sample notes the state of the step at now.
func (w *Window) Sample(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Keep one sample from before the span, so that Recent covers all of it.
	for len(w.samples) > 1 && now.Sub(w.samples[1].at) >= w.span {
		w.samples = append(w.samples[:0], w.samples[1:]...)
	}
	w.samples = append(w.samples, w.read(now))
}

// Recent returns the items per second and the durations from the oldest sample held to now. Before the first Sample it
// covers everything since the start of the server, with a rate of 0.
func (w *Window) Recent(now time.Time) (perSecond float64, durations Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	newest := w.read(now)
	if len(w.samples) == 0 {
		return 0, newest.reading
	}
	oldest := &w.samples[0]
	if passed := now.Sub(oldest.at).Seconds(); passed > 0 {
		perSecond = float64(newest.total-oldest.total) / passed
	}
	return perSecond, newest.reading.Since(&oldest.reading)
}

func (w *Window) read(now time.Time) sample {
	s := sample{at: now, total: w.step.Total.Load()}
	w.step.Seconds.Read(&s.reading)
	return s
}
