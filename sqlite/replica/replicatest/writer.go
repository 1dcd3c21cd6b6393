// Package replicatest makes replicas in tests: an owner with a small database that it changes, ships and compacts. It knows the whole
// history, so a test can say what a restore must come to. It is not the agent: nothing here reads SQLite's files.
package replicatest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// DB is a database: its pages from 1 on. A page is never changed in place.
type DB [][]byte

// Bytes is the database file.
func (d DB) Bytes() []byte { return bytes.Join(d, nil) }

// Sum is its checksum.
func (d DB) Sum() replica.Checksum {
	var all ltx.Checksum
	for i, p := range d {
		all ^= ltx.ChecksumPage(uint32(i+1), p)
	}
	return ltx.ChecksumFlag | all
}

// State is an owner's state at a TXID, with the pages changed by the group that ends there.
type State struct {
	File    replica.File
	DB      DB
	Changed map[uint32]bool
	// From are the bytes of the file.
	Data []byte
}

// Writer is an owner. It is used by one goroutine.
type Writer struct {
	R        *replica.Replica
	Owner    uint64
	Epoch    uint64
	PageSize uint32
	Head     replica.Head // as the owner sees it: behind all that it has made, stored or not
	DB       DB
	// Past is every state that it made, upwards, Files all files that are stored, as a manifest has them.
	Past  []State
	Files []replica.File
	// Now is the time of the next file, a second after its predecessor's.
	Now time.Time
}

// New returns the owner of an empty replica.
func New(r *replica.Replica, owner uint64) *Writer {
	return &Writer{R: r, Owner: owner, Epoch: 1, PageSize: 512, Now: time.UnixMilli(1_700_000_000_000).UTC()}
}

// Fill is a page of one byte.
func Fill(size uint32, b byte) []byte { return bytes.Repeat([]byte{b}, int(size)) }

// Group changes pages, gives the database a size, and makes the file of it, which is not stored. Pages that are new and not said are zero.
func (w *Writer) Group(commit uint32, pages map[uint32][]byte) (replica.File, replica.Body) {
	db := make(DB, commit)
	changed := map[uint32]bool{}
	for i := range db {
		n := uint32(i + 1)
		switch p, ok := pages[n]; {
		case ok:
			db[i], changed[n] = p, true
		case i < len(w.DB):
			db[i] = w.DB[i]
		default:
			db[i], changed[n] = make([]byte, w.PageSize), true
		}
	}
	min, max := w.Head.Next()
	w.Now = w.Now.Add(time.Second)
	f, data := w.encode(0, min, max, w.Head.Post, db, changed)
	w.DB = db
	w.Head = replica.Head{TXID: max, Post: f.Post, Pages: commit, PageSize: w.PageSize, Owner: w.Owner, Time: f.Time}
	w.Past = append(w.Past, State{f, db, changed, data})
	return f, replica.Bytes(data)
}

// encode makes a file; one that begins at 1 has all pages.
func (w *Writer) encode(level int, min, max replica.TXID, pre replica.Checksum, db DB, changed map[uint32]bool) (replica.File, []byte) {
	if min == 1 {
		pre = 0
	}
	var b bytes.Buffer
	post := db.Sum()
	h := replica.Header{PageSize: w.PageSize, Commit: uint32(len(db)), MinTXID: min, MaxTXID: max, Timestamp: w.Now.UnixMilli(), NodeID: w.Owner,
		PreApplyChecksum: pre}
	if err := replica.WriteGroup(&b, h, func(yield func(uint32, []byte) error) error {
		for i, p := range db {
			if n := uint32(i + 1); min == 1 || changed[n] {
				if err := yield(n, p); err != nil {
					return err
				}
			}
		}
		return nil
	}, post); err != nil {
		panic(err) // a test made a database that LTX has no form for
	}
	return replica.File{Level: level, Min: min, Max: max, Size: int64(b.Len()), Pre: pre, Post: post, Time: w.Now}, b.Bytes()
}

// Commit is Group, stored.
func (w *Writer) Commit(commit uint32, pages map[uint32][]byte) error {
	f, body := w.Group(commit, pages)
	err := w.R.Create(context.Background(), f, body)
	if err == nil {
		w.Files = append(w.Files, f)
	}
	return err
}

// Compact stores a file of a higher level with what changed from the TXID min on up to the newest state.
func (w *Writer) Compact(level int, min replica.TXID) (replica.File, error) {
	changed := map[uint32]bool{}
	var pre replica.Checksum
	for _, s := range w.Past {
		if s.File.Max < min {
			pre = s.File.Post
			continue
		}
		if pre == 0 {
			pre = s.File.Pre
		}
		maps.Copy(changed, s.Changed)
		maps.DeleteFunc(changed, func(n uint32, _ bool) bool { return int(n) > len(s.DB) })
	}
	f, data := w.encode(level, min, w.Head.TXID, pre, w.DB, changed)
	if err := w.R.PutLevel(context.Background(), f, replica.Bytes(data)); err != nil {
		return f, err
	}
	w.Files = append(w.Files, f)
	return f, nil
}

// Manifest is the owner's present manifest.
func (w *Writer) Manifest() *replica.Manifest {
	files := slices.Clone(w.Files)
	slices.SortFunc(files, replica.ByPlace)
	return &replica.Manifest{Owner: w.Owner, Epoch: w.Epoch, Head: w.Head, Files: files}
}

// PutManifest stores the manifest, after reading the existing one.
func (w *Writer) PutManifest() error {
	if _, err := w.R.Read(context.Background()); err != nil {
		return err
	}
	return w.R.PutManifest(context.Background(), w.Manifest())
}

// TakeOver makes another owner, which goes on from the same database.
func (w *Writer) TakeOver(owner uint64) (*Writer, error) {
	c, err := w.R.TakeOver(context.Background(), owner)
	if err != nil {
		return nil, err
	}
	if err := w.R.Fill(context.Background(), c.Files); err != nil {
		return nil, err
	}
	fence := State{DB: w.DB}
	for _, f := range c.Files {
		if f.Level == 0 && f.Max == c.Head.TXID {
			fence.File = f
		}
	}
	return &Writer{R: w.R, Owner: owner, Epoch: c.Epoch, PageSize: w.PageSize, Head: c.Head, DB: w.DB, Past: append(slices.Clone(w.Past), fence),
		Files: c.Files, Now: w.Now}, nil
}
