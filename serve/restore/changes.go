package restore

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/serve"
)

// changesShown is how many rows of one kind are printed.
const changesShown = 5

// changes gathers what a restore does to rows, for people: rows of a kind, the first two bytes of their keys, beside each other.
type changes struct {
	specs  machine.Specs
	saved  []*serve.Saved
	census machine.Census
	kinds  []*kind
}

type kind struct {
	name  string
	lines []string
	more  int
}

func newChanges(specs machine.Specs, saved []*serve.Saved) *changes {
	return &changes{specs: specs, saved: saved, census: specs.Census()}
}

// row takes one row with its old and its new value.
func (c *changes) row(key, was, is []byte) error {
	if was != nil {
		if err := c.specs.Known(key); err != nil {
			return err
		}
		if err := c.census.Row(key, was); err != nil {
			return err
		}
		for _, s := range c.saved {
			if s.Row != nil {
				if err := s.Row(key, was); err != nil {
					return err
				}
			}
		}
	}
	if bytes.Equal(was, is) || key[0] == 0 { // the members tell the voters
		return nil
	}
	name := string(key[:min(len(key), 2)])
	if len(c.kinds) == 0 || c.kinds[len(c.kinds)-1].name != name {
		c.kinds = append(c.kinds, &kind{name: name})
	}
	k := c.kinds[len(c.kinds)-1]
	if len(k.lines) == changesShown {
		k.more++
		return nil
	}
	switch {
	case was == nil:
		k.lines = append(k.lines, "new: "+c.specs.DescribeRow(key, is))
	case is == nil:
		k.lines = append(k.lines, "removed: "+c.specs.DescribeRow(key, was))
	default:
		k.lines = append(k.lines, c.specs.DescribeRow(key, was)+" -> "+c.specs.DescribeRow(key, is))
	}
	return nil
}

// print prints a line for each change.
func (c *changes) print(w io.Writer) {
	if len(c.kinds) == 0 {
		fmt.Fprintln(w, "  it was changed before this call, which only ended it")
	}
	for _, k := range c.kinds {
		for _, line := range k.lines {
			fmt.Fprintln(w, "  "+line)
		}
		if k.more > 0 {
			fmt.Fprintf(w, "  and %d more of these\n", k.more)
		}
	}
}

// holds is the state's content, counted by its machines.
func (c *changes) holds() string {
	var all []string
	for _, n := range c.census.Counts() {
		if n.N != 0 {
			all = append(all, fmt.Sprintf("%d %s", n.N, n.Name))
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}
