package sql

import (
	"context"
	"sync"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestAStatementAloneRunsAgain: a statement with no transaction around it that was chosen to give up, or whose term was over before its commit was in
// the log, takes effect once, and its client hears of nothing. Within a transaction the client is told.
func TestAStatementAloneRunsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.connect("test"), r.connect("test")
	r.exec(a, "CREATE TABLE t (id INT PRIMARY KEY, k INT, n INT)")
	r.exec(a, "INSERT INTO t VALUES (1, 2, 0), (2, 1, 0)")
	// b locks row 2 and then wants row 1, and a the other way round. a is alone, and has written less.
	r.exec(b, "BEGIN")
	r.exec(b, "UPDATE t SET n = n + 10 WHERE id = 2")
	waits := func(n int) {
		wait.Until(t, "the locks are waited for", func() bool { return r.options.Worker.Waiting() >= n })
	}
	done := make(chan error, 1)
	go func() {
		_, err := a.ExecContext(context.Background(), "UPDATE t SET n = n + 1 ORDER BY id")
		done <- err
	}()
	waits(1)
	r.exec(b, "UPDATE t SET n = n + 100, k = 77777 WHERE id = 2")
	r.exec(b, "UPDATE t SET n = n + 10 WHERE id = 1")
	r.exec(b, "COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, err := query(a, "SELECT id, n FROM t"); got != "1|11\n2|111\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if n := r.d.Counts().Retries["deadlock"]; n != 1 {
		t.Errorf("%d retries for deadlocks", n)
	}
	// The leader changes before the commit is in the log.
	var mu sync.Mutex
	term, propose := uint64(5), r.propose
	r.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		if term < 8 {
			term++
			go r.Lead(term) // the next try waits for it
			return nil, node.ErrSuperseded
		}
		return propose(parts)
	})
	r.exec(a, "UPDATE t SET n = n + 1 WHERE id = 1")
	if got, err := query(a, "SELECT n FROM t WHERE id = 1"); got != "12\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if n := r.d.Counts().Retries["leader changed"]; n != 3 {
		t.Errorf("%d retries for the leader", n)
	}
	for _, text := range []string{"BEGIN", "UPDATE t SET n = n + 1 WHERE id = 1", "COMMIT"} {
		mu.Lock()
		if text == "COMMIT" {
			term = 7
		}
		mu.Unlock()
		if _, err := a.ExecContext(context.Background(), text); (text == "COMMIT") != (number(err) == 1213) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got, err := query(a, "SELECT n FROM t WHERE id = 1"); got != "12\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	// A commit that is in the log, and whose outcome the member does not hear, is not made again.
	r.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		r.OnPropose(propose)
		if _, err := propose(parts); err != nil {
			t.Error(err)
		}
		go r.Lead(20)
		return nil, node.ErrUnknown
	})
	if _, err := a.ExecContext(context.Background(), "UPDATE t SET n = n + 1 WHERE id = 1"); number(err) != 1053 {
		t.Errorf("%v, want 1053", err)
	}
	wait.Until(t, "the next term", func() bool { return r.options.Worker.Term() == 20 })
	if got, err := query(b, "SELECT n FROM t WHERE id = 1"); got != "13\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}
