package agent

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/place"
)

// registered is a database as the registry sees it.
func registered(name string, inode uint64, own, above []string) *database {
	d := &database{target: Target{URL: "url of " + name, At: place.Store{Own: own, Above: above}}}
	d.place = place.Place{Named: name, Path: "/data/" + name, Spot: place.Spot{Dir: place.ID{Dev: 1, Ino: 1}, Rest: name}}
	if inode != 0 {
		d.began = place.ID{Dev: 1, Ino: inode}
	}
	return d
}

// TestWhatARegistryRefuses: the same file by any of its names, the same replica, and one that lies below another. The error says which of these it is, and
// names both.
func TestWhatARegistryRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		first, second *database
		want          string // "": both are kept
	}{
		"two of everything":   {registered("a", 1, []string{"x"}, nil), registered("b", 2, []string{"y"}, nil), ""},
		"two that are absent": {registered("a", 0, []string{"x"}, nil), registered("b", 0, []string{"y"}, nil), ""},
		"one name twice":      {registered("a", 1, []string{"x"}, nil), registered("a", 1, []string{"y"}, nil), "a is named twice"},
		"one path": {registered("a", 1, []string{"x"}, nil), func() *database {
			d := registered("b", 2, []string{"y"}, nil)
			d.place.Path = "/data/a"
			return d
		}(), "a and b are one file, /data/a"},
		"one spot": {registered("a", 1, []string{"x"}, nil), func() *database {
			d := registered("b", 2, []string{"y"}, nil)
			d.place.Spot.Rest = "a"
			return d
		}(), "a and b are one file, /data/a"},
		"one file":              {registered("a", 1, []string{"x"}, nil), registered("b", 1, []string{"y"}, nil), "a and b are one file, /data/a"},
		"one replica":           {registered("a", 1, []string{"x"}, nil), registered("b", 2, []string{"z", "x"}, nil), "a and b would both be kept in url of b"},
		"the second lies below": {registered("a", 1, []string{"x"}, nil), registered("b", 2, []string{"x/y"}, []string{"x"}), "the replica of b, url of b, lies below that of a, url of a"},
		"the first lies below":  {registered("a", 1, []string{"x/y"}, []string{"x"}), registered("b", 2, []string{"x"}, nil), "the replica of a, url of a, lies below that of b, url of b"},
		"both lie below one":    {registered("a", 1, []string{"x/y"}, []string{"x"}), registered("b", 2, []string{"x/z"}, []string{"x"}), ""},
	} {
		r := newRegistry()
		if err := r.refuse(c.first); err != nil {
			t.Fatal(err)
		}
		r.put(c.first)
		err := r.refuse(c.second)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil {
			r.remove(c.first)
			if err := r.refuse(c.second); err != nil {
				t.Errorf("%s: after the first one was removed: %v", name, err)
			}
		}
	}
}

// TestARegistryFindsAPath as it was written, and as it is.
func TestARegistryFindsAPath(t *testing.T) {
	r := newRegistry()
	a, b := registered("a", 1, []string{"x"}, nil), registered("b", 0, []string{"y"}, nil)
	r.put(a)
	r.put(b)
	for path, want := range map[string]*database{"a": a, "/data/a": a, "b": b, "/data/b": b, "c": nil} { // any order: each alone
		if got := r.find(path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if len(r.files) != 1 {
		t.Errorf("%d files are known, and one of the databases is there", len(r.files))
	}
	r.remove(a)
	if r.find("a") != nil || r.find("/data/a") != nil || r.find("b") != b {
		t.Error("after a was removed a is found, or b is not")
	}
}
