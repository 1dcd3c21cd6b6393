package server

import (
	"errors"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/serve/cli"
)

// ParseOverride reads addresses of members by id: ID=host:port with commas between, ids in hexadecimal as `holdfast member list` prints them. A
// member with several addresses is written several times.
func ParseOverride(v string) (map[uint64]string, error) {
	all := map[uint64]string{}
	for _, one := range strings.Split(v, ",") {
		id, at, ok := strings.Cut(strings.TrimSpace(one), "=")
		n, err := strconv.ParseUint(strings.TrimPrefix(id, "0x"), 16, 64)
		if !ok || err != nil || n == 0 {
			return nil, errors.New("not ID=host:port; an id is hexadecimal, as `holdfast member list` and the log lines of a start have it")
		}
		a, err := cli.Dialable(at)
		if err != nil {
			return nil, err
		}
		if all[n] != "" {
			all[n] += ","
		}
		all[n] += a.String()
	}
	return all, nil
}
