package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// lastingError lasts until a person changes something. It is retried all the same, because the person may do so while the agent runs.
type lastingError struct{ error }

func (e lastingError) Unwrap() error { return e.error }

// unreachableFor is how long a store may be unreachable before the start of an agent takes it for final.
const unreachableFor = 2 * time.Second

// final reports whether every later attempt fails as well until a person changes something.
func final(err error) bool {
	var stop *stopError
	var lasting lastingError
	return errors.As(err, &stop) || errors.As(err, &lasting) || errors.Is(err, walfile.ErrNoDatabase) || objstore.Final(err)
}

// failed notes the outcome of an attempt that the agent repeats: nil if it succeeded. An error that is final answers callers of Sync, and ends the
// wait of Settled. Any goroutine, without mu.
func (d *database) failed(err error) {
	now := d.now()
	d.mu.Lock()
	var hopeless error
	switch {
	case err == nil:
		d.away = time.Time{}
	case final(err):
		hopeless = err
	case objstore.Unreachable(err):
		if d.away.IsZero() {
			d.away = now
		}
		if now.Sub(d.away) >= unreachableFor {
			hopeless = err
		}
	}
	d.hopeless = hopeless
	d.mu.Unlock()
	if hopeless != nil {
		d.ring()
		if !d.target.Discovered {
			d.agent.despair(d, hopeless)
		}
	}
}

// despair ends the wait of Settled with an error.
func (a *Agent) despair(d *database, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.verdict == nil {
		a.verdict = named(d, err)
		close(a.hopeless)
	}
}

// named is an error with the database and its replica.
func named(d *database, err error) error {
	return fmt.Errorf("%s: NOT STORED in %s: %w", d.target.Path, d.target.URL, err)
}

// waitsFor is why the database is not followed yet. Any goroutine, without mu.
func (d *database) waitsFor() string {
	v := d.stands()
	switch {
	case v.Reason != "":
		return v.Reason
	case v.Trouble != "":
		return v.Trouble
	}
	return "it is being opened"
}
