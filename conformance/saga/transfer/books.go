package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	accounts = 10
	each     = 1000 // in every account at first
)

// tables are the bank's own and the barrier's, which is DTM's script for MySQL but for its indexes on times.
const tables = `
CREATE DATABASE bank;
CREATE TABLE bank.accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL) ENGINE = InnoDB;
CREATE TABLE bank.attempts (seq BIGINT PRIMARY KEY AUTO_INCREMENT, gid VARCHAR(128) NOT NULL, branch_id VARCHAR(128) NOT NULL,
  op VARCHAR(45) NOT NULL, KEY (gid)) ENGINE = InnoDB;
CREATE TABLE bank.ledger (seq BIGINT PRIMARY KEY AUTO_INCREMENT, gid VARCHAR(128) NOT NULL, branch_id VARCHAR(128) NOT NULL,
  op VARCHAR(45) NOT NULL, account INT NOT NULL, amount BIGINT NOT NULL, KEY (gid)) ENGINE = InnoDB;
CREATE DATABASE dtm_barrier DEFAULT CHARACTER SET utf8mb4;
CREATE TABLE dtm_barrier.barrier (id BIGINT(22) PRIMARY KEY AUTO_INCREMENT, trans_type VARCHAR(45) DEFAULT '', gid VARCHAR(128) DEFAULT '',
  branch_id VARCHAR(128) DEFAULT '', op VARCHAR(45) DEFAULT '', barrier_id VARCHAR(45) DEFAULT '', reason VARCHAR(45) DEFAULT '',
  create_time DATETIME DEFAULT now(), update_time DATETIME DEFAULT now(), UNIQUE KEY (gid, branch_id, op, barrier_id)) ENGINE = InnoDB;
`

// books is what the database says.
type books struct {
	sum   int // of all accounts
	calls map[string][]call
	moves map[string][]move
}

// openBank makes the tables and the accounts.
func openBank(m *proctest.MariaDB) error {
	var text strings.Builder
	text.WriteString(tables)
	for id := range accounts {
		fmt.Fprintf(&text, "INSERT INTO bank.accounts VALUES (%d, %d);\n", id, each)
	}
	_, err := m.SQL(text.String())
	return err
}

// read reads the rows of transfers whose gids begin with name.
func read(m *proctest.MariaDB, name string) (*books, error) {
	rows, err := m.SQL(fmt.Sprintf("START TRANSACTION WITH CONSISTENT SNAPSHOT;\nSELECT 's', SUM(balance) FROM bank.accounts;\n"+
		"SELECT 'c', gid, branch_id, op FROM bank.attempts WHERE gid LIKE '%[1]s%%' ORDER BY seq;\n"+
		"SELECT 'm', gid, branch_id, op, account, amount FROM bank.ledger WHERE gid LIKE '%[1]s%%' ORDER BY seq;\n", name))
	if err != nil {
		return nil, err
	}
	b := &books{calls: map[string][]call{}, moves: map[string][]move{}}
	for line := range strings.Lines(rows) {
		cells := strings.Split(strings.TrimRight(line, "\n"), "\t")
		switch {
		case cells[0] == "s" && len(cells) == 2:
			b.sum, err = strconv.Atoi(cells[1])
		case cells[0] == "c" && len(cells) == 4:
			b.calls[cells[1]] = append(b.calls[cells[1]], call{cells[2], cells[3]})
		case cells[0] == "m" && len(cells) == 6:
			m := move{branch: cells[2], op: cells[3]}
			if m.account, err = strconv.Atoi(cells[4]); err == nil {
				m.amount, err = strconv.Atoi(cells[5])
			}
			b.moves[cells[1]] = append(b.moves[cells[1]], m)
		default:
			err = fmt.Errorf("MariaDB says %q", line)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}
