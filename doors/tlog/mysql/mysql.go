package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// dialTime and callTime bound connecting and one statement.
	dialTime = 10 * time.Second
	callTime = 30 * time.Second
)

// MySQL is Tables in a database of a MySQL or MariaDB server.
type MySQL struct{ db *sql.DB }

// Open reads mysql://user@host:port/db, to which ?tls=true may be added: the server must then prove its name by a certificate
// that this machine trusts. The password is never part of the URL, because URLs are logged. Nothing is sent yet.
func Open(text, password string) (*MySQL, error) {
	const form = "write mysql://user@host:port/db"
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("no URL; " + form) // the error of url.Parse quotes the text, which may hold a password
	}
	if _, has := u.User.Password(); has {
		return nil, errors.New("a password on the command line is seen by everybody on this machine; " + form)
	}
	db := strings.TrimPrefix(u.Path, "/")
	if u.Scheme != "mysql" || u.User.Username() == "" || u.Hostname() == "" || db == "" || strings.Contains(db, "/") || u.Fragment != "" {
		return nil, fmt.Errorf("%s names no database; %s", u.Redacted(), form)
	}
	c := mysql.NewConfig()
	switch u.RawQuery {
	case "":
	case "tls=true":
		c.TLSConfig = "true"
	default:
		return nil, fmt.Errorf("?%s is not understood; the only option is ?tls=true", u.RawQuery)
	}
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = u.User.Username(), password, "tcp", u.Host, db
	if u.Port() == "" {
		c.Addr = strings.TrimSuffix(u.Host, ":") + ":3306"
	}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = dialTime, callTime, callTime
	c.MaxAllowedPacket = 0     // ask the server
	c.InterpolateParams = true // one round trip for a statement instead of three
	c.Logger = &mysql.NopLogger{}
	c.Params = map[string]string{
		// If a publisher's machine is lost within a transaction, the server must end it soon and not after hours: the next
		// publisher waits for it.
		"wait_timeout":             "60",
		"innodb_lock_wait_timeout": "20",
		// A value that does not fit must be an error. Without a strict mode the server would cut it.
		"sql_mode": "'STRICT_ALL_TABLES'",
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; %s", u.Redacted(), err, form)
	}
	d := &MySQL{db: sql.OpenDB(connector)}
	d.db.SetMaxOpenConns(4) // the worker, and requests that ask whether a log may be resumed
	d.db.SetMaxIdleConns(1)
	d.db.SetConnMaxIdleTime(30 * time.Second) // below wait_timeout
	return d, nil
}

// Close ends all connections.
func (d *MySQL) Close() error { return d.db.Close() }

// State implements Tables.
func (d *MySQL) State(ctx context.Context) (State, error) {
	s, err := readState(d.db.QueryRowContext(ctx, state))
	if errors.Is(err, errMissing) {
		return s, nil
	}
	return s, err
}

// Bundle implements Tables.
func (d *MySQL) Bundle(ctx context.Context, n uint64) (entries []byte, width int, err error) {
	err = d.db.QueryRowContext(ctx, "SELECT `size`, `data` FROM `TiledLeaves` WHERE `tile_index` = ?", n).Scan(&width, &entries)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	return entries, width, err
}

// Tile implements Tables.
func (d *MySQL) Tile(ctx context.Context, level int, n uint64) (hashes []byte, err error) {
	err = d.db.QueryRowContext(ctx, "SELECT `nodes` FROM `Subtree` WHERE `level` = ? AND `index` = ?", level, n).Scan(&hashes)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return hashes, err
}

// Begin implements Tables.
func (d *MySQL) Begin(ctx context.Context) (Tx, error) {
	t, err := d.begin(ctx)
	if !errors.Is(err, errMissing) {
		return t, err
	}
	if err := makeTables(ctx, d.db); err != nil { // outside of the transaction, which it would end
		return nil, err
	}
	return d.begin(ctx)
}

// begin returns a nil Tx with an error.
func (d *MySQL) begin(ctx context.Context) (Tx, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("begin a transaction: %w", err)
	}
	s, err := readState(tx.QueryRowContext(ctx, state+" FOR UPDATE"))
	if err != nil {
		_ = tx.Rollback() // nothing was written
		return nil, err
	}
	return &transaction{tx: tx, began: s,
		bundles: rows{into: "`TiledLeaves` (`tile_index`, `size`, `data`)", change: "`size` = VALUES(`size`), `data` = VALUES(`data`)"},
		tiles:   rows{into: "`Subtree` (`level`, `index`, `nodes`)", change: "`nodes` = VALUES(`nodes`)"},
	}, nil
}

// transaction is a Tx of MySQL.
type transaction struct {
	tx             *sql.Tx
	began          State
	bundles, tiles rows
}

// State implements Tx.
func (t *transaction) State() State { return t.began }

// PutBundle implements Tx.
func (t *transaction) PutBundle(ctx context.Context, n uint64, width int, entries []byte) error {
	return t.bundles.put(ctx, t.tx, n, width, entries)
}

// PutTile implements Tx.
func (t *transaction) PutTile(ctx context.Context, level int, n uint64, hashes []byte) error {
	return t.tiles.put(ctx, t.tx, level, n, hashes)
}

// Commit implements Tx.
func (t *transaction) Commit(ctx context.Context, size uint64, root, note []byte) error {
	for _, r := range []*rows{&t.bundles, &t.tiles} {
		if err := r.flush(ctx, t.tx); err != nil {
			return err
		}
	}
	if _, err := t.tx.ExecContext(ctx, "UPDATE `TreeState` SET `size` = ?, `root` = ? WHERE `id` = 0", size, root); err != nil {
		return fmt.Errorf("write the tree's state: %w", err)
	}
	if note != nil {
		_, err := t.tx.ExecContext(ctx, "INSERT INTO `Checkpoint` (`id`, `note`, `published_at`) VALUES (0, ?, ?) "+
			"ON DUPLICATE KEY UPDATE `note` = VALUES(`note`), `published_at` = VALUES(`published_at`)", note, time.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("write the checkpoint: %w", err)
		}
	}
	// The commit point: from here on readers find the new state with everything it needs.
	if err := t.tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Rollback implements Tx. If the connection is gone, the server does it.
func (t *transaction) Rollback() { _ = t.tx.Rollback() }
