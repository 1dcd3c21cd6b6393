package etcdfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// sample makes a file with something of everything.
func sample(t testing.TB) []byte {
	t.Helper()
	w, err := Create(filepath.Join(t.TempDir(), "making"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, err := range []error{
		w.Early(&Change{Rev: 7, Key: []byte("b"), CreateRev: 3, Version: 2, Value: []byte("kept"), Lease: 5}),
		w.Early(&Change{Rev: 2, Sub: 1, Key: []byte("z"), CreateRev: 2, Version: 1}),
		w.Change(&Change{Rev: 8, Key: []byte("a"), CreateRev: 8, Version: 1, Value: []byte{0, 255}}),
		w.Change(&Change{Rev: 8, Sub: 1, Key: []byte("gone"), Deleted: true}),
		w.Change(&Change{Rev: 300, Key: []byte("a"), CreateRev: 8, Version: 2, Value: bytes.Repeat([]byte("v"), 40)}),
		w.Lease(&Lease{ID: 5, TTL: 60}), w.Lease(&Lease{ID: -1, TTL: 9000000000}),
		w.Alarm(&Alarm{Member: 1 << 63, Type: 1}),
		w.User(&User{Name: "root", Password: []byte("$2a$10$hash"), Roles: []string{"root"}}), w.User(&User{Name: "w", NoPassword: true}),
		w.Role(&Role{Name: "r", Permissions: []Permission{{Access: 2, Key: []byte("a"), End: []byte{0}}, {Key: []byte("b")}}}),
		w.Member(&Member{ID: 0xabc, Name: "n1", PeerURLs: []string{"http://h:2380"}, ClientURLs: []string{"http://h:2379"}, Learner: true}),
		w.Removed(0xdef),
		w.Finish(&Head{Index: 99, Term: 4, Voters: []uint64{2748, 7}, Learners: []uint64{8}, Compacted: 8, StorageVersion: "3.7.0",
			ClusterVersion: "3.7.0", AuthOn: true, AuthRevision: 12}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	size, err := w.Size()
	if n, e := w.WriteTo(&out); err != nil || e != nil || n != size || n != int64(out.Len()) {
		t.Fatalf("wrote %d bytes of %d, %v, %v", n, size, err, e)
	}
	return out.Bytes()
}

func write(t testing.TB, b []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The golden file pins every row: etcd reads them.
func TestGolden(t *testing.T) {
	db, err := bolt.Open(write(t, sample(t)), 0, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out strings.Builder
	err = db.View(func(tx *bolt.Tx) error {
		for e := range tx.Check() {
			t.Error(e)
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			fmt.Fprintf(&out, "%s\n", name)
			return b.ForEach(func(k, v []byte) error {
				fmt.Fprintf(&out, "  %x %x\n", k, v)
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/rows.txt", out.String())
}

// The lease's form is written by hand; etcd's own message must agree.
func TestLeaseIsEtcds(t *testing.T) {
	for _, l := range []Lease{{5, 60}, {-1, 9000000000}, {1 << 62, 1}} {
		_, v := leaseRow(&l)
		theirs, err := proto.Marshal(&leasepb.Lease{ID: l.ID, TTL: l.TTL})
		if err != nil || !bytes.Equal(v, theirs) {
			t.Errorf("%+v is %x, etcd's %x, %v", l, v, theirs, err)
		}
		theirs, _ = proto.Marshal(&leasepb.Lease{ID: l.ID, TTL: l.TTL, RemainingTTL: 7})
		if got, err := parseLease(theirs); err != nil || got != l {
			t.Errorf("%+v was read as %+v, %v", l, got, err)
		}
	}
}

func TestReadBack(t *testing.T) {
	b := sample(t)
	sum := sha256.Sum256(b)
	for name, text := range map[string][]byte{"bare": b, "with its SHA-256": append(bytes.Clone(b), sum[:]...)} {
		f, err := Open(write(t, text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h := f.Head
		if h.Index != 99 || h.Term != 4 || !slices.Equal(h.Voters, []uint64{2748, 7}) || h.Compacted != 8 || h.StorageVersion != "3.7.0" ||
			!h.AuthOn || h.AuthRevision != 12 || f.Revision != 300 || f.SHA256 != (len(text) > len(b)) {
			t.Errorf("%s: %+v", name, f)
		}
		var got []string
		err = f.Changes(func(c *Change) error {
			got = append(got, fmt.Sprintf("%d.%d %s %v", c.Rev, c.Sub, c.Key, c.Deleted))
			return nil
		})
		if err != nil || strings.Join(got, ", ") != "2.1 z false, 7.0 b false, 8.0 a false, 8.1 gone true, 300.0 a false" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		got = nil
		for _, err := range []error{
			f.Leases(func(l Lease) error { got = append(got, fmt.Sprint(l)); return nil }),
			f.Users(func(u User) error { got = append(got, fmt.Sprint(u.Name, u.NoPassword, u.Roles)); return nil }),
			f.Roles(func(r Role) error { got = append(got, fmt.Sprint(r)); return nil }),
			f.Members(func(m Member) error { got = append(got, fmt.Sprint(m)); return nil }),
			f.Alarms(func(a Alarm) error { got = append(got, fmt.Sprint(a)); return nil }),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		want := "{5 60}; {-1 9000000000}; rootfalse [root]; wtrue []; {r [{2 [97] [0]} {0 [98] []}]}; {2748 n1 [http://h:2380] [http://h:2379] true}; {9223372036854775808 1}"
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %s", name, strings.Join(got, "; "))
		}
		f.Close()
	}
}

// The versions left by a compaction come by key and must leave by revision, however many there are.
func TestEarlyChangesAreSorted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "making")
	w, err := Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.early.limit = 4 << 10
	const n = 5000
	for _, i := range rand.New(rand.NewSource(1)).Perm(n) {
		c := &Change{Rev: int64(i + 2), Key: fmt.Append(nil, i), CreateRev: int64(i + 2), Version: 1, Value: bytes.Repeat([]byte("x"), i%90)}
		if err := w.Early(c); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.early.runs) < 50 {
		t.Fatalf("only %d runs", len(w.early.runs))
	}
	if err := w.Finish(&Head{Compacted: n + 2}); err != nil {
		t.Fatal(err)
	}
	if err := w.Change(&Change{Rev: 7}); err == nil {
		t.Error("a change at a revision that is in the file already was taken")
	}
	var out bytes.Buffer
	if _, err := w.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	f, err := Open(write(t, out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := int64(1)
	err = f.Changes(func(c *Change) error {
		if at++; c.Rev != at || string(c.Key) != fmt.Sprint(at-2) || len(c.Value) != int(at-2)%90 {
			t.Fatalf("revision %d holds %d, key %s", at, c.Rev, c.Key)
		}
		return nil
	})
	if err != nil || at != n+1 {
		t.Errorf("ends at %d, %v", at, err)
	}
	w.Close()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// room is asked again and again, and ends the work.
func TestNoRoom(t *testing.T) {
	full := errors.New("full")
	left := 3
	w, err := Create(filepath.Join(t.TempDir(), "making"), func() error {
		if left--; left < 0 {
			return full
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := int64(2); err == nil && i < 1000; i++ {
		err = w.Change(&Change{Rev: i, Key: []byte("k"), CreateRev: 2, Version: i - 1, Value: make([]byte, 100<<10)})
	}
	if !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

func TestDamage(t *testing.T) {
	b := sample(t)
	sum := sha256.Sum256(b)
	whole := append(bytes.Clone(b), sum[:]...)
	flipped := bytes.Clone(whole)
	flipped[len(b)/2] ^= 1
	for name, text := range map[string][]byte{"empty": nil, "text": []byte(strings.Repeat("no database ", 100)), "cut": whole[:len(b)/2],
		"flipped": flipped, "cut behind": whole[:len(whole)-1-sha256.Size], "zeros": make([]byte, 1<<14)} {
		if f, err := Open(write(t, text)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// FuzzOpen alters a file without a checksum: every error is one, nothing panics.
func FuzzOpen(f *testing.F) {
	b := sample(f)
	f.Add(uint32(0), []byte{1})
	f.Add(uint32(4096*2), []byte("damage"))
	f.Add(uint32(len(b)-4096), bytes.Repeat([]byte{0xff}, 100))
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		c := bytes.Clone(b)
		copy(c[int(at)%len(c):], patch)
		file, err := Open(write(t, c))
		if err != nil {
			return
		}
		defer file.Close()
		for _, err := range []error{
			file.Changes(func(*Change) error { return nil }),
			file.Leases(func(Lease) error { return nil }),
			file.Users(func(User) error { return nil }),
			file.Roles(func(Role) error { return nil }),
			file.Members(func(Member) error { return nil }),
			file.Alarms(func(Alarm) error { return nil }),
		} {
			if err != nil && !errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
		}
	})
}

// FuzzRows: what decodes encodes to something that decodes to the same.
func FuzzRows(f *testing.F) {
	k, v, _ := changeRow(&Change{Rev: 7, Key: []byte("b"), CreateRev: 3, Version: 2, Value: []byte("kept"), Lease: 5})
	f.Add(k, v)
	_, l := leaseRow(&Lease{ID: 3, TTL: 4})
	f.Add([]byte{}, l)
	f.Fuzz(func(t *testing.T, k, v []byte) {
		var c, again Change
		if parseChange(k, v, &c) == nil {
			k2, v2, err := changeRow(&c)
			if err != nil {
				return // a key that is no text is one; a message that holds one is not made
			}
			if c.Deleted {
				c = Change{Rev: c.Rev, Sub: c.Sub, Deleted: true, Key: c.Key}
			}
			if err := parseChange(k2, v2, &again); err == nil && fmt.Sprint(c) != fmt.Sprint(again) {
				t.Errorf("%+v, then %+v", c, again)
			}
		}
		if l, err := parseLease(v); err == nil {
			_, v2 := leaseRow(&l)
			if l2, err := parseLease(v2); err != nil || l2 != l {
				t.Errorf("%+v, then %+v, %v", l, l2, err)
			}
		}
		_, _ = parseUser(v)
		_, _ = parseRole(v)
		_, _ = parseMember(v)
		_, _ = parseAlarm(k)
	})
}
