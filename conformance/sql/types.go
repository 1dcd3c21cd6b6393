package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/holdfastdb/holdfast/doors/sql/typetest"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// types plays the values of every type and compares the answers with MariaDB's recorded ones, and in a full run with those of a server. An
// answer that is another must have its reason in the list of differences.
func (s *suite) types() (string, error) {
	how := "was seen to"
	if !s.quick {
		now, err := typesOfMariaDB()
		if err != nil {
			return "", err
		}
		if s.rewrite {
			return "written", os.WriteFile(typetest.RecordedFile, []byte(now), 0o644)
		}
		if now != typetest.Recorded {
			return "", fmt.Errorf("MariaDB answers otherwise than it was written down: %w", difference(now, typetest.Recorded, typetest.RecordedFile))
		}
		how = "does beside it"
	}
	now, err := typetest.Play(typetest.Recorded, typetest.Server{Addr: s.node().Addr("sql"), User: "root"})
	if err != nil {
		return "", err
	}
	list, bad := typetest.Compare(typetest.Recorded, now, typetest.Differences)
	if len(bad) > 0 {
		return "", fmt.Errorf("%d answers differ from MariaDB's without a reason, the first: %s", len(bad), bad[0])
	}
	return fmt.Sprintf("%d answers, as MariaDB %s but for %d with a reason", typetest.Count(now), how, strings.Count(list, " => ")), nil
}

// typesOfMariaDB plays the cases against a server of Debian's.
func typesOfMariaDB() (now string, err error) {
	m, err := proctest.NewMariaDB("--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if _, err := m.SQL("CREATE USER 'types'@'127.0.0.1'; GRANT ALL ON *.* TO 'types'@'127.0.0.1'"); err != nil {
		return "", err
	}
	return typetest.Play(typetest.Recorded, typetest.Server{Addr: m.Addr, User: "types", Beside: true})
}
