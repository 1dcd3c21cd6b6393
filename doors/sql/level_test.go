package sql

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
)

// TestARowBelowTheLevelIsRefusedWithWhatToDo: while members of an older build are there, the log takes no tables.
func TestARowBelowTheLevelIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY)")
	r.OnPropose(func([]entry.Part) (*entry.Result, error) { return nil, node.ErrLevel })
	for _, text := range []string{"INSERT INTO t VALUES (1)", "CREATE TABLE u (id INT PRIMARY KEY)"} {
		_, err := c.ExecContext(context.Background(), text)
		if number(err) != 1290 || !strings.Contains(err.Error(), "holdfast status") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
