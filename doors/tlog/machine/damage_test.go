package machine

import (
	"errors"
	"testing"
)

// TestAlteredEdgesAreFound alters each row a root rests on, as no checksum would notice. Nothing of it may be signed.
func TestAlteredEdgesAreFound(t *testing.T) {
	const size = 65536 + 3*256 + 5
	r := newRig(t)
	l, _ := r.create("default", false, false)
	for i := 0; i < size; i += 4096 {
		r.add(l, texts(i, min(4096, size-i))...)
	}
	alter := func(key func(l *Log) []byte, at int) error {
		if _, _, err := r.m.CheckEdge(l); err != nil {
			t.Fatal("untouched:", err)
		}
		k := key(l)
		v, ok, err := r.Store.Get(nil, k)
		if err != nil || !ok {
			t.Fatalf("row %x: %v, %v", k, ok, err)
		}
		if at < 0 {
			at += len(v)
		}
		v[at] ^= 1
		b := r.Store.NewBatch()
		b.Set(k, v)
		if err := r.Store.Commit(b, r.Store.Applied()); err != nil {
			t.Fatal(err)
		}
		_, _, found := r.m.CheckEdge(l)
		v[at] ^= 1
		b = r.Store.NewBatch()
		b.Set(k, v)
		if err := r.Store.Commit(b, r.Store.Applied()); err != nil {
			t.Fatal(err)
		}
		return found
	}
	for what, err := range map[string]error{
		"the frontier":                   alter(func(l *Log) []byte { return l.key(spaceFrontier) }, -1),
		"the frontier's largest subtree": alter(func(l *Log) []byte { return l.key(spaceFrontier) }, 8),
		"an entry after the last bundle": alter(func(l *Log) []byte { return l.pieceKey(65536 + 768) }, -1),
		"a hash after the last tile":     alter(func(l *Log) []byte { return l.nodeKey(1, 257) }, 0),
		"the hash above it":              alter(func(l *Log) []byte { return l.nodeKey(2, 0) }, 0),
		"the last full tile":             alter(func(l *Log) []byte { return l.tileKey(0, 258) }, 40),
		"the last full tile of level 1":  alter(func(l *Log) []byte { return l.tileKey(1, 0) }, 40),
		"the last bundle":                alter(func(l *Log) []byte { return l.bundleKey(258) }, 45),
	} {
		var d *Damage
		if !errors.As(err, &d) || d.Is == d.Want {
			t.Errorf("%s: %v", what, err)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}
}

// TestScrubFindsInteriorDamage: an old tile, an old bundle, a tile of tiles, none of which the right edge rests on.
func TestScrubFindsInteriorDamage(t *testing.T) {
	const size = 65536 + 600
	r := newRig(t)
	l, _ := r.create("default", false, false)
	for i := 0; i < size; i += 4096 {
		r.add(l, texts(i, min(4096, size-i))...)
	}
	calm := func(_, _ uint64) error { return nil }
	if err := l.Scrub(calm); err != nil {
		t.Fatal("untouched:", err)
	}
	for what, c := range map[string]struct {
		key          []byte
		at           int
		level, index uint64
	}{
		"a tile":             {l.tileKey(0, 7), 32*5 + 1, 0, 7*256 + 5},
		"a tile of level 1":  {l.tileKey(1, 0), 32 * 9, 1, 9},
		"an entry":           {l.bundleKey(3), 40 * 11, 0, 0},
		"the right edge row": {l.tileKey(0, 257), 0, 0, 257 * 256},
	} {
		v, ok, err := r.Store.Get(nil, c.key)
		if err != nil || !ok {
			t.Fatal(what, ok, err)
		}
		put := func() {
			v[c.at] ^= 1
			b := r.Store.NewBatch()
			b.Set(c.key, v)
			if err := r.Store.Commit(b, r.Store.Applied()); err != nil {
				t.Fatal(err)
			}
		}
		put()
		err = l.Scrub(calm)
		var d *Damage
		if !errors.As(err, &d) && !errors.Is(err, errCorrupt) || d != nil && what != "an entry" && (uint64(d.Level) != c.level || d.Index != c.index) {
			t.Errorf("%s: %v", what, err)
		}
		put()
	}
	ended := errors.New("asked to end")
	if err := l.Scrub(func(done, all uint64) error {
		if done > 1000 && all == size {
			return ended
		}
		return nil
	}); !errors.Is(err, ended) {
		t.Error(err)
	}
}
