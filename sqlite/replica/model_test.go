package replica_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

var background = context.Background()

// model is a replica with owners that come and go. Their uploads land late and in any order, answers are lost, old owners do not know that
// they are old, and takeovers are slow. A state that an owner was told is stored, without a gap before it, must be in every later restore.
type model struct {
	t      *testing.T
	rng    *rand.Rand
	memory *objstore.Memory
	faulty *objstore.Faulty
	owners []*owner
	ids    uint64
	taking bool // a takeover goes on
	within bool // and others are between its steps

	dbs map[replica.Checksum]replicatest.DB // every state that any owner ever had
	// promised is, by TXID, the checksum of the state whose commit was acknowledged as stored.
	promised map[replica.TXID]replica.Checksum
	log      []string
}

// owner is one of them.
type owner struct {
	*replicatest.Writer
	way    []upload // on their way, or not sent yet
	mine   []replica.File
	stored map[replica.TXID]bool
	told   int // how many of mine it was told are stored, without a gap
	fenced bool
}

// begun reports whether it may make another file: behind the first one of a replica only when that is stored.
func (o *owner) begun() bool { return len(o.mine) == 0 || o.mine[0].Min > 1 || o.told > 0 }

type upload struct {
	file replica.File
	body replica.Body
}

// between runs what others do before a file is created, so that a takeover is slow where it matters.
type between struct {
	objstore.Store
	m *model
}

func (b between) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	if b.m.taking && !b.m.within && b.m.rng.IntN(3) == 0 {
		b.m.within = true
		for range b.m.rng.IntN(12) {
			b.m.step()
		}
		b.m.within = false
	}
	return b.Store.PutFrom(ctx, name, size, r, ifAbsent)
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 7)), memory: objstore.NewMemory(), dbs: map[replica.Checksum]replicatest.DB{},
		promised: map[replica.TXID]replica.Checksum{}}
	m.faulty = objstore.NewFaulty(m.memory, seed, task.Goroutines{}, objstore.Faults{Refused: 0.03, Before: 0.03, After: 0.06, Repeated: 0.06})
	return m
}

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	for _, l := range m.log {
		m.t.Log(l)
	}
	m.t.Fatalf(format, args...)
}

// begin lets a new owner take the replica over, or begin it.
func (m *model) begin(store objstore.Store) *owner {
	m.ids++
	r := replica.New(store, replica.Bucket)
	m.note("%d takes over", m.ids)
	id := m.ids
	var c *replica.Chain
	m.taking = true
	defer func() { m.taking = false }()
	for try := 0; c == nil; try++ {
		var err error
		if c, err = r.TakeOver(background, id); err != nil && try == 5 {
			return nil
		}
	}
	if err := replica.New(m.memory, replica.Bucket).Fill(background, c.Files); err != nil {
		m.fail("fill: %v", err)
	}
	db, ok := m.dbs[c.Head.Post]
	if !ok && !c.Head.Empty() {
		m.fail("the head %+v is of a database that nobody had", c.Head)
	}
	w := replicatest.New(r, id)
	w.Head, w.DB, w.Files, w.Epoch = c.Head, db, c.Files, max(c.Epoch, 1)
	o := &owner{Writer: w, stored: map[replica.TXID]bool{}}
	m.note("%d has taken over at %s", id, c.Head.TXID)
	m.owners = append(m.owners, o)
	return o
}

// page is unlike any other. The database checksum is linear: it does not tell which of two pages has which content.
func (m *model) page() []byte {
	p := make([]byte, 512)
	binary.LittleEndian.PutUint64(p, m.rng.Uint64())
	return p
}

// group makes an owner's next file.
func (m *model) group(o *owner) {
	f, body := o.Group(3, map[uint32][]byte{1: m.page(), 2 + m.rng.Uint32N(2): m.page()})
	m.dbs[f.Post] = o.DB
	o.mine = append(o.mine, f)
	o.way = append(o.way, upload{f, body})
}

// land lets one upload arrive.
func (m *model) land(o *owner, i int) {
	u := o.way[i]
	err := o.R.Create(background, u.file, u.body)
	m.note("%d: %s: %v", o.Owner, u.file, err)
	switch {
	case err == nil:
		o.stored[u.file.Max] = true
	case errors.Is(err, replica.ErrFenced):
		o.fenced = true
	default:
		return // it is tried again
	}
	o.way = slices.Delete(o.way, i, i+1)
	for o.told < len(o.mine) && o.stored[o.mine[o.told].Max] {
		f := o.mine[o.told]
		if was, ok := m.promised[f.Max]; ok && was != f.Post {
			m.fail("two owners were told that %s is stored", f.Max)
		}
		m.promised[f.Max] = f.Post
		o.Files = append(o.Files, f)
		o.told++
		m.note("%d was told that %s is stored", o.Owner, f.Max)
	}
}

// compact writes a file of a higher level, says so, and removes what that covers.
func (m *model) compact(o *owner) {
	if o.told == 0 || o.told < len(o.mine) || o.fenced {
		return
	}
	level, min := replica.SnapshotLevel, replica.TXID(1)
	if m.rng.IntN(2) == 0 {
		level, min = 1, o.mine[m.rng.IntN(len(o.mine))].Min
	}
	f, err := o.Compact(level, min)
	if err != nil {
		return
	}
	var gone []replica.File
	o.Files = slices.DeleteFunc(o.Files, func(g replica.File) bool {
		covered := g.Level == 0 && !g.Fence && f.Min <= g.Min && g.Max < o.Head.TXID
		if covered {
			gone = append(gone, g)
		}
		return covered
	})
	err = o.R.PutManifest(background, o.Manifest())
	m.note("%d: manifest up to %s: %v", o.Owner, o.Head.TXID, err)
	switch {
	case errors.Is(err, replica.ErrFenced):
		o.fenced = true
	case errors.Is(err, replica.ErrOutdated):
		c, err := o.R.Read(background)
		if err != nil || o.R.Fill(background, c.Files) != nil {
			o.fenced = true // it gives up
			return
		}
		o.Files = c.Files
	case err == nil:
		if m.rng.IntN(4) > 0 {
			m.note("%d removes %v: %v", o.Owner, gone, o.R.Remove(background, gone...))
		}
		if m.rng.IntN(2) == 0 {
			n, err := o.R.RemoveOrphans(background, o.Manifest())
			m.note("%d removes %d orphans: %v", o.Owner, n, err)
		}
	default:
		o.Files = append(o.Files, gone...)
	}
}

// step is one thing that happens.
func (m *model) step() {
	if len(m.owners) == 0 {
		return
	}
	o := m.owners[m.rng.IntN(len(m.owners))]
	switch x := m.rng.IntN(20); {
	case x < 8 && !o.fenced && len(o.way) < 8 && o.begun():
		m.group(o)
	case x < 16 && len(o.way) > 0:
		m.land(o, m.rng.IntN(len(o.way)))
	case x < 18:
		m.compact(o)
	}
}

// check holds what is stored against what was promised.
func (m *model) check() {
	c, err := replica.New(m.memory, replica.Bucket).Read(background)
	if err != nil {
		m.fail("read: %v", err)
	}
	if err := replica.New(m.memory, replica.Bucket).Fill(background, c.Files); err != nil {
		m.fail("fill: %v", err)
	}
	post := map[replica.TXID]replica.Checksum{}
	for _, f := range c.Files {
		if was, ok := post[f.Max]; ok && was != f.Post {
			m.fail("%s ends with another database than another file", f)
		}
		post[f.Max] = f.Post
	}
	for _, f := range c.Files {
		if was, ok := post[f.Min-1]; ok && f.Min > 1 && was != f.Pre {
			m.fail("%s begins with another database than the file before it ends with", f)
		}
	}
	for id, sum := range m.promised { // any order: each is looked at
		if id > c.Head.TXID {
			m.fail("%s was promised, and the chain ends with %s", id, c.Head.TXID)
		}
		if is, ok := post[id]; ok && is != sum {
			m.fail("%s was promised, and another database is there", id)
		}
	}
	if !c.Head.Empty() && !c.Head.Fence {
		m.greedy(c.Head)
	}
}

// greedy restores as Litestream does: of the possible next files always the longest.
func (m *model) greedy(head replica.Head) {
	var db replicatest.DB
	at := replica.TXID(0)
	type found struct {
		replica.File
		data []byte
	}
	var all []found
	for name, b := range m.memory.Objects() { // any order: the best is taken
		if f, ok := replica.Bucket.Parse(name); ok {
			all = append(all, found{f, b})
		}
	}
	for {
		var best *found
		for i := range all {
			f := &all[i]
			if f.Max <= at || f.Min > at+1 || at == 0 && f.Min != 1 {
				continue
			}
			if best == nil || f.Max > best.Max || f.Max == best.Max && f.Min < best.Min {
				best = f
			}
		}
		if best == nil {
			break
		}
		db = apply(m, db, best.File, best.data)
		at = best.Max
	}
	if at != head.TXID || !bytes.Equal(db.Bytes(), m.dbs[head.Post].Bytes()) {
		m.fail("Litestream restores up to %s, another database than ours at %s", at, head.TXID)
	}
}

// apply lays a file over a database.
func apply(m *model, db replicatest.DB, f replica.File, data []byte) replicatest.DB {
	d, err := restore.ReadFile(bytes.NewReader(data))
	if err != nil {
		m.fail("%s: %v", f, err)
	}
	out := make(replicatest.DB, d.Header.Commit)
	copy(out, db)
	for n, p := range d.Pages { // any order: they are different pages
		out[n-1] = p
	}
	return out
}

// run is one life of a replica.
func (m *model) run(deep bool) {
	for len(m.owners) == 0 {
		m.begin(m.faulty)
	}
	for i := range 40 {
		if m.rng.IntN(12) == 0 {
			m.begin(between{m.faulty, m})
		}
		m.step()
		if i%8 == 7 {
			m.check()
		}
	}
	m.faulty.Set(objstore.Faults{})
	last := m.begin(m.memory)
	went := 0
	for _, o := range m.owners {
		before := o.told
		if o.begun() {
			m.group(o)
		}
		for len(o.way) > 0 {
			m.land(o, m.rng.IntN(len(o.way)))
		}
		if o.told == len(o.mine) && o.told > before {
			if went++; o != last {
				m.fail("%d goes on, and %d has taken over", o.Owner, last.Owner)
			}
		}
	}
	if went != 1 {
		m.fail("%d owners go on", went)
	}
	m.check()
	if deep {
		m.restore(last)
	}
}

// restore makes the database as a user would.
func (m *model) restore(last *owner) {
	fsys := disk.NewMem()
	if err := fsys.MkdirAll("/d"); err != nil {
		m.fail("%v", err)
	}
	if _, err := restore.Restore(background, last.R, restore.Options{To: "/d/db", FS: fsys}); err != nil {
		m.fail("restore: %v", err)
	}
	b, err := fsys.ReadFile("/d/db")
	if err != nil || !bytes.Equal(b, last.DB.Bytes()) {
		m.fail("another database was restored (%v)", err)
	}
}

// TestWhatWasPromisedIsRestoredWhoeverTakesOver is the chain's promise, over many short lives.
func TestWhatWasPromisedIsRestoredWhoeverTakesOver(t *testing.T) {
	for seed := range uint64(400) {
		newModel(t, seed).run(seed%20 == 0)
	}
}
