package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// TestAMachineThatWasStartedAnewAndTriesTwice: a power cut took commits that the bucket has, and a program has the database open while the agent
// wants to restore it. The attempt that fails leaves nothing behind that lets the next one take the file for a newer state than the bucket's.
func TestAMachineThatWasStartedAnewAndTriesTwice(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		r := newRig(t)
		a := r.start(gate.Archive)
		db := r.connect()
		r.exec(db, "create table t (id integer primary key)")
		r.exec(db, "insert into t values (1)")
		e := r.extension()
		if code := e.commit(); code != gate.Done {
			t.Fatal(code)
		}
		wal, err := os.ReadFile(r.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		r.exec(db, "insert into t values (2)")
		if code := e.commit(); code != gate.Done {
			t.Fatal(code)
		}
		r.kill(a)
		db.Close()
		if err := os.WriteFile(r.path+"-wal", wal, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(r.path, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(r.path, 4096*2); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(r.path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(wal[32+24:32+24+100], 0); err != nil { // the header, which the first frame has too
			t.Fatal(err)
		}
		file.Close()
		name := filepath.Join(filepath.Dir(r.path), ".app.db-holdfast", "state")
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		k, ok := decodeState(b)
		if !ok {
			t.Fatal("no state")
		}
		k.Boot = "another"
		if err := os.WriteFile(name, k.encode(), 0o600); err != nil {
			t.Fatal(err)
		}
		db = r.connect()
		if n := count(t, db); n != 1 {
			t.Fatalf("%d rows are left by the power cut", n)
		}
		a = r.launch(gate.Archive)
		for until := time.Now().Add(wait.Limit(t)); !strings.Contains(a.Status()[r.path], "open"); time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal("the agent does not say that the database is open: ", a.Status()[r.path])
			}
		}
		if killed {
			r.kill(a)
			db.Close()
			a = r.start(gate.Archive)
		} else {
			db.Close()
			for until := time.Now().Add(wait.Limit(t)); strings.Contains(a.Status()[r.path], "refused"); time.Sleep(time.Millisecond) {
				if time.Now().After(until) {
					t.Fatal("the agent does not go on: ", a.Status()[r.path])
				}
			}
		}
		r.stop(a)
		if n := count(t, r.restored()); n != 2 {
			t.Errorf("the agent was killed in between: %v: %d of 2 rows that were acknowledged are in the bucket", killed, n)
		}
	}
}
