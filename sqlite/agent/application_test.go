package agent

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// opens names the variable that makes this test program an application: the database it opens, and how.
const opens = "AGENT_TEST_OPENS"

// TestIsAnApplication is the other program of application, and nothing by itself. It executes each line of its input as a statement, and
// answers with a line, which is empty if there was no error.
func TestIsAnApplication(t *testing.T) {
	name := os.Getenv(opens)
	if name == "" {
		return
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		said := ""
		if _, err := db.Exec(lines.Text()); err != nil {
			said = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Fprintln(os.Stderr, said)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// application is a program that has a database open, in another process than the agent. In one process they would share the locks of POSIX.
// A file that one of them closes takes the locks of the other along, and the other fails with SQLITE_IOERR_RDLOCK. One goroutine has it.
type application struct {
	process *exec.Cmd
	say     io.WriteCloser
	hear    *bufio.Reader
}

// application starts one. It opens the database with its first statement, as options of the driver say.
func (r *rig) application(options string) *application {
	r.t.Helper()
	p := exec.Command(os.Args[0], "-test.run=^TestIsAnApplication$")
	p.Env = append(os.Environ(), opens+"=file:"+r.path+"?"+options)
	say, err := p.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	hear, err := p.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		r.t.Fatal(err)
	}
	a := &application{p, say, bufio.NewReader(hear)}
	r.t.Cleanup(func() { _ = a.Close() }) // the test may have ended it
	return a
}

// Exec executes a statement of one line without arguments.
func (a *application) Exec(text string, args ...any) (sql.Result, error) {
	if len(args) > 0 {
		return nil, errors.New("an application in a test takes no arguments")
	}
	if _, err := fmt.Fprintln(a.say, text); err != nil {
		return nil, err
	}
	line, err := a.hear.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the application has ended: %w", err)
	}
	if line = strings.TrimSpace(line); line != "" {
		return nil, errors.New(line)
	}
	return nil, nil
}

// Close closes the database and ends the application.
func (a *application) Close() error {
	if a.process == nil {
		return nil
	}
	p := a.process
	a.process = nil
	return errors.Join(a.say.Close(), p.Wait())
}
