package agent

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

var verbose = flag.Bool("agentlog", false, "print what the agents log")

// bucket is a store whose uploads a test holds up, counts and lets fail.
type bucket struct {
	objstore.Store
	requests atomic.Int64
	creates  atomic.Int64 // of files, not of the manifest
	down     atomic.Bool
	fails    atomic.Pointer[error] // every call returns it; nil: none
	lose     atomic.Int64          // so many answers to uploads that succeeded
	deaf     atomic.Bool           // it knows no conditions
	// identities counts the requests for the replica's identity.
	identities atomic.Int64

	mu   sync.Mutex
	gate chan struct{} // guarded by mu: uploads wait for it to be closed; nil: they do not
}

var errDown = errors.New("the bucket is down")

func (b *bucket) pass(ctx context.Context) error {
	b.requests.Add(1)
	b.mu.Lock()
	g := b.gate
	b.mu.Unlock()
	if g != nil {
		select {
		case <-g:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if b.down.Load() {
		return errDown
	}
	if err := b.fails.Load(); err != nil {
		return *err
	}
	return nil
}

// hold makes uploads wait until the function is called.
func (b *bucket) hold() func() {
	g := make(chan struct{})
	b.mu.Lock()
	b.gate = g
	b.mu.Unlock()
	return func() {
		b.mu.Lock()
		b.gate = nil
		b.mu.Unlock()
		close(g)
	}
}

// letPass lets those through that come from here on; those that wait go on waiting.
func (b *bucket) letPass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate = nil
}

func (b *bucket) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	b.creates.Add(1)
	if err := b.pass(ctx); err != nil {
		return err
	}
	if b.deaf.Load() {
		return objstore.ErrUnconditional
	}
	return b.Store.PutIfAbsent(ctx, o)
}

func (b *bucket) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	b.creates.Add(1)
	if err := b.pass(ctx); err != nil {
		return err
	}
	if b.deaf.Load() && ifAbsent {
		return objstore.ErrUnconditional
	}
	if err := b.Store.PutFrom(ctx, name, size, r, ifAbsent); err != nil {
		return err
	}
	if b.lose.Add(-1) >= 0 {
		return errDown
	}
	return nil
}

func (b *bucket) PutIfMatch(ctx context.Context, o objstore.Object, was string) (string, error) {
	if err := b.pass(ctx); err != nil {
		return "", err
	}
	if b.deaf.Load() {
		return "", objstore.ErrUnconditional
	}
	return b.Store.PutIfMatch(ctx, o, was)
}

func (b *bucket) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	b.requests.Add(1)
	if name == replica.IdentityName {
		b.identities.Add(1)
	}
	if err := b.fails.Load(); err != nil {
		return nil, "", *err
	}
	return b.Store.GetVersion(ctx, name)
}

// rig is a machine's disk with a database, and a bucket that several machines may share.
type rig struct {
	t     *testing.T
	path  string
	store *bucket
	cfg   Config
	log   *journal // nil: the agents' logs are discarded
	// slowest is the longest that an application took to announce a commit of its own.
	slowest time.Duration
	// socket is the extension's; "": beside the database.
	socket string
}

func (r *rig) socketPath() string {
	if r.socket != "" {
		return r.socket
	}
	return filepath.Join(filepath.Dir(r.path), "s")
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, path: filepath.Join(t.TempDir(), "app.db"), store: &bucket{Store: newSwappable(objstore.NewMemory())}}
}

// another is another machine with the same bucket.
func (r *rig) another() *rig {
	return &rig{t: r.t, path: filepath.Join(r.t.TempDir(), "app.db"), store: r.store, cfg: r.cfg}
}

func (r *rig) replica() *replica.Replica { return replica.New(r.store, replica.Bucket) }

// start starts an agent and waits until it follows the database, or waits for one.
func (r *rig) start(ack gate.Ack) *Agent {
	r.t.Helper()
	a := r.launch(ack)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(r.t))
	defer cancel()
	if err := a.Settled(ctx); err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) launch(ack gate.Ack) *Agent {
	r.t.Helper()
	a, err := Start(r.config(ack))
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) config(ack gate.Ack) Config {
	c := r.cfg
	if len(c.Databases) == 0 {
		c.Databases = []Target{{Path: r.path, Replica: r.replica(), URL: "memory", Ack: ack}}
	}
	if c.Interval == 0 {
		c.Interval = 20 * time.Millisecond
	}
	c.Socket = r.socketPath()
	c.Log = slog.New(slog.DiscardHandler)
	if r.log != nil {
		c.Log = slog.New(slog.NewTextHandler(r.log, nil))
	}
	if *verbose {
		c.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return c
}

// stop ends an agent, which has stored everything.
func (r *rig) stop(a *Agent) {
	r.t.Helper()
	if o := r.close(a); !o.Stored() {
		r.t.Fatal(o)
	}
}

// lost ends an agent that has not stored everything, and says so: want is in its words.
func (r *rig) lost(a *Agent, want string) {
	r.t.Helper()
	if o := r.close(a); o.Stored() || !strings.Contains(o.String(), "NOT STORED: ") || !strings.Contains(o.String(), want) {
		r.t.Errorf("it ends with %q, want %q", o, want)
	}
}

// close ends an agent, and returns how its database ended. All of the agent's reservations are given back.
func (r *rig) close(a *Agent) Outcome {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(r.t))
	defer cancel()
	all := a.all()
	err := a.Close(ctx)
	o := a.Outcomes()
	if len(o) != 1 || (err == nil) != o[0].Stored() {
		r.t.Fatalf("%d databases ended, with %v and %v", len(o), err, o)
	}
	r.conserved(a, all)
	return o[0]
}

// conserved fails the test if an agent that has ended still holds what it reserved.
func (r *rig) conserved(a *Agent, all []*database) {
	r.t.Helper()
	if len(a.uploads) != 0 || len(a.opening) != 0 || a.work.n != 0 {
		r.t.Errorf("%d uploads, %d places of takeovers and %d goroutines are not given back", len(a.uploads), len(a.opening), a.work.n)
	}
	for _, d := range all {
		if len(d.waiters) != 0 || len(d.arrived) != 0 || d.failing != 0 || d.files != nil && d.files.Open() {
			r.t.Errorf("%d waiters, %d that came late and %d failing requests are left; the files are open: %v", len(d.waiters), len(d.arrived), d.failing,
				d.files != nil && d.files.Open())
		}
		bytes, streams := int64(0), 0
		for _, s := range d.ships {
			bytes += s.bytes
			if s.stream {
				streams++
			}
		}
		if d.bytes != bytes || d.streams != streams {
			r.t.Errorf("%d bytes and %d streams are counted, and there are %d and %d", d.bytes, d.streams, bytes, streams)
		}
	}
}

// kill ends an agent where it is.
func (r *rig) kill(a *Agent) {
	a.cancel()
	a.gate.Close()
	a.work.Wait(a.cfg.Runner)
	a.unlock()
	for _, d := range a.all() {
		if d.files != nil { // the end of a process closes those of a database that rests
			d.files.Close()
		}
	}
	r.conserved(a, a.all())
}

func (r *rig) connect() *sql.DB {
	r.t.Helper()
	db, err := sql.Open("sqlite", "file:"+r.path+"?_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_pragma=busy_timeout(30000)")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { db.Close() })
	return db
}

// executor is a *sql.DB, or an application.
type executor interface {
	Exec(text string, args ...any) (sql.Result, error)
}

func (r *rig) exec(db executor, text string, args ...any) {
	r.t.Helper()
	if _, err := db.Exec(text, args...); err != nil {
		r.t.Fatal(err)
	}
}

// restored is the database as the bucket alone has it.
func (r *rig) restored() *sql.DB {
	r.t.Helper()
	db, err := r.tryRestore()
	if err != nil {
		r.t.Fatal(err)
	}
	return db
}

// tryRestore is restored while an agent removes what has had its time.
func (r *rig) tryRestore() (*sql.DB, error) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "restored.db")
	got, err := restore.Restore(context.Background(), r.replica(), restore.Options{From: "memory", To: path})
	if err != nil {
		return nil, err
	}
	if !got.Proved {
		r.t.Fatal("the restored database has no checksum to hold it against")
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { db.Close() })
	return db, nil
}

func count(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("select count(*) from t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// ext does in a test what the extension does in an application: it tells the agent of commits and waits.
type ext struct {
	t    *testing.T
	conn *net.UnixConn
	seq  uint32
	// state is the last STATE message: managed, ack, refuse, hold.
	state [4]byte
	text  string // of the first
}

func (r *rig) extension() *ext {
	r.t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: r.socketPath(), Net: "unixpacket"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	e := &ext{t: r.t, conn: conn}
	hello := append([]byte{1, 1, 0}, 0, 0, 0, 0)
	conn.Write(append(hello, r.path...))
	e.read(129)
	return e
}

// read reads up to a message of the kind.
func (e *ext) read(kind byte) []byte {
	e.t.Helper()
	b := make([]byte, 8192)
	for {
		e.conn.SetReadDeadline(time.Now().Add(wait.Limit(e.t)))
		n, err := e.conn.Read(b)
		if err != nil {
			e.t.Fatal(err)
		}
		if b[0] == 129 {
			e.state = [4]byte(b[1:5])
		}
		if b[0] == kind {
			return b[:n]
		}
	}
}

// commit waits until what was committed is stored.
func (e *ext) commit() gate.Code {
	e.t.Helper()
	e.seq++
	m := binary.LittleEndian.AppendUint32([]byte{2}, e.seq)
	m = append(m, 2, 0)
	m = append(m, make([]byte, 12)...)
	if _, err := e.conn.Write(m); err != nil {
		e.t.Fatal(err)
	}
	b := e.read(130)
	if got := binary.LittleEndian.Uint32(b[1:]); got != e.seq {
		e.t.Fatalf("the answer is to commit %d, not %d", got, e.seq)
	}
	return gate.Code(b[5])
}

// position is where the last commit ends in the WAL, which was not started anew. The index is not opened: this process would lose SQLite's locks on it.
func (r *rig) position() (p walfile.Position) {
	r.t.Helper()
	b, err := os.ReadFile(r.path + "-wal")
	if err != nil || len(b) < 32 {
		r.t.Fatalf("%d bytes of the WAL, %v", len(b), err)
	}
	copy(p.Salt[:], b[16:24])
	p.Frame = uint32((len(b) - 32) / (24 + 4096))
	return p
}

// commitAt waits until a commit that ends there is stored.
func (e *ext) commitAt(p walfile.Position) gate.Code {
	e.t.Helper()
	e.seq++
	m := binary.LittleEndian.AppendUint32([]byte{2}, e.seq)
	m = append(append(m, 2, 0), p.Salt[:]...)
	if _, err := e.conn.Write(binary.LittleEndian.AppendUint32(m, p.Frame)); err != nil {
		e.t.Fatal(err)
	}
	b := e.read(130)
	if got := binary.LittleEndian.Uint32(b[1:]); got != e.seq {
		e.t.Fatalf("the answer is to commit %d, not %d", got, e.seq)
	}
	return gate.Code(b[5])
}

// announced commits in an application with the extension, and waits until that is stored.
func (r *rig) announced(db executor, e *ext, text string) gate.Code {
	r.t.Helper()
	began := time.Now()
	r.exec(db, text)
	p := r.position()
	r.slowest = max(r.slowest, time.Since(began))
	return e.commitAt(p)
}

// quiet fails the test if the agent has said that a commit was not announced, or anything else. A machine may be so busy that an
// announcement came late by itself. Then the agent is right to say so, and the test shows nothing.
func (r *rig) quiet(a *Agent) {
	r.t.Helper()
	kinds, fault := alarms(a), a.Fault()
	if fault == nil && kinds == "" {
		return
	}
	if r.slowest >= witnessGrace/2 && kinds == "extension" {
		r.kill(a)
		r.t.Skipf("this machine is busy with something else: a commit was announced after %v", r.slowest)
	}
	r.t.Fatalf("%v, alarms %s", fault, kinds)
}

// journal is a log that a test reads while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// count is how many lines have a text in them.
func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
