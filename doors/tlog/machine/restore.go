package machine

import "github.com/holdfastdb/holdfast/core/machine"

// restoreRow converts a row of a snapshot for a new cluster: every log begins held. The original may have grown on and signed checkpoints
// that this copy lacks. Other entries under the same key would be a second history of the log (DECISIONS A7).
func restoreRow(key, value []byte) (row []byte, keep bool, err error) {
	if len(key) < 2 || key[1] != spaceLog {
		return value, true, nil
	}
	_, spec, err := decodeLogRow(value)
	if err != nil {
		return nil, false, err
	}
	return appendLogRow(nil, true, &spec), true, nil
}

// census counts logs, and their entries by the size of each log's frontier.
type census struct{ logs, entries int64 }

func (c *census) Row(key, value []byte) error {
	if len(key) < 2 {
		return nil
	}
	switch key[1] {
	case spaceLog:
		c.logs++
	case spaceFrontier:
		size, err := frontierSize(value)
		if err != nil {
			return err
		}
		c.entries += int64(size)
	}
	return nil
}

func (c *census) Counts() []machine.Count {
	return []machine.Count{{Name: "logs", N: c.logs}, {Name: "log entries", N: c.entries}}
}
