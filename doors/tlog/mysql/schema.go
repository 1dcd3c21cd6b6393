package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
)

// version is the version of the schema, as the table Tessera has it.
const version = 1

// tables are made if they are missing. Names and types are those that Tessera's readers expect. The engine is named because all promises
// here rest on transactions, and the server's default engine may have none.
var tables = []string{
	"CREATE TABLE IF NOT EXISTS `Tessera` (`id` TINYINT UNSIGNED NOT NULL PRIMARY KEY, `compatibilityVersion` BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB",
	"CREATE TABLE IF NOT EXISTS `TreeState` (`id` TINYINT UNSIGNED NOT NULL PRIMARY KEY, `size` BIGINT UNSIGNED NOT NULL, " +
		"`root` TINYBLOB NOT NULL) ENGINE=InnoDB",
	"CREATE TABLE IF NOT EXISTS `Checkpoint` (`id` TINYINT UNSIGNED NOT NULL PRIMARY KEY, `note` MEDIUMBLOB NOT NULL, " +
		"`published_at` BIGINT NOT NULL) ENGINE=InnoDB",
	"CREATE TABLE IF NOT EXISTS `Subtree` (`level` TINYINT UNSIGNED NOT NULL, `index` BIGINT UNSIGNED NOT NULL, " +
		"`nodes` MEDIUMBLOB NOT NULL, PRIMARY KEY (`level`, `index`)) ENGINE=InnoDB",
	"CREATE TABLE IF NOT EXISTS `TiledLeaves` (`tile_index` BIGINT UNSIGNED NOT NULL PRIMARY KEY, `size` SMALLINT UNSIGNED NOT NULL, " +
		"`data` LONGBLOB NOT NULL) ENGINE=InnoDB",
}

// state reads everything about the log as a whole at one moment. Followed by FOR UPDATE it is the lock that transactions wait for.
const state = "SELECT v.`compatibilityVersion`, t.`size`, t.`root`, c.`note` FROM `Tessera` v LEFT JOIN `TreeState` t ON t.`id` = v.`id` " +
	"LEFT JOIN `Checkpoint` c ON c.`id` = v.`id` WHERE v.`id` = 0"

// errMissing: a table or a row that every log has is not there.
var errMissing = errors.New("no log has been begun in these tables")

// readState reads the answer to state.
func readState(row *sql.Row) (State, error) {
	var v uint64
	var size sql.NullInt64
	var s State
	err := row.Scan(&v, &size, &s.Root, &s.Note)
	var answer *mysql.MySQLError
	switch {
	case errors.Is(err, sql.ErrNoRows), errors.As(err, &answer) && answer.Number == errNoSuchTable:
		return State{}, errMissing
	case err != nil:
		return State{}, fmt.Errorf("read the published state: %w", err)
	case v != version:
		return State{}, fmt.Errorf("%w: %d, this is for %d", ErrVersion, v, version)
	case !size.Valid || size.Int64 < 0:
		return s, errMissing
	}
	s.Size = uint64(size.Int64)
	return s, nil
}

// errNoSuchTable is MySQL's number for it.
const errNoSuchTable = 1146

// makeTables makes what is missing of tables and first rows. It needs rights that publishing alone does not, so it is called
// only if something is missing.
func makeTables(ctx context.Context, db *sql.DB) error {
	for _, t := range tables {
		if _, err := db.ExecContext(ctx, t); err != nil {
			return fmt.Errorf("make tables: %w", err)
		}
	}
	none := sha256.Sum256(nil)
	if _, err := db.ExecContext(ctx, "INSERT IGNORE INTO `TreeState` (`id`, `size`, `root`) VALUES (0, 0, ?)", none[:]); err != nil {
		return fmt.Errorf("begin a tree: %w", err)
	}
	// This row comes last: it says that the tables are complete.
	if _, err := db.ExecContext(ctx, "INSERT IGNORE INTO `Tessera` (`id`, `compatibilityVersion`) VALUES (0, ?)", version); err != nil {
		return fmt.Errorf("mark tables: %w", err)
	}
	return nil
}
