package machine

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// DescribeRow prints one row of this machine as it lies in the store, for people. It does not keep key or value. A row that does not decode
// is printed as such.
func DescribeRow(key, value []byte) string { return machine.DescribeRow(key, value, describeRow) }

func describeRow(key, value []byte) (string, error) {
	if len(key) < 2 || key[0] != letter {
		return "", errCorrupt
	}
	switch rest := key[2:]; key[1] {
	case spaceCurrent:
		m, v, inline, err := decodeCurrentRow(value)
		if err != nil {
			return "", err
		}
		if !inline {
			return fmt.Sprintf("current %s = (%d bytes in history) %s", shown(rest), m.valLen, &m), nil
		}
		return fmt.Sprintf("current %s = %s %s", shown(rest), shown(v), &m), nil
	case spaceHistory:
		k, _, rev, sub, err := splitHistoryKey(nil, key)
		if err != nil {
			return "", err
		}
		m, v, err := decodeHistoryRow(value, rev, sub)
		if err != nil {
			return "", err
		}
		if !m.exists() {
			return fmt.Sprintf("history %s deleted at=%d.%d", shown(k), rev, sub), nil
		}
		return fmt.Sprintf("history %s = %s %s", shown(k), shown(v), &m), nil
	case spaceByRev:
		rev, sub, err := splitByRevKey(key)
		if err != nil {
			return "", err
		}
		c, err := decodeChange(value)
		if err != nil {
			return "", err
		}
		verb := "put"
		if c.deleted {
			verb = "delete"
		}
		if c.prev.mod == 0 {
			return fmt.Sprintf("revision %d.%d %s %s", rev, sub, verb, shown(c.key)), nil
		}
		return fmt.Sprintf("revision %d.%d %s %s replaces=%d.%d", rev, sub, verb, shown(c.key), c.prev.mod, c.prev.sub), nil
	case spaceLease, spaceAttach:
		if len(rest) < 8 {
			return "", errCorrupt
		}
		if key[1] == spaceAttach {
			return fmt.Sprintf("lease %x holds %s", uint64(leaseOf(rest)), shown(rest[8:])), nil
		}
		r := wire.NewReader(value)
		ttl := r.Varint()
		if r.Err() != nil {
			return "", errCorrupt
		}
		return fmt.Sprintf("lease %x ttl=%ds", uint64(leaseOf(rest)), ttl), nil
	case spaceAlarm:
		if len(rest) != 9 {
			return "", errCorrupt
		}
		return fmt.Sprintf("alarm member=%x type=%d", binary.BigEndian.Uint64(rest), rest[8]), nil
	case spaceSums:
		s, err := decodeSums(value)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("counters revision=%d compacted=%d keys=%d history=%dB in-use=%dB", s.rev, s.compacted, s.keys, s.history, s.inUse), nil
	}
	return "", errCorrupt
}

// String prints a version as "at=rev.sub created=rev version=n lease=hex".
func (m *meta) String() string {
	s := fmt.Sprintf("at=%d.%d created=%d version=%d", m.mod, m.sub, m.create, m.version)
	if m.lease != 0 {
		s += fmt.Sprintf(" lease=%x", uint64(m.lease))
	}
	return s
}

// shown quotes what is not plain text and cuts what is long.
func shown(b []byte) string {
	const limit = 64
	text := string(b[:min(len(b), limit)])
	if q := strconv.Quote(text); len(q) != len(text)+2 || text == "" {
		text = q
	}
	if len(b) > limit {
		text += fmt.Sprintf("… (%d bytes)", len(b))
	}
	return text
}

// Totals are the machine's running numbers as a store's row has them.
type Totals struct {
	Revision, Compacted int64 // Compacted is -1 if history was never compacted
	Keys                int64
	History, InUse      int64 // bytes of keys and values
}

// ReadTotals decodes the row that holds the running numbers; ok is false if the row is another one.
func ReadTotals(key, value []byte) (t Totals, ok bool, err error) {
	if string(key) != string(sumsKey) {
		return Totals{}, false, nil
	}
	s, err := decodeSums(value)
	if err != nil {
		return Totals{}, false, err
	}
	return Totals{Revision: s.rev, Compacted: s.compacted, Keys: s.keys, History: s.history, InUse: s.inUse}, true, nil
}
