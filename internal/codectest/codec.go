// Package codectest tests codecs of command parts. A golden file pins the bytes, and encoded parts decode to the same. Nothing shorter or
// longer decodes, and no bytes at all stop the decoder or the printer. Named refusals of a codec (an unknown flag, a malformed path) are
// for the tests of its own package.
package codectest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// Codec is a codec under test and parts to test it with.
type Codec[P any] struct {
	// Samples are a part of every kind with every field in use, and the smallest.
	Samples []P
	Append  func(b []byte, p P) []byte
	// Decode makes a part of an encoding; it may keep the bytes.
	Decode func(b []byte) (P, error)
	// Describe prints an encoding, for people.
	Describe func(b []byte) string
	// Torn is the error, by errors.Is, of an encoding that was cut; nil: any. Trailing is that of one with a byte too many.
	Torn, Trailing error
	// Open reports whether a part reaches to the end of its bytes, wherever that is, so that a cut one may decode; nil: none does.
	Open func(p P) bool
	// Exact: no two encodings mean the same. Otherwise a decoder takes more than an encoder makes.
	Exact bool
}

// Golden compares the encodings of the samples with a file: every later build must read one build's log.
func (c *Codec[P]) Golden(t *testing.T, file string) {
	t.Helper()
	var out strings.Builder
	for _, p := range c.Samples {
		b := c.Append(nil, p)
		fmt.Fprintf(&out, "%s\n%s\n", c.Describe(b), hex.Dump(b))
	}
	golden.Check(t, file, out.String())
}

// RoundTrip: an encoded part behind any other bytes of a buffer decodes to itself, and nothing else decodes to it.
func (c *Codec[P]) RoundTrip(t *testing.T) {
	t.Helper()
	for _, p := range c.Samples {
		b := c.Append([]byte("before"), p)[len("before"):]
		if got, err := c.Decode(b); err != nil || !c.same(got, b) {
			t.Errorf("%s came back as %+v, %v", c.Describe(b), got, err)
		}
		if c.Open != nil && c.Open(p) {
			continue
		}
		for n := range b {
			if got, err := c.Decode(bytes.Clone(b[:n])); err == nil || c.Torn != nil && !errors.Is(err, c.Torn) {
				t.Fatalf("%s cut to %d bytes: %+v, %v", c.Describe(b), n, got, err)
			}
		}
		if got, err := c.Decode(append(bytes.Clone(b), 0)); !errors.Is(err, c.Trailing) {
			t.Errorf("%s with a byte too many: %+v, %v", c.Describe(b), got, err)
		}
	}
}

// same reports whether a part encodes to b, in bytes and in words.
func (c *Codec[P]) same(p P, b []byte) bool {
	own := c.Append(nil, p)
	return bytes.Equal(own, b) && c.Describe(own) == c.Describe(b)
}

// Fuzz: no bytes may panic the decoder or the printer, and what decodes means the same after it was encoded again.
func (c *Codec[P]) Fuzz(f *testing.F) {
	for _, p := range c.Samples {
		f.Add(c.Append(nil, p))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = c.Describe(b)
		p, err := c.Decode(b)
		if err != nil {
			return
		}
		own := c.Append(nil, p)
		if c.Exact && !bytes.Equal(own, b) {
			t.Fatalf("%x: %s came back as %x", b, c.Describe(b), own)
		}
		again, err := c.Decode(bytes.Clone(own))
		if err != nil || !c.same(again, own) || c.Describe(own) != c.Describe(b) {
			t.Fatalf("%x: %s came back as %s, %v", b, c.Describe(b), c.Describe(own), err)
		}
	})
}
