package restore

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// verified is what Verify says of a store, a line for each finding.
func verified(t testing.TB, store objstore.Store, layout replica.Layout) (*Verified, []string) {
	t.Helper()
	var said []string
	v, err := Verify(context.Background(), replica.New(store, layout), Verifying{Found: func(f Finding) {
		if f.Wrong {
			said = append(said, "WRONG "+f.Text)
		} else {
			said = append(said, "note "+f.Text)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return v, said
}

func TestAWholeReplicaIsProved(t *testing.T) {
	for _, layout := range []replica.Layout{replica.Bucket, replica.Directory} {
		store := objstore.NewMemory()
		w := lived(t, store, layout, 5)
		v, said := verified(t, store, layout)
		if v.Wrong != 0 || v.States != len(w.Past) || v.Proved != v.States || v.Snapshots != 3 || v.Head != w.Head {
			t.Errorf("%+v, %d states, %q", v, len(w.Past), said)
		}
		if orphans := strings.Count(strings.Join(said, "\n"), "beside the chain"); orphans == 0 && layout == replica.Bucket {
			t.Logf("no orphan was named: %q", said)
		}
	}
}

// copyOf is a store with the same objects.
func copyOf(t testing.TB, objects map[string][]byte) *objstore.Memory {
	t.Helper()
	store := objstore.NewMemory()
	for n, b := range objects {
		if err := store.Put(context.Background(), objstore.Object{Name: n, Data: b}); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// TestADamagedIdentityIsNamed: no restore reads it, and no agent begins there.
func TestADamagedIdentityIsNamed(t *testing.T) {
	store := objstore.NewMemory()
	lived(t, store, replica.Bucket, 2)
	if _, err := replica.New(store, replica.Bucket).Identity(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if v, said := verified(t, store, replica.Bucket); v.Wrong != 0 {
		t.Fatal(said)
	}
	b := bytes.Clone(store.Objects()[replica.IdentityName])
	b[7] ^= 0x20
	if err := store.Put(t.Context(), objstore.Object{Name: replica.IdentityName, Data: b}); err != nil {
		t.Fatal(err)
	}
	if v, said := verified(t, store, replica.Bucket); v.Wrong != 1 || !strings.Contains(strings.Join(said, "\n"), "WRONG "+replica.IdentityName) {
		t.Errorf("%d wrong, %q", v.Wrong, said)
	}
}

// TestEveryDamageIsNamed: a flipped bit in any object that counts, a cut, a deletion, or another's content under its name is reported with
// the object.
func TestEveryDamageIsNamed(t *testing.T) {
	whole := objstore.NewMemory()
	w := lived(t, whole, replica.Bucket, 6)
	if err := w.PutManifest(); err != nil {
		t.Fatal(err)
	}
	objects := whole.Objects()
	rng := rand.New(rand.NewPCG(3, 3))
	damaged := 0
	names := []string{replica.ManifestName}
	for _, f := range w.Files {
		names = append(names, w.R.Name(f))
	}
	for i, name := range names {
		data := objects[name]
		other := objects[names[(i+1)%len(names)]]
		for kind := range 10 {
			b := bytes.Clone(data)
			switch {
			case kind == 0:
				b = nil
			case kind == 1:
				b = b[:rng.IntN(len(b))]
			case kind == 2:
				b = append(b, 0)
			case kind == 3:
				b = other
			default:
				b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
			}
			store := copyOf(t, objects)
			var err error
			if b == nil {
				err = store.Delete(context.Background(), name)
			} else {
				err = store.Put(context.Background(), objstore.Object{Name: name, Data: b})
			}
			if err != nil {
				t.Fatal(err)
			}
			v, said := verified(t, store, replica.Bucket)
			all := strings.Join(said, "\n")
			named := v.Wrong > 0 && strings.Contains(all, name)
			if !named && !harmless(t, store, w.DB.Bytes(), name, kind) {
				t.Errorf("%s, damage %d: %d wrong, %q", name, kind, v.Wrong, said)
			}
			damaged++
		}
	}
	t.Logf("%d damages", damaged)
}

// harmless reports whether a damage that is not named changes nothing. Such is a bit that means nothing to LZ4, or a manifest that is found
// again by listing.
func harmless(t testing.TB, store objstore.Store, want []byte, name string, kind int) bool {
	t.Helper()
	if name == replica.ManifestName && kind == 0 {
		return true
	}
	b, err := store.Get(context.Background(), name)
	if err != nil {
		return false
	}
	_, err = ReadFile(bytes.NewReader(b))
	return err == nil && kind > 3
}
