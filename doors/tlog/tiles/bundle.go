package tiles

import (
	"encoding/binary"
	"errors"
)

// ErrBundle: the bytes are not an entry bundle of the number of entries asked for.
var ErrBundle = errors.New("not an entry bundle")

// AppendEntry appends an entry as it stands in a bundle: its length as two bytes big endian, then itself. It must not be
// longer than MaxEntryBytes.
func AppendEntry(dst, entry []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(entry)))
	return append(dst, entry...)
}

// NextEntry takes the first entry off a bundle; both results alias b.
func NextEntry(b []byte) (entry, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, ErrBundle
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return nil, nil, ErrBundle
	}
	return b[2 : 2+n : 2+n], b[2+n:], nil
}

// CutBundle returns the first n entries of a bundle, as a partial bundle. It aliases b.
func CutBundle(b []byte, n int) ([]byte, error) {
	rest := b
	for range n {
		var err error
		if _, rest, err = NextEntry(rest); err != nil {
			return nil, err
		}
	}
	return b[: len(b)-len(rest) : len(b)-len(rest)], nil
}

// LeafHashes appends the leaf hash of every entry of a bundle, a tile of level 0, and returns their number. A broken entry is ErrBundle.
func LeafHashes(dst, bundle []byte) ([]byte, int, error) {
	n := 0
	for ; len(bundle) > 0; n++ {
		entry, rest, err := NextEntry(bundle)
		if err != nil {
			return dst, n, err
		}
		h := LeafHash(entry)
		dst, bundle = append(dst, h[:]...), rest
	}
	return dst, n, nil
}
