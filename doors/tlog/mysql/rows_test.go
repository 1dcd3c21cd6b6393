package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// written is what a transaction was sent.
type written struct {
	statements []string
	args       [][]any
	fail       error
}

func (w *written) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	w.statements = append(w.statements, query)
	w.args = append(w.args, append([]any(nil), args...))
	return nil, w.fail
}

// TestRowsTravelTogether, as many as a statement may have, in their order, and a huge one alone.
func TestRowsTravelTogether(t *testing.T) {
	ctx, w := context.Background(), &written{}
	r := rows{into: "`T` (`a`, `b`, `c`)", change: "`c` = VALUES(`c`)"}
	put := func(n, size int) {
		if err := r.put(ctx, w, n, 0, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	put(0, 10)
	put(1, mostBytes+1)
	for n := 2; n < 2+mostRows+1; n++ {
		put(n, 10)
	}
	for range 2 { // the second finds nothing to do
		if err := r.flush(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	next := 0
	var counts []int
	for i, args := range w.args {
		counts = append(counts, len(args)/3)
		if strings.Count(w.statements[i], "?") != len(args) {
			t.Errorf("%d arguments for %s", len(args), w.statements[i])
		}
		for ; len(args) > 0; args = args[3:] {
			if args[0] != next {
				t.Errorf("row %v, want %d", args[0], next)
			}
			next++
		}
	}
	if len(counts) != 4 || counts[0] != 1 || counts[1] != 1 || counts[2] != mostRows || counts[3] != 1 {
		t.Errorf("statements of %d rows", counts)
	}
	if want := "INSERT INTO `T` (`a`, `b`, `c`) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE `c` = VALUES(`c`)"; w.statements[0] != want {
		t.Errorf("%s", w.statements[0])
	}
}

// TestARowThatIsTooLongSaysWhatToDo, with the words of the client library and of both kinds of server.
func TestARowThatIsTooLongSaysWhatToDo(t *testing.T) {
	const advice = "let the server's max_allowed_packet be 32M or more"
	for _, c := range []struct {
		err  error
		told bool
	}{
		{mysql.ErrPktTooLarge, true},
		{&mysql.MySQLError{Number: 1153, Message: "Got a packet bigger than 'max_allowed_packet' bytes"}, true},
		{&mysql.MySQLError{Number: 1105, Message: "Parameter of prepared statement which is set through mysql_send_long_data() " +
			"is longer than 'max_allowed_packet' bytes"}, true},
		{&mysql.MySQLError{Number: 1105, Message: "Unknown error"}, false},
		{&mysql.MySQLError{Number: 1142, Message: "INSERT command denied"}, false},
	} {
		r := rows{into: "`T` (`a`, `b`, `c`)", change: "`c` = VALUES(`c`)", args: []any{1, 2, nil}, n: 1}
		err := r.flush(context.Background(), &written{fail: c.err})
		if !errors.Is(err, c.err) || strings.Contains(err.Error(), advice) != c.told {
			t.Errorf("%v became %v", c.err, err)
		}
	}
}
