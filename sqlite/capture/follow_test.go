package capture

import (
	"bytes"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// image is a database as the groups describe it.
type image struct {
	pages map[uint32][]byte
	state State
}

func (m *image) take(t *testing.T, g *Group) {
	t.Helper()
	if g.Whole {
		m.pages, m.state.Sum = make(map[uint32][]byte), 0
	} else if g.Before != m.state.Sum {
		t.Fatalf("group begins at %x, the one before ended at %x", g.Before, m.state.Sum)
	}
	last := uint32(0)
	err := g.Each(func(number uint32, page []byte) error {
		if number <= last || number > g.State.Pages {
			return fmt.Errorf("page %d after %d of %d", number, last, g.State.Pages)
		}
		last = number
		m.pages[number] = bytes.Clone(page)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for number := range m.pages {
		if number > g.State.Pages {
			delete(m.pages, number)
		}
	}
	m.state = g.State
	if sum := m.sum(); sum != g.State.Sum {
		t.Fatalf("the pages have checksum %x, the group says %x", sum, g.State.Sum)
	}
}

func (m *image) sum() (sum Checksum) {
	for number, page := range m.pages {
		sum ^= Checksum(pageSum(number, page))
	}
	return sum | Flag
}

func (m *image) bytes() []byte {
	var b []byte
	for number := uint32(1); number <= m.state.Pages; number++ {
		b = append(b, m.pages[number]...)
	}
	return b
}

var seeds = flag.Int("seeds", 9, "of TestGroupsAreTheDatabase")

func connect(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_pragma=busy_timeout(20)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestGroupsAreTheDatabase plays connections that write, roll back, checkpoint, vacuum, close and come back. Groups are captured at any
// moment, and any process that can starts the WAL anew. The groups, one after the other, are the database.
func TestGroupsAreTheDatabase(t *testing.T) {
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { follow(t, seed, 250) })
	}
}

func follow(t *testing.T, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "app.db")
	conns := make([]*sql.DB, 3)
	conns[0] = connect(t, path)
	if _, err := conns[0].Exec("create table t (id integer primary key, v blob)"); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { d.Close() }()
	m := &image{pages: make(map[uint32][]byte)}
	first, err := d.View(d.All)
	if err != nil {
		t.Fatal(err)
	}
	first.Whole = true
	m.take(t, first)
	first.Release()
	counts := make(map[string]int)
	for range steps {
		i := r.IntN(len(conns))
		if conns[i] == nil {
			conns[i] = connect(t, path)
		}
		db := conns[i]
		switch k := r.IntN(100); {
		case k < 40:
			db.Exec("insert into t (v) values (randomblob(?))", r.IntN(9000)) // may find it locked
		case k < 50:
			db.Exec("update t set v = randomblob(?) where id % 7 = ?", r.IntN(900), r.IntN(7))
		case k < 54:
			db.Exec("delete from t where id % 5 = ?", r.IntN(5))
		case k < 57:
			if tx, err := db.Begin(); err == nil {
				tx.Exec("pragma cache_size = 3")
				tx.Exec("update t set v = randomblob(200)")
				tx.Rollback()
			}
		case k < 63:
			db.Exec("pragma wal_checkpoint(passive)")
		case k < 66:
			db.Exec("pragma wal_checkpoint(truncate)")
		case k < 67:
			db.Exec("vacuum")
		case k < 73:
			db.Close()
			conns[i] = nil
		case k < 75 && seed%3 == 0:
			d.Close() // asleep: later changes are found by reading, or by counting
			if err := d.Reopen(); err != nil && !errors.Is(err, walfile.ErrBusy) {
				t.Fatal(err)
			}
		case k < 76 && seed%3 == 1:
			if d.Awake() && d.Held() {
				d.Loose()
				db.Exec("pragma wal_checkpoint(truncate)")
			}
		case k < 79 && seed%3 == 1:
			// Other processes have every mark at the moment.
			var others []*walfile.DB
			for range 4 {
				if o, err := walfile.Open(path); err == nil {
					if others = append(others, o); o.Live() {
						o.Hold() // as many as there are
					}
				}
			}
			g, err := d.Capture()
			if err == nil && g != nil {
				m.take(t, g)
			}
			for _, o := range others {
				o.Close()
			}
		case k < 84:
			g, err := d.Restart()
			if err == nil {
				counts["restarted"]++
			}
			if g != nil {
				m.take(t, g)
			}
		default:
			g, err := d.Capture()
			if err != nil && !errors.Is(err, walfile.ErrBusy) && !errors.Is(err, ErrChanged) {
				t.Fatal(err)
			}
			if g == nil {
				continue
			}
			if m.take(t, g); g.Found {
				counts["found"]++
			} else {
				counts["from the WAL"]++
			}
			if r.IntN(4) > 0 || !d.Held() {
				continue // nothing would keep the view as it is
			}
			if v, err := d.View(d.All); err == nil {
				counts["viewed"]++
				db.Exec("insert into t (v) values (randomblob(2000))")
				db.Exec("pragma wal_checkpoint(passive)")
				copied := &image{pages: make(map[uint32][]byte)}
				v.Whole = true
				copied.take(t, v)
				v.Release()
				if !bytes.Equal(copied.bytes(), m.bytes()) {
					t.Fatal("the view is not the state that was captured")
				}
			}
		}
	}
	if g, err := d.Capture(); err != nil {
		t.Fatal(err)
	} else if g != nil {
		m.take(t, g)
	}
	d.Close()
	for _, db := range conns {
		if db != nil {
			db.Close()
		}
	}
	db := connect(t, path) // recovers what is in the WAL
	if _, err := db.Exec("pragma wal_checkpoint(truncate)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.bytes(); !bytes.Equal(got, file) {
		t.Fatalf("the groups give %d bytes that are not the database's %d", len(got), len(file))
	}
	if seed%3 == 2 && counts["found"] > 0 {
		t.Errorf("%d groups were found by reading the database, though the mark was never let go", counts["found"])
	}
	t.Log(counts)
}
