package objstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// list is what a store lists, a word for each object, and the error at the end.
func list(s Store, prefix, after string) (found []string, err error) {
	for l, err := range s.List(context.Background(), prefix, after) {
		if err != nil {
			return found, err
		}
		found = append(found, fmt.Sprintf("%s:%d", l.Name, l.Size))
	}
	return found, nil
}

// TestListsAreInTheOrderOfNames, the same over every kind of store. A slash is a byte as any other.
func TestListsAreInTheOrderOfNames(t *testing.T) {
	all := []string{"a", "b-c", "b.c", "b/a", "b/a.b/c", "b/a/b", "b/a0", "b/é", "b0", "c/0", "c/10", "c/9", "d/e/f/g", "z"}
	for kind, s := range everyStore(t) {
		names := all
		if kind == "file" { // where b/a cannot be a file and a directory
			names = slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == "b/a" })
		}
		t.Run(kind, func(t *testing.T) {
			ctx := context.Background()
			if found, err := list(s, "", ""); err != nil || len(found) != 0 {
				t.Errorf("of an empty store: %v, %v", found, err)
			}
			var objects []Object
			for i, name := range names {
				objects = append(objects, object(name, strings.Repeat("x", i)))
			}
			if err := s.Put(ctx, objects...); err != nil {
				t.Fatal(err)
			}
			want := func(prefix, after string) (want []string) {
				sorted := slices.Clone(names)
				slices.Sort(sorted)
				for _, name := range sorted {
					if (prefix == "" || strings.HasPrefix(name, prefix+"/")) && name > after {
						want = append(want, fmt.Sprintf("%s:%d", name, slices.Index(names, name)))
					}
				}
				return want
			}
			afters := append([]string{"", "0", "b", "b/", "b/a.", "b/a0x", "c/1", "d/e", "d/e/f/", "zz"}, names...)
			for _, prefix := range []string{"", "a", "b", "b/a", "b/a.b", "c", "d/e", "none", "z"} {
				for _, after := range afters {
					if found, err := list(s, prefix, after); err != nil || !slices.Equal(found, want(prefix, after)) {
						t.Errorf("below %q after %q: %v, want %v: %v", prefix, after, found, want(prefix, after), err)
					}
				}
			}
			n := 0
			for _, err := range s.List(ctx, "", "") {
				if err != nil {
					t.Error(err)
				}
				if n++; n == 3 {
					break
				}
			}
			for _, prefix := range []string{"/", "b/", "b//c", "..", ".new-x"} {
				if _, err := list(s, prefix, ""); err == nil {
					t.Errorf("%q is taken for a prefix", prefix)
				}
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			if _, ok := s.(*Memory); ok {
				return // it has all names at once
			}
			for _, err := range s.List(ended, "", "") {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("after the end: %v", err)
				}
				n = 0
			}
			if n != 0 {
				t.Error("a list that was cancelled looks like an empty store")
			}
		})
	}
}

// TestDeleteRemovesWhatItIsTold, the same over every kind of store.
func TestDeleteRemovesWhatItIsTold(t *testing.T) {
	for kind, s := range everyStore(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := context.Background()
			if err := s.Put(ctx, object("a/1", "x"), object("a/2", "x"), object("a/3", "x"), object("b", "x")); err != nil {
				t.Fatal(err)
			}
			if err := s.Delete(ctx); err != nil {
				t.Error(err)
			}
			if err := s.Delete(ctx, "a/1", "none", "a", "b/x", "a/3"); err != nil {
				t.Errorf("%v", err)
			}
			if found, err := list(s, "", ""); err != nil || strings.Join(found, " ") != "a/2:1 b:1" {
				t.Errorf("there are %v, %v", found, err)
			}
			if err := s.Delete(ctx, "b", "../x"); err == nil {
				t.Error("a name outside of the store was removed")
			}
		})
	}
}

// TestWhatIsBeingWrittenIsNotListed: neither half a file nor a lock is an object.
func TestWhatIsBeingWrittenIsNotListed(t *testing.T) {
	dir := t.TempDir()
	s := NewFile(dir)
	for _, name := range []string{tempPrefix + "0-o", lockFile, "o"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if found, err := list(s, "", ""); err != nil || strings.Join(found, " ") != "o:1" {
		t.Errorf("%v, %v", found, err)
	}
	if err := s.Delete(context.Background(), "empty"); err != nil {
		t.Error(err)
	}
	if names := listDir(t, dir); !slices.Contains(names, "empty") {
		t.Error("a directory was removed as if it were an object")
	}
}

// TestListsOfSeveralPages: a page has a thousand objects. A failure in the middle is told, and the caller goes on behind what it has.
func TestListsOfSeveralPages(t *testing.T) {
	var pages, failAt atomic.Int64
	s, err := Open(serveS3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("list-type") && pages.Add(1) == failAt.Load() {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			h.ServeHTTP(w, r)
		})
	}, "bucket") + "/x")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	const n = 2100
	var all []Object
	for i := range n {
		all = append(all, object(fmt.Sprintf("p/%05d", i), ""))
	}
	if err := s.Put(ctx, append(all, object("q", ""))...); err != nil {
		t.Fatal(err)
	}
	check := func(found []string, from, to int) {
		t.Helper()
		if len(found) != to-from || len(found) > 0 && (found[0] != fmt.Sprintf("p/%05d:0", from) || found[len(found)-1] != fmt.Sprintf("p/%05d:0", to-1)) {
			t.Errorf("%d objects, want %d: from %v to %v", len(found), to-from, found[:min(1, len(found))], found[max(0, len(found)-1):])
		}
	}
	found, err := list(s, "p", "")
	if check(found, 0, n); err != nil || pages.Load() != 3 {
		t.Errorf("%d pages, %v", pages.Load(), err)
	}
	pages.Store(0)
	failAt.Store(2)
	found, err = list(s, "p", "")
	if check(found, 0, 1000); err == nil {
		t.Error("a list whose second page is refused looks whole")
	}
	found, err = list(s, "p", "p/00999")
	if check(found, 1000, n); err != nil {
		t.Error(err)
	}
	if err := s.Delete(ctx, "p/00000", "p/02099"); err != nil {
		t.Fatal(err)
	}
	found, err = list(s, "p", "")
	if check(found, 1, n-1); err != nil {
		t.Error(err)
	}
}

// TestABucketThatListsAsItLikes: one that takes no notice of start-after is read from its beginning, one without order is refused.
func TestABucketThatListsAsItLikes(t *testing.T) {
	page := func(names ...string) string {
		var out strings.Builder
		out.WriteString(`<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>`)
		for _, n := range names {
			fmt.Fprintf(&out, "<Contents><Key>x/%s</Key><Size>1</Size></Contents>", n)
		}
		return out.String() + "</ListBucketResult>"
	}
	var answer string
	s, err := Open(serveS3Behind(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
	}) + "/x")
	if err != nil {
		t.Fatal(err)
	}
	answer = page("a", "b", "c")
	if found, err := list(s, "", "a"); err != nil || strings.Join(found, " ") != "b:1 c:1" {
		t.Errorf("%v, %v", found, err)
	}
	answer = page("b", "c", "bb")
	if found, err := list(s, "", "a"); err == nil || strings.Join(found, " ") != "b:1 c:1" {
		t.Errorf("without order: %v, %v", found, err)
	}
}

// TestARefusedRemovalIsToldAndEndsTheRest, and that an object is gone already is no refusal.
func TestARefusedRemovalIsToldAndEndsTheRest(t *testing.T) {
	var removals atomic.Int64
	s, err := Open(serveS3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/gone"):
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `<Error><Code>NoSuchKey</Code></Error>`)
			case r.Method == http.MethodDelete && removals.Add(1) == 10:
				w.WriteHeader(http.StatusForbidden)
			case r.Method == http.MethodDelete && removals.Load() > 10:
				<-r.Context().Done() // until the first failure has ended it
			default:
				h.ServeHTTP(w, r)
			}
		})
	}, "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := s.Delete(ctx, "gone"); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("o%d", i))
	}
	if err := s.Delete(ctx, names...); err == nil || !strings.Contains(err.Error(), "delete o") {
		t.Errorf("%v", err)
	}
	if n := removals.Load(); n > 10+uploads {
		t.Errorf("%d requests", n)
	}
}
