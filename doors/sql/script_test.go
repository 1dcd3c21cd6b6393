package sql

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestScripts runs the conversations of testdata/*.txt with a real driver. A line "a> STATEMENT" is said by the client a, "a? STATEMENT" in a
// prepared statement whose arguments follow " -- ". A client USER:PASSWORD#N/DATABASE is that user, and #N and /DATABASE may be missing; any other
// client is root in the database test. Lines below it are the answer: rows, "ok" with what changed, or an error. Of "a& STATEMENT" the answer may be
// that the client waits for a lock: then the line "a<" has the answer that it gets in the end.
func TestScripts(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, string(play(t, b)))
		})
	}
}

// play runs a script and returns it with the answers that it got.
func play(t *testing.T, script []byte) []byte { return playOn(t, newRig(t), script) }

// playOn is play on a member.
func playOn(t *testing.T, r *rig, script []byte) []byte {
	clients, later := map[string]*sql.Conn{}, map[string]chan string{}
	var out bytes.Buffer
	for line := range strings.Lines(string(script)) {
		line = strings.TrimRight(line, "\n")
		if who, ok := strings.CutSuffix(line, "<"); ok && clients[who] != nil {
			fmt.Fprintln(&out, line)
			if later[who] == nil { // it had its answer at once
				continue
			}
			select {
			case answer := <-later[who]:
				out.WriteString(answer)
			case <-time.After(wait.Limit(t)):
				t.Fatalf("%s: the answer does not come", line)
			}
			delete(later, who)
			continue
		}
		if who, text, ok := strings.Cut(line, "& "); ok && !strings.ContainsAny(who, " |") && who != "" {
			fmt.Fprintln(&out, line)
			if clients[who] == nil {
				clients[who] = r.connect("test")
			}
			c, before, answer := clients[who], r.options.Worker.Waiting(), make(chan string, 1)
			go func() { answer <- say(c, text, nil) }()
			wait.Until(t, line, func() bool { return len(answer) > 0 || r.options.Worker.Waiting() > before })
			select {
			case is := <-answer:
				out.WriteString(is)
			default:
				out.WriteString("  waits\n")
				later[who] = answer
			}
			continue
		}
		who, text, ok := strings.Cut(line, "> ")
		binary := false
		if !ok || strings.ContainsAny(who, " |") || who == "" {
			if who, text, ok = strings.Cut(line, "? "); !ok || strings.ContainsAny(who, " |") || who == "" {
				if line == "" || strings.HasPrefix(line, "#") {
					fmt.Fprintln(&out, line)
				}
				continue // an answer of the last run
			}
			binary = true
		}
		fmt.Fprintln(&out, line)
		c := clients[who]
		if c == nil {
			var err error
			if c, err = r.named(who); err != nil {
				out.WriteString(mistake(err))
				continue
			}
			clients[who] = c
		}
		var args []any
		if binary {
			var list string
			text, list, _ = strings.Cut(text, " -- ")
			for word := range strings.SplitSeq(list, ", ") {
				args = append(args, argumentOf(word))
			}
		}
		out.WriteString(say(c, text, args))
	}
	return out.Bytes()
}

// named connects a client by its name in a script.
func (r *rig) named(who string) (*sql.Conn, error) {
	user, rest, ok := strings.Cut(who, ":")
	if !ok {
		return r.connect("test"), nil
	}
	rest, database, _ := strings.Cut(rest, "/")
	password, _, _ := strings.Cut(rest, "#")
	return r.login(served{r.d, r.addr}, user, password, database)
}

// argumentOf reads an argument: a number, NULL or a text.
func argumentOf(word string) any {
	if word == "NULL" {
		return nil
	}
	var n int64
	if _, err := fmt.Sscanf(word, "%d", &n); err == nil && fmt.Sprint(n) == word {
		return n
	}
	var f float64
	if _, err := fmt.Sscanf(word, "%g", &f); err == nil && fmt.Sprint(f) == word {
		return f
	}
	return strings.Trim(word, "'")
}

// say runs a statement and prints the answer, each line with two spaces before it.
func say(c *sql.Conn, text string, args []any) string {
	first, _, _ := strings.Cut(strings.ToUpper(strings.TrimLeft(text, " (")), " ")
	if strings.HasPrefix(text, "XA RECOVER") {
		first = "SHOW"
	}
	switch first {
	case "SELECT", "SHOW", "DESCRIBE", "EXPLAIN", "WITH", "CHECK":
	default:
		res, err := c.ExecContext(context.Background(), text, args...)
		if err != nil {
			return mistake(err)
		}
		changed, _ := res.RowsAffected() // this driver knows both
		id, _ := res.LastInsertId()
		out := fmt.Sprintf("  ok, %d rows", changed)
		if id != 0 {
			out += fmt.Sprintf(", id %d", id)
		}
		return out + "\n"
	}
	rows, err := query(c, text, args...)
	if err != nil {
		return mistake(err)
	}
	if rows == "" {
		return "  no rows\n"
	}
	var out strings.Builder
	for line := range strings.Lines(rows) {
		out.WriteString("  " + line)
	}
	return out.String()
}

func mistake(err error) string {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return fmt.Sprintf("  error %d %s %s\n", e.Number, e.SQLState, e.Message)
	}
	return fmt.Sprintf("  error %v\n", err)
}
