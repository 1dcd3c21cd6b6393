package machine

import (
	"fmt"
	"strconv"

	"github.com/holdfastdb/holdfast/core/entry"
)

// RevisionBump is added by a restore to a counter that clients remember (the kv revision, the index of v2). A client that cached or watched
// the old cluster must notice, because the old numbers mean something else now (DECISIONS A7).
const RevisionBump = 1_000_000_000

// Spec describes a machine without running one. Its users print the machine's parts and rows, restore them, or decide whether they may be
// proposed. A machine has one, which never changes. Functions may be called from any goroutine.
type Spec struct {
	// ID is the machine's letter (table: package entry).
	ID entry.Machine
	// Name is one word for people and for metrics: "kv".
	Name string
	// Level is the lowest cluster level at which the machine's parts may be proposed (DECISIONS A20). Below it some member may run a build
	// without the machine. PartLevel is the same of one part, for kinds that came later; nil: all are of Level. LastLevel is the highest
	// that PartLevel returns, 0 if none is above Level.
	Level, LastLevel uint16
	PartLevel        func(body []byte) uint16
	// DescribePart prints a part on one line, DescribeRow a row of the store. Neither prints secrets. nil: bytes are printed.
	DescribePart func(body []byte) string
	DescribeRow  func(key, value []byte) string
	// Restore converts one of the machine's rows for a new cluster that is made from a snapshot. keep is false for a row to be dropped. The
	// result may share value's memory. nil: rows stay as they are.
	Restore func(key, value []byte) (row []byte, keep bool, err error)
	// FromClient reports whether clients send such parts: while authentication is on, one is refused without a Pass. nil: they do not.
	FromClient func(body []byte) bool
	// Uncounted returns a part that tells the machine that ms milliseconds (at least 1) passed while no member ran. The cluster's tick does
	// not include that time. The part is proposed first in the new term. Nil: the machine's timers pause during an outage.
	Uncounted func(ms int64) []byte
	// Census begins a count of a state's content; nil: the machine has nothing to count.
	Census func() Census
}

// Census counts what the rows of one machine hold, for people: keys, nodes, logs, users. Rows come in order; a Census belongs
// to the caller of Spec.Census.
type Census interface {
	// Row counts one row. An error means that the row is damaged.
	Row(key, value []byte) error
	// Counts lists the numbers in the order in which to print them.
	Counts() []Count
}

// Count is one number of a Census.
type Count struct {
	// Name is the counted thing, in the plural: "keys".
	Name string
	N    int64
}

// Specs is a list of machines as others see them.
type Specs []*Spec

// DescribeRow prints a row by a machine's own words. A row for which they return an error is printed as its key, at most 64 bytes of it, and the
// error.
func DescribeRow(key, value []byte, words func(key, value []byte) (string, error)) string {
	text, err := words(key, value)
	if err != nil {
		return fmt.Sprintf("%x: %v", key[:min(len(key), 64)], err)
	}
	return text
}

// SpecsOf lists the specs of machines.
func SpecsOf(machines []Machine) Specs {
	all := make(Specs, len(machines))
	for i, m := range machines {
		all[i] = m.Spec()
	}
	return all
}

// Find returns the spec of a letter, nil if there is none.
func (s Specs) Find(id entry.Machine) *Spec {
	for _, spec := range s {
		if spec.ID == id {
			return spec
		}
	}
	return nil
}

// Level is the highest level that a part of any of the machines needs.
func (s Specs) Level() (level uint16) {
	for _, spec := range s {
		level = max(level, spec.Level, spec.LastLevel)
	}
	return level
}

// DescribePart prints a part of any machine on one line.
func (s Specs) DescribePart(p entry.Part) string {
	spec := s.Find(p.Machine)
	switch {
	case spec == nil:
		return fmt.Sprintf("machine %c, which this build does not have: %d bytes", p.Machine, len(p.Body))
	case spec.DescribePart == nil:
		return fmt.Sprintf("%s: %d bytes", spec.Name, len(p.Body))
	}
	return spec.DescribePart(p.Body)
}

// DescribeRow prints a row of any machine on one line.
func (s Specs) DescribeRow(key, value []byte) string {
	if len(key) > 0 {
		if spec := s.Find(entry.Machine(key[0])); spec != nil && spec.DescribeRow != nil {
			return spec.DescribeRow(key, value)
		}
	}
	return fmt.Sprintf("%s = %x", strconv.Quote(string(key)), value)
}

// Known returns an error if the key of a row belongs to a machine that is not in the list. Keys that begin with 0 are the store's
// and the node's.
func (s Specs) Known(key []byte) error {
	if len(key) > 0 && key[0] != 0 && s.Find(entry.Machine(key[0])) == nil {
		return fmt.Errorf("rows of machine %q, which this build does not have; use the build that wrote them, or a later one", key[0])
	}
	return nil
}

// Restore is Spec.Restore for a row of any machine.
func (s Specs) Restore(key, value []byte) (row []byte, keep bool, err error) {
	if err := s.Known(key); err != nil {
		return nil, false, err
	}
	if len(key) > 0 {
		if spec := s.Find(entry.Machine(key[0])); spec != nil && spec.Restore != nil {
			return spec.Restore(key, value)
		}
	}
	return value, true, nil
}

// Census begins a count over the rows of all machines. Its numbers come in the order of the machines.
func (s Specs) Census() Census {
	all := &censuses{of: map[byte]Census{}}
	for _, spec := range s {
		if spec.Census != nil {
			c := spec.Census()
			all.of[byte(spec.ID)], all.order = c, append(all.order, c)
		}
	}
	return all
}

// censuses is the Census of several machines.
type censuses struct {
	of    map[byte]Census // by letter
	order []Census
}

func (c *censuses) Row(key, value []byte) error {
	if len(key) > 0 && c.of[key[0]] != nil {
		return c.of[key[0]].Row(key, value)
	}
	return nil
}

func (c *censuses) Counts() (all []Count) {
	for _, one := range c.order {
		all = append(all, one.Counts()...)
	}
	return all
}
