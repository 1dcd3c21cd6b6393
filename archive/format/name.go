package format

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Names of objects, below the archive's own prefix. A timeline is in hexadecimal as all ids are. An index is decimal, because it is printed
// so everywhere else and people look for it in lists of a bucket. It has the 20 digits of the greatest index, so that names sort as indexes
// do. Digits sort before letters: a list of a timeline begins with its log.
const (
	snapshotDir = "snapshot" // manifests and nothing else, so that a list of them is short
	pieceDir    = "pieces"
)

// TimelineName begins the names of all objects of a timeline, a slash behind it.
func TimelineName(timeline uint64) string { return fmt.Sprintf("%016x", timeline) }

// SpanName is the name of the object of entries that begins with the entry at first.
func SpanName(timeline, first uint64) string { return fmt.Sprintf("%016x/%020d", timeline, first) }

// ParseSpanName takes SpanName apart; ok is false for every other name.
func ParseSpanName(name string) (timeline, first uint64, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 2 {
		return 0, 0, false
	}
	timeline, first = parseID(parts[0]), parseIndex(parts[1])
	return timeline, first, name == SpanName(timeline, first)
}

// SnapshotsName begins the names of a timeline's manifests, a slash behind it.
func SnapshotsName(timeline uint64) string { return TimelineName(timeline) + "/" + snapshotDir }

// ManifestName is the name of the manifest of the snapshot at index.
func ManifestName(timeline, index uint64) string {
	return fmt.Sprintf("%016x/%s/%020d", timeline, snapshotDir, index)
}

// ParseManifestName takes ManifestName apart; ok is false for every other name.
func ParseManifestName(name string) (timeline, index uint64, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return 0, 0, false
	}
	timeline, index = parseID(parts[0]), parseIndex(parts[2])
	return timeline, index, name == ManifestName(timeline, index)
}

// AllPiecesName begins the names of a timeline's pieces, a slash behind it.
func AllPiecesName(timeline uint64) string { return TimelineName(timeline) + "/" + pieceDir }

// PiecesName begins the names of the pieces of the snapshot at index, a slash behind it.
func PiecesName(timeline, index uint64) string {
	return fmt.Sprintf("%016x/%s/%020d", timeline, pieceDir, index)
}

// PieceName is the name of the piece of that number, from 0, and that contents. The contents are in the name because two members may make a
// snapshot at one index, of different bytes. So neither finds the other's piece in the place of its own, and a piece in no manifest is
// known for a leftover.
func PieceName(timeline, index uint64, number int, contents Hash) string {
	return fmt.Sprintf("%s/%07d-%s", PiecesName(timeline, index), number, hex.EncodeToString(contents[:pieceNameBytes]))
}

// pieceNameBytes is how much of its hash is in a piece's name.
const pieceNameBytes = 16

// parseID and parseIndex return anything for malformed text: their callers compare the name with the expected one.
func parseID(s string) uint64 {
	v, _ := strconv.ParseUint(s, 16, 64)
	return v
}

func parseIndex(s string) uint64 {
	v, _ := strconv.ParseUint(s, 10, 64)
	return v
}
