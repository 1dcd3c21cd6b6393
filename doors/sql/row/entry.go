package row

import "encoding/binary"

// An entry's value says where the row's key is: a number n above zero, and the row's key follows the first n bytes of the entry's key; or zero, and
// the row's key follows.

// EntryValue returns the value of an entry. columns is how many bytes of its key are the index's columns, 0: the row's key goes into the value.
func EntryValue(columns int, primary []byte) []byte {
	if columns > 0 {
		return binary.AppendUvarint(nil, uint64(columns))
	}
	return append([]byte{0}, primary...)
}

// PrimaryOf returns the key of the row to which an entry belongs. Error: ErrForm.
func PrimaryOf(key, value []byte) ([]byte, error) {
	n, size := binary.Uvarint(value)
	switch {
	case size <= 0 || n > uint64(len(key)):
		return nil, ErrForm
	case n == 0:
		return value[size:], nil
	}
	return key[n:], nil
}
