package objstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// ErrChanged: the object is not what it was when it was read. Nothing was written.
var ErrChanged = errors.New("somebody else has written it")

// ErrUnconditional: the store ignores the condition of a write, or knows no conditions.
var ErrUnconditional = errors.New("the store does not keep to the condition of a conditional upload (If-Match, If-None-Match)")

// Absent is the version of an object that is not there.
const Absent = ""

// Partial is an error of Put after which some of the objects are there.
type Partial struct {
	Done []bool // in the order of the call
	Err  error
}

func (p *Partial) Error() string { return p.Err.Error() }
func (p *Partial) Unwrap() error { return p.Err }

// hashVersion is the version of an object where a store has no name for it.
func hashVersion(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
