package sql

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/internal/meter"
)

// mostCodes bounds the error numbers that are counted apart. The door's own are fewer.
const mostCodes = 200

// counts are what the door has run. The zero value has counted nothing. Any goroutine.
type counts struct {
	kinds   [engine.Kinds]atomic.Uint64
	commits meter.Step // of transactions that have written: until the log has them and they are applied
	retries [retryCauses]atomic.Uint64

	mu     sync.Mutex
	errors map[uint16]uint64 // by MySQL's number; guarded by mu
}

// Counts are statements since the door was opened.
type Counts struct {
	Kinds  map[string]uint64 // by engine.Kind's name
	Errors map[uint16]uint64 // by MySQL's number
	// Retries are statements that ran again without their client's knowing, by cause.
	Retries map[string]uint64
}

// add counts a statement that has ended.
func (c *counts) add(kind engine.Kind, err error) {
	c.kinds[kind].Add(1)
	if err != nil {
		_ = c.failed(err) // the same error
	}
}

// failed counts an error, and returns it.
func (c *counts) failed(err error) error {
	var e *wire.Error
	if !errors.As(err, &e) {
		e = &wire.Error{Code: wire.ErrUnknown}
	}
	c.fail(e.Code)
	return err
}

// fail counts an error by its number.
func (c *counts) fail(code uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == nil {
		c.errors = map[uint16]uint64{}
	}
	if _, known := c.errors[code]; !known && len(c.errors) >= mostCodes {
		code = wire.ErrUnknown
	}
	c.errors[code]++
}

// Commits counts commits of transactions that have written, and says how long they took. One of eight is timed.
func (d *Door) Commits() *meter.Step { return &d.counts.commits }

// Counts returns what was counted so far.
func (d *Door) Counts() Counts {
	all := Counts{Kinds: map[string]uint64{}, Errors: map[uint16]uint64{}, Retries: map[string]uint64{}}
	for c := range d.counts.retries {
		all.Retries[retryCause(c).String()] = d.counts.retries[c].Load()
	}
	for k := range d.counts.kinds {
		all.Kinds[engine.Kind(k).String()] = d.counts.kinds[k].Load()
	}
	d.counts.mu.Lock()
	defer d.counts.mu.Unlock()
	for code, n := range d.counts.errors { // any order: it becomes a map
		all.Errors[code] = n
	}
	return all
}
