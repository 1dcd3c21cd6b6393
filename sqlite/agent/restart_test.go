package agent

import (
	"context"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// TestOneIsLetGoWhenNobodyIsLeftToCopy: transactions wait so that the WAL can be started anew. The last commit was not copied, and the
// connections that would copy it wait as well. One is released: its commit is copied with the rest, and all go on at once. Without that
// they wait a quarter of a second for nothing, every two seconds.
func TestOneIsLetGoWhenNobodyIsLeftToCopy(t *testing.T) {
	r := newRig(t)
	a := r.start(gate.Local)
	defer r.stop(a)
	db := r.connect()
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec := func(text string) {
		t.Helper()
		if _, err := conn.ExecContext(context.Background(), text); err != nil {
			t.Fatal(err)
		}
	}
	exec("create table t (id integer primary key, v blob)")
	exec("pragma wal_autocheckpoint = 0")
	held := func(e *ext, want byte) time.Time {
		t.Helper()
		for e.state[3] != want {
			e.read(129)
		}
		return time.Now()
	}
	e := r.extension()
	exec("with recursive n(i) as (select 1 union all select i + 1 from n where i < 4200) insert into t (v) select zeroblob(4000) from n")
	exec("pragma wal_checkpoint")
	exec("insert into t (v) values (1)")
	least := time.Hour
	for try := 0; try < 20 && least >= holdMost; try++ { // a busy machine may be late once or twice
		began := held(e, 1)
		least = min(least, held(e, 0).Sub(began))
	}
	if least >= holdMost {
		t.Errorf("nobody was let go for %s", least)
	}
	held(e, 1) // the others wait on
	exec("pragma wal_autocheckpoint = 1000")
	exec("insert into t (v) values (2)")
	for end := time.Now().Add(wait.Limit(t)); ; {
		var busy, frames, copied int
		if err := conn.QueryRowContext(context.Background(), "pragma wal_checkpoint").Scan(&busy, &frames, &copied); err != nil {
			t.Fatal(err)
		}
		if frames < 4000 {
			return // it was started anew
		}
		if time.Now().After(end) {
			t.Fatalf("the WAL has %d frames, %d copied", frames, copied)
		}
		time.Sleep(time.Millisecond)
	}
}
