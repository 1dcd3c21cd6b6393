package snapshot

import (
	"fmt"
	"strings"

	"github.com/holdfastdb/holdfast/core/machine"
)

// holdings is a state's content, counted by its machines: keys, v2 nodes, users, logs. As JSON it is an object.
type holdings []machine.Count

// String prints the counts that are not 0 with commas between, "nothing" if all are.
func (h holdings) String() string {
	var all []string
	for _, c := range h {
		if c.N != 0 {
			all = append(all, fmt.Sprintf("%d %s", c.N, c.Name))
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// MarshalJSON implements json.Marshaler. Names are in the order of the machines.
func (h holdings) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	for i, c := range h {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%d", strings.ReplaceAll(c.Name, " ", "_"), c.N)
	}
	return []byte("{" + b.String() + "}"), nil
}
