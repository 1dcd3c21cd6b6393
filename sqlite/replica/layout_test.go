package replica_test

import (
	"context"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// TestNamesOfFiles in both layouts, which are Litestream's.
func TestNamesOfFiles(t *testing.T) {
	for _, c := range []struct {
		file              replica.File
		bucket, directory string
	}{
		{replica.File{Min: 1, Max: 1}, "0000/0000000000000001-0000000000000001.ltx", "ltx/0/0000000000000001-0000000000000001.ltx"},
		{replica.File{Min: 2, Max: 2 + 1<<20}, "0000/0000000000000002-0000000000100002.ltx", "ltx/0/0000000000000002-0000000000100002.ltx"},
		{replica.File{Level: 3, Min: 9, Max: 0xabc}, "0003/0000000000000009-0000000000000abc.ltx", "ltx/3/0000000000000009-0000000000000abc.ltx"},
		{replica.File{Level: replica.SnapshotLevel, Min: 1, Max: 7}, "0009/0000000000000001-0000000000000007.ltx",
			"ltx/9/0000000000000001-0000000000000007.ltx"},
	} {
		for layout, name := range map[replica.Layout]string{replica.Bucket: c.bucket, replica.Directory: c.directory} {
			if got := layout.Name(c.file); got != name {
				t.Errorf("%s in a %s is %q, want %q", c.file, layout, got, name)
			}
			if f, ok := layout.Parse(name); !ok || f != c.file {
				t.Errorf("%q in a %s is %s, %t", name, layout, f, ok)
			}
		}
	}
	// Objects of other programs, of other layouts and without an owner are no files.
	for _, name := range []string{
		"", "/", "0000", "0000/", "0000000000000001-0000000000000001.ltx", "/0000000000000001-0000000000000001.ltx",
		"000a/0000000000000001-0000000000000001.ltx", "ltx/10/0000000000000001-0000000000000001.ltx", "ltx/00/0000000000000001-0000000000000001.ltx",
		"below/0000/0000000000000001-0000000000000001.ltx", "0000/0000000000000000-0000000000000001.ltx", "0000/0000000000000002-0000000000000001.ltx",
		"0000/0000000000000001-0000000000000001.ltx.tmp", "0000/1-1.ltx", replica.ManifestName, replica.IdentityName,
	} {
		for _, layout := range []replica.Layout{replica.Bucket, replica.Directory} {
			if f, ok := layout.Parse(name); ok {
				t.Errorf("%q in a %s is %s", name, layout, f)
			}
		}
	}
}

// TestAReplicaIsFoundInTheLayoutThatItHas, with any layout of its URL today, and with its only files on any level.
func TestAReplicaIsFoundInTheLayoutThatItHas(t *testing.T) {
	ctx := context.Background()
	for url, own := range map[string]replica.Layout{"s3://bucket/x": replica.Bucket, "file:///x": replica.Directory} {
		r, err := replica.Detect(ctx, objstore.NewMemory(), url)
		if err != nil || r.Layout() != own {
			t.Errorf("%s, empty: %s, %v", url, r.Layout(), err)
		}
		for _, layout := range []replica.Layout{replica.Bucket, replica.Directory} {
			for _, level := range []int{0, 5, replica.SnapshotLevel} {
				store := objstore.NewMemory()
				must(t, store.Put(ctx, objstore.Object{Name: layout.Name(replica.File{Level: level, Min: 1, Max: 3})}))
				if r, err := replica.Detect(ctx, store, url); err != nil || r.Layout() != layout {
					t.Errorf("%s with a file of level %d in a %s: %s, %v", url, level, layout, r.Layout(), err)
				}
			}
		}
		store := objstore.NewMemory()
		store.Fail(context.DeadlineExceeded)
		if _, err := replica.Detect(ctx, store, url); err == nil {
			t.Errorf("%s: a store that is down is an empty one", url)
		}
	}
	if replica.Bucket.String() != "bucket" || replica.Directory.String() != "directory" {
		t.Errorf("the layouts are called %s and %s", replica.Bucket, replica.Directory)
	}
}
