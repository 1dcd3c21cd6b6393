package machine

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// DescribeRow prints one row of this machine as it lies in the store, for people who inspect one. A row that does not decode is printed as
// such.
func DescribeRow(key, value []byte) string { return machine.DescribeRow(key, value, describeRow) }

func describeRow(key, value []byte) (string, error) {
	if len(key) < 6 || key[0] != letter {
		return "", errCorrupt
	}
	log, rest := binary.BigEndian.Uint32(key[2:]), key[6:]
	at := func(skip int) (uint64, error) {
		if len(rest) != skip+8 {
			return 0, errCorrupt
		}
		return binary.BigEndian.Uint64(rest[skip:]), nil
	}
	switch key[1] {
	case spaceLog:
		held, spec, err := decodeLogRow(value)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("log %d %s origin=%s held=%v", log, spec.Name, spec.Key.Name, held), nil
	case spaceFrontier:
		size, err := frontierSize(value)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("log %d has %d entries", log, size), nil
	case spaceCheckpoint:
		return fmt.Sprintf("log %d newest checkpoint: %q", log, value), nil
	case spaceBundle:
		n, err := at(0)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("log %d bundle %d: %d bytes", log, n, len(value)), nil
	case spaceTile, spaceNode:
		n, err := at(1)
		if err != nil {
			return "", err
		}
		if key[1] == spaceTile {
			return fmt.Sprintf("log %d tile %d of level %d", log, n, rest[0]), nil
		}
		return fmt.Sprintf("log %d hash %d of level %d: %x", log, n, rest[0], value), nil
	case spacePiece:
		n, err := at(0)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("log %d entries from %d: %d bytes", log, n, len(value)), nil
	case spaceDedup:
		return fmt.Sprintf("log %d leaf %x is in the log", log, rest), nil
	case spaceIndex:
		n, err := at(tiles.HashSize)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("log %d leaf %x is at %d", log, rest[:tiles.HashSize], n), nil
	}
	return "", errCorrupt
}

// frontierSize is the number of entries of a log, from the row of its frontier.
func frontierSize(row []byte) (uint64, error) {
	var f tiles.Frontier
	if err := f.Decode(row); err != nil {
		return 0, err
	}
	return f.Size(), nil
}
