package machine

import (
	"fmt"
	"strconv"

	"github.com/holdfastdb/holdfast/core/machine"
)

// DescribeRow prints one row of this machine as it lies in the store, for people who inspect one. A row that does not decode is printed as
// such.
func DescribeRow(key, value []byte) string { return machine.DescribeRow(key, value, describeRow) }

func describeRow(key, value []byte) (string, error) {
	if len(key) < 2 || key[0] != letter {
		return "", errCorrupt
	}
	switch key[1] {
	case spaceNode:
		path, err := decodePath(nil, key[2:])
		if err != nil {
			return "", err
		}
		n, err := decodeNode(value)
		if err != nil {
			return "", err
		}
		text := "key " + strconv.Quote(string(path))
		if n.dir {
			text = "directory " + strconv.Quote(string(path))
		} else {
			text += " = " + strconv.Quote(string(clip(n.value)))
		}
		text += fmt.Sprintf(" created=%d modified=%d", n.created, n.modified)
		if n.deadline != 0 {
			text += fmt.Sprintf(" until-tick=%d", n.deadline)
		}
		return text, nil
	case spaceDeadline:
		tick, path, err := splitDeadlineKey(key)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("deadline %d of %q", tick, path), nil
	case spaceHistory:
		last, err := splitHistoryKey(key)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("events up to index %d: %d bytes", last, len(value)), nil
	case spaceIndex:
		index, err := decodeIndex(value)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("index %d", index), nil
	}
	return "", errCorrupt
}

// census counts nodes: keys and directories.
type census struct{ nodes int64 }

func (c *census) Row(key, _ []byte) error {
	if len(key) > 1 && key[1] == spaceNode {
		c.nodes++
	}
	return nil
}

func (c *census) Counts() []machine.Count { return []machine.Count{{Name: "v2 nodes", N: c.nodes}} }
