package kv

import "fmt"

// RestoreRow returns the row to write for one row of a snapshot that is being restored as a new cluster: the counters row
// with its revision raised by bump and everything before marked compacted, any other row unchanged. Clients that cached or
// watched the old cluster must notice instead of reading other contents under revisions they know (DECISIONS A7).
func RestoreRow(key, value []byte, bump int64) ([]byte, error) {
	if len(key) != 2 || key[0] != letter || key[1] != spaceSums {
		return value, nil
	}
	s, err := decodeSums(value)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	s.rev += bump
	s.compacted = s.rev
	return appendSums(nil, &s), nil
}
