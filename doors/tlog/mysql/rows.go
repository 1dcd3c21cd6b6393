package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

const (
	// mostBytes and mostRows bound one statement. Quoted, bytes may become twice as many: that must fit into the 16 MiB
	// which a server takes at least by default.
	mostBytes = 1 << 20
	mostRows  = 256
)

// rows collects rows of a table, so that many travel in one statement. It belongs to its transaction's goroutine.
type rows struct {
	into   string // table and columns
	change string // of a row that is there already

	args  []any
	n     int // rows
	bytes int // of their data
}

// execer runs statements: a *sql.Tx, or a test's recorder.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// put adds a row of two numbers and data, in the order of the columns.
func (r *rows) put(ctx context.Context, tx execer, first, second any, data []byte) error {
	if r.n == mostRows || r.n > 0 && r.bytes+len(data) > mostBytes {
		if err := r.flush(ctx, tx); err != nil {
			return err
		}
	}
	r.args = append(r.args, first, second, data)
	r.n++
	r.bytes += len(data)
	return nil
}

// flush writes what was collected.
func (r *rows) flush(ctx context.Context, tx execer) error {
	if r.n == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, r.statement(), r.args...)
	clear(r.args)
	r.args, r.n, r.bytes = r.args[:0], 0, 0
	switch {
	case err == nil:
		return nil
	// Servers have several errors for it, one of them with the number of any other: they share the variable's name.
	case errors.Is(err, mysql.ErrPktTooLarge), strings.Contains(err.Error(), "max_allowed_packet"):
		return fmt.Errorf("write rows: %w; let the server's max_allowed_packet be 32M or more", err)
	}
	return fmt.Errorf("write rows: %w", err)
}

// statement writes n rows over existing ones. VALUES() is old style in MySQL 8, and all that MariaDB knows; REPLACE would need the right to
// delete.
func (r *rows) statement() string {
	return "INSERT INTO " + r.into + " VALUES " + strings.Repeat("(?, ?, ?), ", r.n-1) + "(?, ?, ?) ON DUPLICATE KEY UPDATE " + r.change
}
