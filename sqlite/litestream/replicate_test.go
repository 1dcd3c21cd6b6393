package litestream

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
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/wait"
	litestreamconf "github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

// lines is a log that tests look into while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// replicating is a program that replicates. Its end is waited for.
type replicating struct {
	t       *testing.T
	log     lines
	signals chan os.Signal
	ended   chan error
}

func begin(t *testing.T, environ []string, args ...string) *replicating {
	t.Helper()
	r := &replicating{t: t, signals: make(chan os.Signal, 2), ended: make(chan error, 1)}
	p := &program{environ: environ, stdout: &r.log, stderr: &r.log}
	if err := p.surround(); err != nil {
		t.Fatal(err)
	}
	how, err := p.plan(args)
	if err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- p.run(how, r.signals) }()
	return r
}

// end waits for the end, which must be a good one.
func (r *replicating) end() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("%v\n%s", err, &r.log)
		}
	case <-time.After(wait.Limit(r.t)):
		r.t.Fatalf("it does not end\n%s", &r.log)
	}
}

// lost waits for the end, which must be one with something that is not stored, for a reason, and without a word of success.
func (r *replicating) lost(why string) {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if s := r.log.String(); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(s, "complete\"") || strings.Contains(s, "shut down") {
			r.t.Errorf("it ends with %v, want %q\n%s", err, why, s)
		}
	case <-time.After(wait.Limit(r.t)):
		r.t.Fatalf("it does not end\n%s", &r.log)
	}
}

func (r *replicating) says(text string) {
	r.t.Helper()
	wait.Until(r.t, text, func() bool { return strings.Contains(r.log.String(), text) })
}

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func do(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

// count is how many rows a database has that was restored from url.
func count(t *testing.T, url string) (n int) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "restored.db")
	good(t, "restore", "-o", out, url)
	if err := open(t, out).QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestADatabaseThatComesLaterIsKeptUntilTheSignal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, url := filepath.Join(dir, "app.db"), "file://"+filepath.Join(dir, "replica")
	r := begin(t, nil, path, url)
	r.says("initialized db")
	db := open(t, path)
	do(t, db, "CREATE TABLE t (x)")
	do(t, db, "INSERT INTO t VALUES (1), (2), (3)")
	r.signals <- syscall.SIGTERM
	r.end()
	if n := count(t, url); n != 3 {
		t.Errorf("%d rows are kept", n)
	}
	if s := r.log.String(); strings.Contains(s, "level=ERROR") || !strings.Contains(s, "signal received, litestream shutting down") {
		t.Errorf("the log says\n%s", s)
	}
}

func TestReplicationEndsWithTheProgramBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, url := filepath.Join(dir, "app.db"), "file://"+filepath.Join(dir, "replica")
	db := open(t, path)
	do(t, db, "CREATE TABLE t (x)")
	do(t, db, "INSERT INTO t VALUES (1)")
	r := begin(t, []string{"WORD=from the environment"}, "-exec", `/bin/sh -c 'echo it runs, $WORD; exit 0'`, path, url)
	r.end()
	if s := r.log.String(); !strings.Contains(s, "it runs, from the environment") || !strings.Contains(s, "subprocess exited") {
		t.Errorf("the log says\n%s", s)
	}
	if n := count(t, url); n != 1 {
		t.Errorf("%d rows are kept", n)
	}
	r = begin(t, nil, "-exec", "/bin/sh -c 'exit 3'", path, url)
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("it ends with %v", err)
	}
	r = begin(t, nil, "-exec", `/bin/sh -c 'trap "echo told; exit 0" TERM; echo ready; while :; do sleep 0.01; done'`, path, url)
	r.says("ready")
	r.signals <- syscall.SIGTERM
	r.end()
	r.says("told")
	r = begin(t, nil, "-exec", "/no/such/program", path, url)
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "cannot start exec command") {
		t.Errorf("it ends with %v", err)
	}
}

func TestOnceStoresWhatThereIsAndEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, url := filepath.Join(dir, "app.db"), "file://"+filepath.Join(dir, "replica")
	begin(t, nil, "-once", path, url).lost("there is no database at " + path)
	db := open(t, path)
	do(t, db, "CREATE TABLE t (x)")
	for want := 1; want <= 2; want++ {
		do(t, db, "INSERT INTO t VALUES (1)")
		r := begin(t, nil, "-once", path, url)
		r.end()
		r.says("one-shot replication complete")
		if n := count(t, url); n != want {
			t.Errorf("%d rows are kept, want %d", n, want)
		}
	}
}

func TestAMissingDatabaseIsRestoredBeforeReplicationBegins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, url := filepath.Join(dir, "app.db"), "file://"+filepath.Join(dir, "replica")
	begin(t, nil, "-once", "-restore-if-db-not-exists", path, url).lost("there is no database at " + path)
	db := open(t, path)
	do(t, db, "CREATE TABLE t (x)")
	do(t, db, "INSERT INTO t VALUES (1)")
	begin(t, nil, "-once", path, url).end()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r := begin(t, nil, "-restore-if-db-not-exists", "-exec", "/bin/sh -c 'test -s "+path+"'", path, url)
	r.end()
	r.says("msg=restored")
}

// TestADirectoryIsWatched: databases come, are replicated below the directory's replica, and go.
func TestADirectoryIsWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := write(t, filepath.Join(dir, "litestream.yml"), fmt.Sprintf(`dbs:
  - dir: %s
    pattern: "*.db"
    watch: true
    monitor-interval: 20ms
    replica: {path: %s/replica, sync-interval: 20ms}
`, dir, dir))
	r := begin(t, nil, "-config", conf)
	r.says("msg=litestream")
	db := open(t, filepath.Join(dir, "new.db"))
	do(t, db, "CREATE TABLE t (x)")
	do(t, db, "INSERT INTO t VALUES (1)")
	r.says("path=" + filepath.Join(dir, "new.db"))
	wait.Until(t, "a file in the replica", func() bool {
		all, err := filepath.Glob(filepath.Join(dir, "replica", "new.db", "ltx", "0", "*.ltx"))
		return err == nil && len(all) > 0
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "new.db")); err != nil {
		t.Fatal(err)
	}
	r.says("database is gone")
	r.signals <- syscall.SIGINT
	r.end()
	if n := count(t, "file://"+filepath.Join(dir, "replica", "new.db")); n != 1 {
		t.Errorf("%d rows are kept", n)
	}
}

func TestASyncThroughTheSocketStoresAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, socket := filepath.Join(dir, "app.db"), filepath.Join(dir, "control")
	conf := write(t, filepath.Join(dir, "litestream.yml"), fmt.Sprintf(`socket: {enabled: true, path: %s, permissions: 0640}
dbs:
  - path: %s
    monitor-interval: 1h
    replica: {path: %s/replica}
`, socket, path, dir))
	bad(t, "failed to connect to control socket", "sync", "-socket", socket, path)
	dead, err := net.Listen("unix", socket) // an earlier program's, left behind
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	db := open(t, path)
	do(t, db, "CREATE TABLE t (x)")
	r := begin(t, nil, "-config", conf)
	r.says("control socket listening")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	do(t, db, "INSERT INTO t VALUES (1)")
	var row syncRow
	if err := json.Unmarshal([]byte(good(t, "sync", "-wait", "-json", "-socket", socket, path)), &row); err != nil || row.DBPath != path || row.TXID == 0 ||
		row.ReplicaTXID == nil || *row.ReplicaTXID != row.TXID {
		t.Errorf("%+v, %v", row, err)
	}
	if n := count(t, "file://"+filepath.Join(dir, "replica")); n != 1 {
		t.Errorf("%d rows are kept", n)
	}
	if out := good(t, "sync", "-socket", socket, path); !strings.HasPrefix(out, "db_path: "+path+"\ntxid: ") || strings.Contains(out, "replica_txid") {
		t.Errorf("it prints %s", out)
	}
	bad(t, "sync failed: database not found: /other.db", "sync", "-socket", socket, "/other.db")
	bad(t, "-timeout 0", "sync", "-timeout", "0", "-socket", socket, path)
	if _, err := post(socket, "stop", []byte("{}"), time.Second); err == nil || !strings.Contains(err.Error(), "POST /stop is not offered here") {
		t.Errorf("another request: %v", err)
	}
	if _, err := post(socket, "sync", []byte("{"), time.Second); err == nil || !strings.Contains(err.Error(), "invalid request body") {
		t.Errorf("half a request: %v", err)
	}
	r.signals <- syscall.SIGTERM
	r.end()
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left behind")
	}
}

// TestMetricsAreServedAtAddr, and an address that is taken does not keep the databases from being kept, as in Litestream.
func TestMetricsAreServedAtAddr(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "app.db")
	db := open(t, path)
	do(t, db, "CREATE TABLE t (x)")
	addr := regexp.MustCompile(`msg=metrics addr=(\S+)`)
	start := func(at string) *replicating {
		return begin(t, nil, "-config", write(t, filepath.Join(dir, "litestream.yml"), fmt.Sprintf("addr: %q\ndbs: [{path: %s, replica: {path: %s/replica}}]\n", at, path, dir)))
	}
	r := start("127.0.0.1:0")
	r.says("msg=metrics addr=")
	at := addr.FindStringSubmatch(r.log.String())[1]
	r.says("is followed")
	wait.Until(t, "the metrics say what is stored", func() bool {
		resp, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(b), `litestream_txid{db="`+path+`"} 1`)
	})
	r.signals <- syscall.SIGTERM
	r.end()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r = start(taken.Addr().String())
	r.says("cannot start metrics server")
	r.says("is followed")
	r.signals <- syscall.SIGTERM
	r.end()
}

func TestASocketThatIsInUseIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	file, socket := write(t, filepath.Join(dir, "file"), "x"), filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, want := range map[string]string{file: "something else of that name", socket: "another program listens there"} {
		if _, err := listen(litestreamconf.Socket{Path: path, Permissions: 0o600}, nil, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestAStartThatCannotBeIsRefused(t *testing.T) {
	conf := write(t, filepath.Join(t.TempDir(), "l.yml"), "exec: a | b\ndbs: [{path: /x/app.db, replica: {path: /x/replica}}]")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"must specify at least one replica URL for a.db", []string{"a.db"}},
		{"a.db has 2 replicas", []string{"a.db", "file:///x", "file:///y"}},
		{`flag "-exec" must be positioned before`, []string{"a.db", "-exec"}},
		{"cannot specify a replica URL and the -config flag", []string{"-config", conf, "a.db", "file:///x"}},
		{"cannot specify -once flag with -exec", []string{"-once", "-exec", "a", "a.db", "file:///x"}},
		{"cannot specify -force-snapshot flag without -once", []string{"-force-snapshot", "a.db", "file:///x"}},
		{"cannot specify -enforce-retention flag without -once", []string{"-enforce-retention", "a.db", "file:///x"}},
		{"-force-snapshot is not offered", []string{"-once", "-force-snapshot", "a.db", "file:///x"}},
		{"there is no log level loud", []string{"-log-level", "loud", "a.db", "file:///x"}},
		{"cannot parse exec command: | is for a shell", []string{"-config", conf}},
		{"is no URL of a replica", []string{"a.db", "replica"}},
	} {
		bad(t, c.want, append([]string{"replicate"}, c.args...)...)
	}
}

// TestABucketIsReachedByWhatTheFileSays: key, server and form of address are in the configuration file alone; there and back.
func TestABucketIsReachedByWhatTheFileSays(t *testing.T) {
	b, err := bucket.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var endpoint string
	for _, line := range b.Env() {
		if v, ok := strings.CutPrefix(line, "AWS_ENDPOINT_URL="); ok {
			endpoint = v
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	dir := t.TempDir()
	path := filepath.Join(dir, "app.db")
	conf := write(t, filepath.Join(dir, "litestream.yml"), fmt.Sprintf(`access-key-id: key
secret-access-key: secret
dbs:
  - path: %s
    replica: {url: %s, endpoint: "%s", region: us-east-1}
`, path, b.URL("app"), endpoint))
	db := open(t, path)
	do(t, db, "CREATE TABLE t (x)")
	do(t, db, "INSERT INTO t VALUES (1), (2)")
	begin(t, nil, "-config", conf, "-once").end()
	if out := good(t, "ltx", "-config", conf, path); !strings.Contains(out, "0000000000000001") {
		t.Errorf("it prints %s", out)
	}
	again := filepath.Join(dir, "again.db")
	good(t, "restore", "-config", conf, "-integrity-check", "full", "-o", again, path)
	var n int
	if err := open(t, again).QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestAReplicaOfLitestreamsIsNotWrittenTo: its files say nothing by which a database could be known to be theirs. It is restored from.
func TestAReplicaOfLitestreamsIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, to := filepath.Join(dir, "app.db"), filepath.Join(dir, "replica")
	db := open(t, path)
	do(t, db, "CREATE TABLE t (x)")
	theirs, err := os.ReadFile("testdata/litestream-0.5.18.ltx")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(to, "ltx", "0"), 0o755); err != nil {
		t.Fatal(err)
	}
	name := write(t, filepath.Join(to, "ltx", "0", "0000000000000001-0000000000000001.ltx"), string(theirs))
	bad(t, "Litestream wrote what is in file://"+to, "replicate", "-once", path, "file://"+to)
	bad(t, "Litestream wrote what is in file://"+to, "replicate", "-exec", "/bin/true", path, "file://"+to)
	all, err := filepath.Glob(filepath.Join(to, "*", "*", "*"))
	if err != nil || len(all) != 1 || all[0] != name {
		t.Errorf("there is %q, %v", all, err)
	}
	if n := count(t, "file://"+to); n != 3 {
		t.Errorf("%d rows are restored", n)
	}
}

// TestTheExtensionFindsTheAgent: the file beside the database is one that the extension takes. The level is Litestream's: no commit waits.
func TestTheExtensionFindsTheAgent(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hfl") // a socket's path is short, t.TempDir's is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path, socket := filepath.Join(dir, "app.db"), filepath.Join(dir, "s")
	do(t, open(t, path), "CREATE TABLE t (x)")
	r := begin(t, []string{extensionSocket + "=" + socket}, path, "file://"+filepath.Join(dir, "replica"))
	r.says("followed")
	b, err := os.ReadFile(filepath.Join(dir, ".app.db-holdfast", "agent"))
	if want := "socket " + socket + "\nack local\n"; err != nil || string(b) != want {
		t.Errorf("%q, %v; the extension wants %q", b, err, want)
	}
	r.signals <- syscall.SIGTERM
	r.end()
}
