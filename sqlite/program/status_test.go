package program

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// status runs `sqlite status` and returns its exit status, what it printed, and what it said on standard error.
func status(args ...string) (code int, out, said string) {
	var o, e bytes.Buffer
	code = cli.Run([]*cli.Command{Status()}, append([]string{"sqlite", "status"}, args...), &o, &e, func(string) string { return "" })
	return code, o.String(), e.String()
}

// TestStatusTellsOfARunningAgent: no agent, one that follows a database and waits for another, one whose store is gone, and one that has ended.
func TestStatusTellsOfARunningAgent(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	path, none, to := filepath.Join(dir, "app.db"), filepath.Join(dir, "none.db"), filepath.Join(dir, "replica")
	made(t, path, "wal")
	if code, out, said := status(); code != 1 || out != "" || !strings.Contains(said, "no agent of this user listens in "+temp) || strings.Count(said, "\n") != 1 {
		t.Errorf("without an agent: %d, %s%s", code, out, said)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string)
	go func() {
		code, said := call(t, "sqlite", "run", "--replica", "file://"+to, "--interval", "20ms", "--metrics", addr, "--shutdown-timeout", "1s", path, none, "--", "/bin/sh", "-c",
			"while [ ! -e "+dir+"/done ]; do sleep 0.02; done")
		ended <- fmt.Sprint(code, said)
	}()
	stored := func() bool {
		code, out, _ := status("--json", path)
		return code == 0 && strings.Contains(out, `"stored_txid": "0000000000000001"`)
	}
	wait.Until(t, "the database is stored", stored)
	if code, out, said := status(); code != 0 || said != "" || !slices.Equal(strings.Fields(out)[9:13], []string{path, "followed", "archive", "0000000000000001"}) ||
		!strings.Contains(out, none+"  waiting ") {
		t.Errorf("of two databases: %d\n%s%s", code, out, said)
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	code, out, said := status("--json", link)
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 0 || len(rows) != 1 || rows[0]["database"] != path || rows[0]["agent_pid"] != float64(os.Getpid()) {
		t.Errorf("by another name: %d, %v\n%s%s", code, err, out, said)
	}
	if code, _, said := status(path, "other.db"); code != 1 || !strings.Contains(said, "no agent of this user has other.db") {
		t.Errorf("a database that no agent has: %d, %s", code, said)
	}
	if got := scraped(t, addr); !strings.Contains(got, `litestream_txid{db="`+path+`"} 1`) || !strings.Contains(got, `holdfast_sqlite_alarm{db="`+path+`",kind="swapped"} 0`) ||
		!strings.Contains(got, `litestream_replica_operation_total{operation="PUT",replica_type="file"}`) {
		t.Errorf("metrics:\n%s", got)
	}
	if err := os.Rename(filepath.Join(to, "app.db"), filepath.Join(to, "away")); err != nil {
		t.Fatal(err)
	}
	if db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"); err != nil {
		t.Fatal(err)
	} else if _, err := db.Exec("INSERT INTO t VALUES (2)"); err != nil {
		t.Fatal(err)
	} else if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the alarm is told", func() bool {
		code, out, _ := status(path)
		return code == 1 && strings.Contains(out, path+": ALARM swapped for ")
	})
	if got := scraped(t, addr); !strings.Contains(got, `holdfast_sqlite_alarm{db="`+path+`",kind="swapped"} 1`) {
		t.Errorf("metrics of a store that is gone:\n%s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "done"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; !strings.HasPrefix(got, "1") || !strings.Contains(got, path+": NOT STORED") {
		t.Errorf("the end: %s", got)
	}
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasSuffix(e.Name(), ".status") || strings.HasSuffix(e.Name(), ".new") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestStatusPassesOverAgentsThatWereKilled, and removes what they left; a socket of another user is not asked, nor is a file.
func TestStatusPassesOverAgentsThatWereKilled(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	left := filepath.Join(temp, fmt.Sprintf("holdfast-sqlite-%d-1.status", os.Getuid()))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(temp, fmt.Sprintf("holdfast-sqlite-%d-2.status", os.Getuid()+1))
	s, err := net.Listen("unix", stranger)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	asked := make(chan struct{})
	go func() {
		if c, err := s.Accept(); err == nil {
			_ = c.Close() // nothing is answered
			close(asked)
		}
	}()
	if err := os.WriteFile(filepath.Join(temp, fmt.Sprintf("holdfast-sqlite-%d-3.status", os.Getuid())), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, said := status(); code != 1 || !strings.Contains(said, "no agent of this user") {
		t.Errorf("%d, %s", code, said)
	}
	if _, err := os.Lstat(left); err == nil {
		t.Error("the socket of a killed agent stays")
	}
	select {
	case <-asked:
		t.Error("a socket was asked whose name says another user than its owner")
	default:
	}
}

func scraped(t *testing.T, addr string) string {
	t.Helper()
	resp, err := (&http.Client{Timeout: wait.Limit(t)}).Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
