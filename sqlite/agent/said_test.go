package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
	"github.com/holdfastdb/holdfast/sqlite/walmode"
)

// saying is a rig whose agents switch databases to WAL mode, and whose log is kept.
func saying(t *testing.T) *rig {
	r := newRig(t)
	r.log = &journal{}
	r.cfg.ToWAL = walmode.Switch
	return r
}

// in is an application that has the database in a journal mode, in a process of its own, and opens it with its first statement.
func (r *rig) in(mode string) *application {
	r.t.Helper()
	return r.application("_pragma=busy_timeout(30000)&_pragma=journal_mode(" + mode + ")")
}

// alarms are the kinds of the alarms of the only database.
func alarms(a *Agent) string {
	var kinds []string
	for _, al := range a.Views()[0].Alarms {
		kinds = append(kinds, al.Kind)
	}
	return strings.Join(kinds, " ")
}

// TestADatabaseInAnotherModeIsKept: it is switched to WAL mode at the takeover, once the replica is known to be free for it.
func TestADatabaseInAnotherModeIsKept(t *testing.T) {
	for _, mode := range []string{"delete", "truncate", "persist", "memory", "off"} {
		t.Run(mode, func(t *testing.T) {
			r := saying(t)
			db := r.in(mode)
			r.exec(db, "create table t (x)")
			r.exec(db, "insert into t values (1), (2)")
			a := r.start(gate.Local)
			r.exec(db, "insert into t values (3)")
			r.stop(a)
			if n := count(t, r.restored()); n != 3 {
				t.Errorf("%d of 3 rows are in the bucket", n)
			}
			if r.log.count("switched to WAL mode") != 1 || r.log.count("database is followed") != 1 {
				t.Errorf("the log says %s", &r.log.text)
			}
		})
	}
}

// TestADatabaseThatComesInAnotherModeIsKept: the agent was there first.
func TestADatabaseThatComesInAnotherModeIsKept(t *testing.T) {
	r := saying(t)
	a := r.start(gate.Local)
	db := r.in("delete")
	r.exec(db, "create table t (x)")
	wait.Until(t, "the database is followed", func() bool { return a.Views()[0].Followed })
	r.exec(db, "insert into t values (1)")
	r.stop(a)
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d of 1 rows are in the bucket", n)
	}
}

// TestADatabaseInUseIsSwitchedLater: a transaction that reads keeps it as it is, and the agent says so.
func TestADatabaseInUseIsSwitchedLater(t *testing.T) {
	r := saying(t)
	db := r.in("delete")
	r.exec(db, "create table t (x)")
	r.exec(db, "insert into t values (1)")
	reader, err := walfile.OpenRollback(r.path) // a lock of SQLite's would go with the first descriptor that this process closes
	if err != nil {
		t.Fatal(err)
	}
	a := r.launch(gate.Local)
	wait.Until(t, "an alarm", func() bool { return strings.Contains(a.Status()[r.path], errInUse.Error()) })
	if b, err := os.ReadFile(r.path); err != nil || b[18] != 1 {
		t.Errorf("the file says mode %d, %v", b[18], err)
	}
	reader.Close()
	wait.Until(t, "the database is followed", func() bool { return a.Views()[0].Followed })
	if k := alarms(a); k != "" {
		t.Errorf("alarms %s stay", k)
	}
	r.stop(a)
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d of 1 rows are in the bucket", n)
	}
}

// TestADatabaseInUseUntilTheEndIsStored: its program ends just behind the agent's order to end, and both go. TestADatabaseInUseForEver has the
// other case.
func TestADatabaseInUseUntilTheEndIsStored(t *testing.T) {
	r := saying(t)
	db := r.in("delete")
	r.exec(db, "create table t (x)")
	r.exec(db, "insert into t values (1)")
	reader, err := walfile.OpenRollback(r.path)
	if err != nil {
		t.Fatal(err)
	}
	a := r.launch(gate.Local)
	wait.Until(t, "an alarm", func() bool { return strings.Contains(a.Status()[r.path], errInUse.Error()) })
	ended := make(chan error, 1)
	go func() { ended <- a.Close(t.Context()) }()
	select {
	case err := <-ended:
		t.Errorf("the agent has ended beside a transaction: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	reader.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d of 1 rows are in the bucket", n)
	}
}

// TestADatabaseInUseForEver is named when the patience of the caller ends.
func TestADatabaseInUseForEver(t *testing.T) {
	r := saying(t)
	r.exec(r.in("delete"), "create table t (x)")
	reader, err := walfile.OpenRollback(r.path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	a := r.launch(gate.Local)
	wait.Until(t, "an alarm", func() bool { return strings.Contains(a.Status()[r.path], errInUse.Error()) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.Close(ctx); err == nil || !strings.Contains(err.Error(), errInUse.Error()) {
		t.Errorf("the agent ends with %v", err)
	}
}

// TestARefusedDatabaseIsNotSwitched: whose it is, is decided first.
func TestARefusedDatabaseIsNotSwitched(t *testing.T) {
	r := saying(t)
	a := r.start(gate.Local)
	r.exec(r.connect(), "create table t (x)")
	r.stop(a)
	other := r.another()
	other.exec(other.in("delete"), "create table t (x, y)")
	b := other.launch(gate.Local)
	if err := b.Settled(context.Background()); err == nil {
		t.Error("another database is followed")
	}
	other.lost(b, "NOT STORED")
	if b, err := os.ReadFile(other.path); err != nil || b[18] != 1 {
		t.Errorf("the file says mode %d, %v", b[18], err)
	}
}

// TestWhatIsNotCapturedIsSaid: a program that leaves WAL mode is not fought, and its writes are reported as stored nowhere, at once and at
// the end. When it comes back everything is stored.
func TestWhatIsNotCapturedIsSaid(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprint("it comes back: ", back), func(t *testing.T) {
			r := saying(t)
			a := r.start(gate.Local)
			db := r.in("wal")
			r.exec(db, "create table t (x)")
			wait.Until(t, "it is stored", func() bool { return a.Views()[0].Stored > 0 })
			db.Close()
			wait.Until(t, "nothing is in the way of another mode", func() bool {
				db = r.in("delete")
				if _, err := db.Exec("insert into t values (1)"); err != nil {
					db.Close()
				}
				b, err := os.ReadFile(r.path)
				return err == nil && b[18] == 1
			})
			wait.Until(t, "an alarm", func() bool { return alarms(a) == "capture" && !a.Views()[0].Followed })
			if v := a.Views()[0]; !strings.Contains(v.String(), "not in WAL mode") {
				t.Errorf("the status says %s", v)
			}
			if !back {
				a.all()[0].remind(time.Now().Add(time.Minute))
				r.lost(a, "not in WAL mode")
				if n := r.log.count("NOT STORED: what is committed is not captured"); n != 2 {
					t.Errorf("it is said %d times", n)
				}
				if r.log.count("switched to WAL mode") != 0 {
					t.Error("the program was fought")
				}
				return
			}
			r.exec(db, "pragma journal_mode=wal")
			r.exec(db, "insert into t values (2)")
			wait.Until(t, "no alarm", func() bool { return alarms(a) == "" })
			r.stop(a)
			if n := count(t, r.restored()); n != 2 {
				t.Errorf("%d of 2 rows are in the bucket", n)
			}
			if r.log.count("over: NOT STORED") != 1 {
				t.Errorf("the log says %s", &r.log.text)
			}
		})
	}
}

// TestAModeThatIsLeftIsSaid: without leave to switch it the agent leaves the mode as it is, and never says that it follows.
func TestAModeThatIsLeftIsSaid(t *testing.T) {
	r := saying(t)
	r.cfg.ToWAL = nil
	r.exec(r.in("delete"), "create table t (x)")
	a := r.start(gate.Local)
	if alarms(a) != "capture" || r.log.count("database is followed") != 0 {
		t.Errorf("alarms %q, the log says %s", alarms(a), &r.log.text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	if _, err := a.Sync(ctx, r.path); err == nil || !strings.Contains(err.Error(), "not in WAL mode") {
		t.Errorf("a caller who waits is told %v", err)
	}
	r.lost(a, "not in WAL mode")
	if n := r.store.creates.Load(); n != 0 {
		t.Errorf("%d uploads", n)
	}
}

// TestWhatIsNoDatabaseIsSaid: the start fails at once, and so does a caller that waits in vain.
func TestWhatIsNoDatabaseIsSaid(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"text":      func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("no database ", 20)), 0o600) },
		"encrypted": func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("\x91\xe7\x02\xc4", 2048)), 0o600) },
		"short":     func(p string) error { return os.WriteFile(p, []byte("SQLite"), 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"fifo":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			r := saying(t)
			if err := make(r.path); err != nil {
				t.Fatal(err)
			}
			a := r.launch(gate.Local)
			ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
			defer cancel()
			if err := a.Settled(ctx); err == nil || !strings.Contains(err.Error(), "no SQLite database") || ctx.Err() != nil {
				t.Errorf("the start says %v", err)
			}
			if _, err := a.Sync(ctx, r.path); err == nil || ctx.Err() != nil {
				t.Errorf("a caller who waits is told %v", err)
			}
			r.lost(a, "no SQLite database")
		})
	}
}

// TestNoDatabaseIsSaid at the end; until then one may come.
func TestNoDatabaseIsSaid(t *testing.T) {
	r := saying(t)
	a := r.start(gate.Local)
	r.lost(a, "there is no database")
	if err := os.WriteFile(r.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a = r.start(gate.Local)
	r.lost(a, "nothing was ever committed")
}

// TestAStoreThatNeverAnswersIsFinal at the start, while one that fails for a moment is tried again. There is a line when that begins, one a
// minute, and one when it ends.
func TestAStoreThatNeverAnswersIsFinal(t *testing.T) {
	r := saying(t)
	r.exec(r.connect(), "create table t (x)")
	final := errors.New("")
	for name, err := range map[string]error{
		"no bucket":   minio.ErrorResponse{Code: minio.NoSuchBucket, StatusCode: 404, Message: "The bucket does not exist"},
		"credentials": minio.ErrorResponse{Code: "InvalidAccessKeyId", StatusCode: 403, Message: "no such key"},
		"read-only":   &os.PathError{Op: "create", Path: "/x", Err: syscall.EROFS},
	} {
		final = err
		r.store.fails.Store(&final)
		a := r.launch(gate.Local)
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		err := a.Settled(ctx)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), r.path) {
			// Reading may be allowed and writing not: then the waiting caller is told.
			if _, err = a.Sync(ctx, r.path); err == nil || ctx.Err() != nil {
				t.Errorf("%s: the start says %v", name, err)
			}
		}
		cancel()
		r.lost(a, "")
	}
}

// TestAStartThatIsGivenUpSaysWhatIsNotStored: a store hangs, and the agent is to end before its answer.
func TestAStartThatIsGivenUpSaysWhatIsNotStored(t *testing.T) {
	r := saying(t)
	r.exec(r.connect(), "create table t (x)")
	answer := r.store.hold()
	a := r.launch(gate.Local)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.Settled(ctx); err == nil || !strings.HasPrefix(err.Error(), r.path+": NOT STORED in ") {
		t.Errorf("the start says %v", err)
	}
	answer()
	r.stop(a)
}

// TestAFailureThatPassesIsSaid when it begins, each minute, and when it ends, however many attempts there are.
func TestAFailureThatPassesIsSaid(t *testing.T) {
	r := saying(t)
	a := r.start(gate.Local)
	db := r.connect()
	r.exec(db, "create table t (x)")
	wait.Until(t, "it is stored", func() bool { return a.Views()[0].Stored > 0 })
	r.store.down.Store(true)
	before := r.store.creates.Load()
	r.exec(db, "insert into t values (1)")
	wait.Until(t, "some attempts", func() bool { return r.store.creates.Load() > before+3 })
	if k := alarms(a); k != "store" {
		t.Errorf("alarms: %q", k)
	}
	for i := range 3 {
		a.all()[0].remind(time.Now().Add(time.Duration(i+1) * time.Minute))
	}
	r.store.down.Store(false)
	wait.Until(t, "no alarm", func() bool { return alarms(a) == "" })
	r.stop(a)
	if lines, over := r.log.count("the replica's store fails"), r.log.count("over: the replica's store fails"); lines != 5 || over != 1 {
		t.Errorf("%d lines, %d of the end\n%s", lines, over, &r.log.text)
	}
}
