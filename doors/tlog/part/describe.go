package part

import (
	"fmt"
	"strings"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Describe prints an encoded part on one line: "tree.append log 1: 3 entries, 120 bytes", "tree.create default (origin)", "tree.checkpoint
// log 1 at 500". A part that does not decode is printed as such.
func Describe(body []byte) string {
	var p Part
	if err := p.Decode(body); err != nil {
		return fmt.Sprintf("tree.? (%d bytes: %v)", len(body), err)
	}
	return p.String()
}

// String prints the part as Describe does.
func (p *Part) String() string {
	switch p.Kind {
	case Append:
		n, bytes := 0, len(p.Entries)
		for rest := p.Entries; len(rest) > 0; n++ {
			var err error
			if _, rest, err = tiles.NextEntry(rest); err != nil {
				return fmt.Sprintf("tree.append log %d: %v", p.Log, err)
			}
		}
		hurry := ""
		if p.Hurry {
			hurry = ", and a checkpoint"
		}
		return fmt.Sprintf("tree.append log %d: %d entries, %d bytes%s", p.Log, n, bytes-2*n, hurry)
	case Create:
		s := "tree.create " + p.Spec.Name + " as " + p.Spec.Key.String()
		if p.Spec.Dedup {
			s += " dedup"
		}
		if p.Spec.Index {
			s += " index"
		}
		return s
	case Checkpoint:
		var parts []string
		for i := range p.Checkpoints {
			parts = append(parts, fmt.Sprintf("log %d at %d %s", p.Checkpoints[i].Log, p.Checkpoints[i].Size, p.Checkpoints[i].Root))
		}
		return "tree.checkpoint " + strings.Join(parts, ", ")
	case Resume:
		return fmt.Sprintf("tree.resume log %d from %d %s", p.Log, p.Size, p.Root)
	}
	return "tree.?"
}
