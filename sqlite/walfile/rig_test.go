package walfile

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	_ "modernc.org/sqlite"
)

// A process loses SQLite's locks on a file when it closes any descriptor of it. Connections of a test are in its own process, so a file
// opened by a test stays open until its end. Where locks matter, another DB takes them, or set on a file of its own, as another process
// would.

// connection is one of SQLite, as an application has it.
type connection struct {
	t  *testing.T
	db *sql.DB
}

// connect opens a database in WAL mode, which only the test checkpoints. A page size of 0 is SQLite's own.
func connect(t *testing.T, path string, pageSize int) *connection {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	c := &connection{t, db}
	for _, text := range []string{fmt.Sprintf("page_size=%d", pageSize), "journal_mode=wal", "busy_timeout=0", "wal_autocheckpoint=0"} {
		c.exec("pragma " + text)
	}
	return c
}

func (c *connection) exec(text string, args ...any) {
	c.t.Helper()
	if _, err := c.db.Exec(text, args...); err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
}

func (c *connection) rows(table string) (n int) {
	c.t.Helper()
	if err := c.db.QueryRow("select count(*) from " + table).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *connection) close() {
	c.t.Helper()
	if err := c.db.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// shared makes a database with a table t, which a connection has open.
func shared(t *testing.T, pageSize int) (path string, c *connection) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "app.db")
	c = connect(t, path, pageSize)
	c.exec("create table t (v)")
	c.exec("insert into t values (1)")
	return path, c
}

func mustOpen(t *testing.T, path string) *DB {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// live opens a database that connections share.
func live(t *testing.T, path string) *DB {
	t.Helper()
	d := mustOpen(t, path)
	if !d.Live() {
		t.Fatal("no connection shares the index")
	}
	return d
}

func mustHeader(t *testing.T, d *DB) Header {
	t.Helper()
	h, err := d.Header()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// other opens a file as another process does.
func other(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

const (
	unlocked  = int16(syscall.F_UNLCK)
	shareably = int16(syscall.F_RDLCK)
	alone     = int16(syscall.F_WRLCK)
)

// lock has another process take or drop a lock.
func lock(t *testing.T, f *os.File, kind int16, first, n int64) {
	t.Helper()
	if err := set(f, kind, first, n); err != nil {
		t.Fatal(err)
	}
}

// locked is the kind of lock that f's process finds in its way.
func locked(t *testing.T, f *os.File, first, n int64) int16 {
	t.Helper()
	kind, err := held(f, first, n)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// aWAL builds a WAL as walformat.html describes it, with nothing of the package.
type aWAL struct {
	order binary.ByteOrder
	size  int // of a page
	salt  [8]byte
	a, b  uint32 // running checksum
	bytes []byte
	sums  [][2]uint32 // behind each frame; the first one behind the header
}

func newWAL(order binary.ByteOrder, size int, salt string) *aWAL {
	w := &aWAL{order: order, size: size}
	copy(w.salt[:], salt)
	be := binary.BigEndian
	magic := uint32(0x377f0682)
	if order == binary.ByteOrder(be) {
		magic = 0x377f0683
	}
	w.bytes = be.AppendUint32(w.bytes, magic)
	w.bytes = be.AppendUint32(w.bytes, 3007000)
	w.bytes = be.AppendUint32(w.bytes, uint32(size))
	w.bytes = be.AppendUint32(w.bytes, 7) // checkpoints so far
	w.bytes = append(w.bytes, w.salt[:]...)
	w.add(w.bytes)
	return w
}

// add goes on with the checksum over what was appended, and appends it.
func (w *aWAL) add(p ...[]byte) {
	for _, p := range p {
		for ; len(p) > 0; p = p[8:] {
			w.a += w.order.Uint32(p) + w.b
			w.b += w.order.Uint32(p[4:]) + w.a
		}
	}
	w.bytes = binary.BigEndian.AppendUint32(w.bytes, w.a)
	w.bytes = binary.BigEndian.AppendUint32(w.bytes, w.b)
	w.sums = append(w.sums, [2]uint32{w.a, w.b})
}

// frame appends one whose page consists of one byte.
func (w *aWAL) frame(page, commit uint32, content byte) *aWAL {
	be := binary.BigEndian
	var head []byte
	head = be.AppendUint32(head, page)
	head = be.AppendUint32(head, commit)
	b := make([]byte, w.size)
	for i := range b {
		b[i] = content
	}
	w.bytes = append(append(w.bytes, head...), w.salt[:]...)
	w.add(head, b)
	w.bytes = append(w.bytes, b...)
	return w
}

// header is the state behind frame n.
func (w *aWAL) header(n, pages uint32) Header {
	return Header{Position: Position{Salt: w.salt, Frame: n}, Pages: pages, PageSize: uint32(w.size), Sum: w.sums[n]}
}

// lone writes a database of so many pages with this WAL beside it, unopened, and opens it.
func (w *aWAL) lone(t *testing.T, pages int) *DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.db")
	write(t, path, aDatabase(w.size, pages))
	write(t, path+"-wal", w.bytes)
	return mustOpen(t, path)
}

// aDatabase is a file in WAL mode of so many pages, of which the first says what this package has to know.
func aDatabase(size, pages int) []byte {
	b := make([]byte, size*pages)
	copy(b, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(b[16:], uint16(size)) // 0 for 65536, which is made 1
	if size == 1<<16 {
		b[17] = 1
	}
	b[18], b[19] = 2, 2
	return b
}
