package outcall

import "github.com/holdfastdb/holdfast/internal/meter"

// Meter is a Net's counters and times. Its fields may be read at any time.
type Meter struct {
	// Ended counts the calls that have ended, by Outcome.
	Ended [Refused + 1]meter.Counter
	// Seconds is the duration of calls: from a call's place under the limits to its answer, or to its failure.
	Seconds meter.Histogram
	// Running and Waiting are calls at present, Open the endpoints that are not called for the breaker's sake.
	Running, Waiting, Open meter.Gauge
	// GivenUp counts the calls that hung while services that answer waited for a place.
	GivenUp meter.Counter
	// Dials counts connections that were begun, Full the calls that found no room to wait in.
	Dials, Full meter.Counter
}
