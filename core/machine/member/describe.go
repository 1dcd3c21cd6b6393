package member

import (
	"encoding/binary"
	"fmt"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
)

// DescribeRow prints one of the machine's rows on one line, for people who look into a store.
func DescribeRow(key, value []byte) string {
	switch {
	case string(key) == string(levelKey):
		if level, err := decodeLevel(value); err == nil {
			return fmt.Sprintf("level %d", level)
		}
	case len(key) == 10 && key[1] == 'r':
		return fmt.Sprintf("member %x was removed", binary.BigEndian.Uint64(key[2:]))
	case len(key) == 10 && key[1] == 'm':
		if m, err := emember.DecodeMember(value); err == nil {
			role := "voter"
			if m.Learner {
				role = "learner"
			}
			name := m.Name
			if name == "" {
				name = "-"
			}
			return fmt.Sprintf("member %x name=%s %s peer=%s client=%s", m.ID, name, role, emember.Hosts(m.PeerURLs), emember.Hosts(m.ClientURLs))
		}
	}
	return fmt.Sprintf("%q: damaged row of %d bytes", key, len(value))
}
