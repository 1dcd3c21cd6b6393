package machine

import "fmt"

// restoreRow returns the row to write for one row of a snapshot that is being restored as a new cluster. All of them stay: a gid means in
// the new cluster what it meant in the old one, and numbers go on. But it begins held, and calls no service until an operator says Resume.
// The snapshot's cluster may still run, and both would call (DECISIONS A7). One that never had a transaction or a topic has nothing to
// hold.
func restoreRow(key, value []byte) (row []byte, keep bool, err error) {
	if len(key) != len(countersKey) || key[1] != spaceCounters {
		return value, true, nil
	}
	c, err := decodeCounters(value)
	if err != nil {
		return nil, false, fmt.Errorf("restore: %w", err)
	}
	c.held = c.held || c.next > 1 || c.counts[countTopics] > 0
	return appendCounters(nil, &c), true, nil
}
