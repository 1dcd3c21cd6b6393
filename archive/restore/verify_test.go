package restore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/objstore"
)

// TestAWholeArchiveIsProved, and gives at each index and time the content that the server had there.
func TestAWholeArchiveIsProved(t *testing.T) {
	t.Parallel()
	l, r := theLife(t), rand.New(rand.NewPCG(3, 3))
	s := l.archived(t, r)
	v, found := proved(t, s, At{})
	if len(found) > 0 || v.Wrong > 0 || v.Snapshots != len(l.saved) || v.Entries != uint64(len(l.entries)) || v.Spans != len(kinds(s)["span"]) ||
		v.At.Index != l.last || v.Content != l.had[l.last] || v.Hash != l.hashes[l.last] || v.End != v.At || v.First.Index != l.first {
		t.Fatalf("%+v %v", v, found)
	}
	n := 50
	if testing.Short() {
		n = 10
	}
	for i := range n {
		index := l.first + 1 + r.Uint64N(l.last-l.first)
		at := At{Index: index}
		if i%2 == 1 { // a moment between this entry's and the next one's
			ns := l.walls[index]
			for index < l.last && l.walls[index+1] <= ns {
				index++
			}
			if index < l.last {
				ns += r.Int64N(l.walls[index+1] - ns)
			}
			at = At{Time: time.Unix(0, ns)}
		}
		if v, found := proved(t, s, at); v.At.Index != index || v.Content != l.had[index] || v.Hash != l.hashes[index] || len(found) > 0 {
			t.Errorf("%s: %+v %v, index %d had %+v", at, v, found, index, l.had[index])
		}
	}
}

// wrongs are the findings that say that something is wrong, in one text.
func wrongs(found []Finding) (text string) {
	for _, f := range found {
		if f.Wrong {
			text += f.Text + "\n"
		}
	}
	return text
}

// TestEveryFlippedBitIsNamed by the object that it is in, in spans, manifests and pieces alike.
func TestEveryFlippedBitIsNamed(t *testing.T) {
	t.Parallel()
	l, r := theLife(t), rand.New(rand.NewPCG(4, 4))
	s := l.archived(t, r)
	n := 200
	if testing.Short() {
		n = 10
	}
	for kind, names := range kinds(s) {
		for range n {
			name := names[r.IntN(len(names))]
			was := s.Objects()[name]
			bad, at := slices.Clone(was), r.IntN(len(was))
			bad[at] ^= 1 << r.IntN(8)
			put(t, s, name, bad)
			if _, found := proved(t, s, At{}); !strings.Contains(wrongs(found), name) {
				t.Errorf("%s %s, byte %d was changed: %v", kind, name, at, found)
			}
			put(t, s, name, was)
		}
	}
}

// TestObjectsRemovedRenamedAndDoubledAreNamed, or what is read is what the server had.
func TestObjectsRemovedRenamedAndDoubledAreNamed(t *testing.T) {
	t.Parallel()
	l, r := theLife(t), rand.New(rand.NewPCG(5, 5))
	s, harmless := l.archived(t, r), 0
	all, ctx := kinds(s), context.Background()
	for kind, names := range all {
		for i, name := range names {
			if testing.Short() && i%5 > 0 {
				continue
			}
			b := s.Objects()[name]
			others := []string{names[(i+1)%len(names)], name + "x", format.SpanName(l.cluster, l.last+1), format.ManifestName(l.cluster, l.last-1),
				format.SpanName(l.cluster, 5), format.PieceName(l.cluster, l.first, 3, format.Hash{1})}
			for _, what := range []string{"removed", "renamed", "doubled"} {
				for _, other := range others {
					c := copyOf(t, s)
					if what != "doubled" {
						if err := c.Delete(ctx, name); err != nil {
							t.Fatal(err)
						}
					}
					if what != "removed" {
						put(t, c, other, b)
					}
					v, found := proved(t, c, At{})
					text := fmt.Sprint(found)
					named := strings.Contains(text, name) || strings.Contains(text, other) || strings.Contains(text, "missing")
					if _, index, ok := format.ParseManifestName(name); ok && what == "removed" {
						named = strings.Contains(text, format.PiecesName(l.cluster, index)) // left over
						if !named {
							t.Errorf("%s is gone and its pieces are not missed: %v", name, found)
						}
					}
					switch {
					case named:
					case v.Content == l.had[l.last]:
						harmless++
					case v.At.Index < l.last && v.Content == l.had[v.At.Index] && what == "removed" && i == len(names)-1:
						// Nothing tells an archive from one that was never longer.
					default:
						t.Errorf("%s %s is %s (%s): %+v %v", kind, name, what, other, v, found)
					}
					if what == "removed" {
						break
					}
				}
			}
		}
	}
	t.Log(harmless, "made no difference and were not named")
}

// TestEntriesThatWereNeverArchived are named, and the snapshot behind them goes on: nothing is wrong with such an archive.
func TestEntriesThatWereNeverArchived(t *testing.T) {
	l, r := theLife(t), rand.New(rand.NewPCG(6, 6))
	var middle uint64
	for index := range l.saved {
		if index != l.first && (middle == 0 || index < middle) {
			middle = index
		}
	}
	s := objstore.NewMemory()
	l.spans(t, s, r, format.Tip{Cluster: l.cluster, Timeline: l.cluster, Last: l.first, Term: l.terms[l.first]}, middle-30)
	l.spans(t, s, r, format.Tip{Cluster: l.cluster, Timeline: l.cluster, Last: middle, Term: l.terms[middle]}, l.last)
	for index := range l.saved {
		l.snapshot(t, s, index)
	}
	v, found := proved(t, s, At{})
	if v.Wrong > 0 || len(found) != 1 || !strings.Contains(found[0].Text, fmt.Sprintf("entries %d to %d were lost", middle-29, middle)) || v.Content != l.had[l.last] {
		t.Errorf("%+v %v", v, found)
	}
	for index, want := range map[uint64]bool{middle - 31: true, middle - 30: true, middle - 29: false, middle - 1: false, middle: true, middle + 1: true} {
		if v, _ := proved(t, s, At{Index: index}); (v.At.Index == index && v.Content == l.had[index]) != want {
			t.Errorf("at %d: %+v, can be restored: %v", index, v, want)
		}
	}
	// The same with a chain behind the gap that says what stood before: then it was not lost, but removed.
	c := l.archived(t, r)
	spans := kinds(c)["span"]
	if err := c.Delete(context.Background(), spans[len(spans)/2]); err != nil {
		t.Fatal(err)
	}
	if v, found := proved(t, c, At{}); v.Wrong != 1 || !strings.Contains(wrongs(found), "missing") {
		t.Errorf("%+v %v", v, found)
	}
}
