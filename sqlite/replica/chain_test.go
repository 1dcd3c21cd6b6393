package replica

import (
	"context"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
)

// overtaken is a bucket whose owner, once, is quicker than a reader. The owner's next steps happen between a read of the manifest and the
// reader's list.
type overtaken struct {
	objstore.Store
	meanwhile func()
}

func (s *overtaken) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	data, version, err := s.Store.GetVersion(ctx, name)
	if do := s.meanwhile; do != nil {
		s.meanwhile = nil
		do()
	}
	return data, version, err
}

// TestAReaderIsOvertakenByAManifest: between a reader's look at the manifest and its list the owner writes the next manifest. It removes
// the groups that a file of a higher level replaces. The reader finds a gap behind the known head, and looks again. Without that a restore
// beside a running agent would be an earlier state, called the last.
func TestAReaderIsOvertakenByAManifest(t *testing.T) {
	ctx := context.Background()
	for _, before := range []string{"a manifest", "none"} {
		memory := objstore.NewMemory()
		w := newWriter(New(memory, Bucket), 1)
		var files []File
		commit := func(n int) {
			for range n {
				f, body := w.group(t, map[uint32]byte{1: byte(len(files))})
				if err := w.r.Create(ctx, f, body); err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
		}
		if _, err := w.r.Read(ctx); err != nil {
			t.Fatal(err)
		}
		commit(2)
		if before == "a manifest" {
			if err := w.r.PutManifest(ctx, &Manifest{Owner: 1, Epoch: 1, Head: w.head, Files: files}); err != nil {
				t.Fatal(err)
			}
		}
		commit(4)
		store := &overtaken{Store: memory, meanwhile: func() {
			f, body := encode(t, Header{PageSize: pageSize, Commit: 1, MinTXID: 1, MaxTXID: 6, Timestamp: 6000, NodeID: 1}, w.pages,
				map[uint32]byte{1: 0}, w.head.Post)
			f.Level = 1
			if err := w.r.PutLevel(ctx, f, body); err != nil {
				t.Fatal(err)
			}
			if err := w.r.PutManifest(ctx, &Manifest{Owner: 1, Epoch: 1, Head: w.head, Files: []File{files[5], f}}); err != nil {
				t.Fatal(err)
			}
			if err := w.r.Remove(ctx, files[:5]...); err != nil {
				t.Fatal(err)
			}
		}}
		c, err := New(store, Bucket).Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if c.Head.TXID != 6 || len(c.Ahead) != 0 {
			t.Errorf("%s before: the chain ends at %s, with %d files behind a gap", before, c.Head.TXID, len(c.Ahead))
		}
	}
}
