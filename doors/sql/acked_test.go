package sql

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/ack/acktest"
)

// shipper is an archive that the test fills. What was applied here is what the rig's member has applied.
type shipper struct {
	acktest.Fake
	r *rig
}

func (s *shipper) ReadIndex() uint64 { return s.r.applied.Load() }

// archived is a rig whose second door has an archive.
func archived(t *testing.T, level ack.Level) (r *rig, s *shipper, open func() *sql.Conn) {
	r = newRig(t)
	s = &shipper{r: r}
	at := r.another(func(o *Options) { o.Ack, o.Member = ack.Dial{Archiving: true, Default: level}, s })
	s.SetArchived(s.ReadIndex())
	return r, s, func() *sql.Conn { return r.connectTo(at, "test") }
}

// TestAnswersOfAnArchiveSessionWaitForTheArchive: what was written, and what is read that others wrote. A session at commit waits for nothing.
func TestAnswersOfAnArchiveSessionWaitForTheArchive(t *testing.T) {
	t.Parallel()
	r, s, open := archived(t, ack.Commit)
	c, other := open(), open()
	r.exec(c, "SET holdfast_ack = 'archive'")
	if got, err := query(c, "SELECT @@holdfast_ack, 1"); got != "archive|1\n" {
		t.Fatalf("%q %v", got, err)
	}
	exec := func(text string, args ...any) {
		t.Helper()
		acktest.Held(t, s, text, func() error {
			_, err := c.ExecContext(context.Background(), text, args...)
			return err
		})
	}
	exec("CREATE TABLE t (id INT PRIMARY KEY, k INT, KEY by_k (k))")
	exec("INSERT INTO t VALUES (1, 10), (2, 20)")
	exec("UPDATE t SET k = k + ? WHERE id = ?", 1, 2)
	r.exec(c, "BEGIN")
	r.exec(c, "DELETE FROM t WHERE id = 2") // tells nothing that is not archived
	exec("COMMIT")
	exec("CREATE INDEX again ON t (k, id)")
	r.exec(other, "INSERT INTO t VALUES (3, 30)")
	r.exec(other, "INSERT INTO t VALUES (4, 40)")
	for _, text := range []string{"SELECT k FROM t WHERE id = 4", "SELECT COUNT(*) FROM t FOR UPDATE", "CHECK TABLE t", "SHOW TABLES", "INSERT INTO t VALUES (4, 1)"} {
		r.exec(other, "UPDATE t SET k = k + 1 WHERE id = 3")
		acktest.Held(t, s, text, func() error {
			_, err := query(c, text)
			if number(err) == 1062 {
				return nil // that the row is there
			}
			return err
		})
	}
	r.exec(other, "UPDATE t SET k = k + 1 WHERE id = 3")
	r.exec(c, "SET holdfast_ack = 'commit'") // a session that waits no more
	if got, err := query(c, "SELECT id FROM t WHERE id = 4"); got != "4\n" {
		t.Errorf("%q %v", got, err)
	}
}

// TestNotArchivedInTime: the client hears that its commit took effect, where it is, and that it must not be sent again. Of a read it hears that
// it took too long.
func TestNotArchivedInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := &shipper{r: r}
	at := r.another(func(o *Options) { o.Ack, o.Member = ack.Dial{Archiving: true, Default: ack.Archive}, late{s} })
	c := r.connectTo(at, "test")
	for _, x := range []struct {
		text string
		code uint16
		says string
	}{
		{"CREATE TABLE t (id INT PRIMARY KEY, k INT)", errDuringCommit, "do not send it again"},
		{"INSERT INTO t VALUES (1, 10)", errDuringCommit, "not archived"},
		{"SELECT k FROM t", errTooLong, "not archived"},
		{"INSERT INTO t VALUES (1, 10)", errTooLong, "not archived"}, // that the row is there could be lost
		{"CREATE USER late IDENTIFIED BY 'secret'", errDuringCommit, "do not send it again"},
		{"GRANT ALL ON test.* TO late", errDuringCommit, "do not send it again"},
		{"CREATE USER late IDENTIFIED BY 'secret'", errTooLong, "not archived"}, // that the user is there could be lost
		{"SET holdfast_ack = 'commit'", 0, ""},
		{"SELECT k FROM t", 0, ""},
		{"SET holdfast_ack = 'archive'", errTooLong, ""}, // the next answer would show the same
	} {
		_, err := c.ExecContext(context.Background(), x.text)
		if number(err) != x.code || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, want %d and %q", x.text, err, x.code, x.says)
		}
	}
	counted := at.d.Counts()
	if counted.Errors[errDuringCommit] != 4 || counted.Errors[errTooLong] != 4 {
		t.Errorf("%v", counted.Errors)
	}
}

// late is an archive for which every wait is too short.
type late struct{ *shipper }

func (late) Archived(context.Context, uint64) error { return context.DeadlineExceeded }

// TestThereIsNoArchive: a session that asks for it is refused, and stays at commit.
func TestThereIsNoArchive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	for text, code := range map[string]uint16{"SET holdfast_ack = 'archive'": 1231, "SET holdfast_ack = 'none'": 1231, "SET SESSION holdfast_ack = 'commit'": 0,
		"SET GLOBAL holdfast_ack = 'commit'": 1235} { // any order: each is on its own
		if _, err := c.ExecContext(context.Background(), text); number(err) != code {
			t.Errorf("%s: %v, want %d", text, err, code)
		}
		if got, err := query(c, "SELECT @@holdfast_ack"); got != "commit\n" {
			t.Errorf("behind %s: %q %v", text, got, err)
		}
	}
}

// TestCounts: statements by what they do with the transaction, errors by their number, whichever way they come about.
func TestCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	before := r.d.Counts()
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY)")
	r.exec(c, "BEGIN; INSERT INTO t VALUES (1); SELECT * FROM t; SELECT * FROM t FOR UPDATE; COMMIT")
	for _, text := range []string{"SELEC", "LOCK INSTANCE FOR BACKUP", "INSERT INTO t VALUES (1)", "SELECT * FROM none"} {
		if _, err := query(c, text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	if _, err := c.PrepareContext(context.Background(), "SELEC"); err == nil {
		t.Error("no error")
	}
	after := r.d.Counts()
	for kind, n := range map[string]uint64{"define": 1, "begin": 1, "write": 2, "read": 2, "lock": 1, "commit": 1, "rollback": 0} { // any order: each by itself
		if got := after.Kinds[kind] - before.Kinds[kind]; got != n {
			t.Errorf("%s: %d, want %d", kind, got, n)
		}
	}
	for code, n := range map[uint16]uint64{1064: 2, 1235: 1, 1062: 1, 1146: 1} { // any order: each by itself
		if got := after.Errors[code] - before.Errors[code]; got != n {
			t.Errorf("%d: %d, want %d", code, got, n)
		}
	}
}
