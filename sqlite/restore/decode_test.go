package restore

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc64"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// written is an LTX file of a content, whole by its own checksum for any content. In the former form a page is a frame of LZ4 without a
// length.
func written(t testing.TB, c *Content, former bool) []byte {
	t.Helper()
	var out, sums, index bytes.Buffer // sums: what the file's checksum is of
	both := func(b []byte) { out.Write(b); sums.Write(b) }
	head, err := c.Header.MarshalBinary()
	must(t, err)
	both(head)
	for _, n := range slices.Sorted(maps.Keys(c.Pages)) {
		begin := out.Len()
		page := binary.BigEndian.AppendUint32(nil, n)
		if former {
			both(append(page, 0, 0))
			w := lz4.NewWriter(&out)
			must(t, w.Apply(lz4.BlockSizeOption(lz4.Block64Kb)))
			_, err = w.Write(c.Pages[n])
			must(t, err)
			must(t, w.Close())
		} else {
			both(binary.BigEndian.AppendUint16(page, ltx.PageHeaderFlagSize))
			b := make([]byte, lz4.CompressBlockBound(len(c.Pages[n])))
			size, err := new(lz4.Compressor).CompressBlock(c.Pages[n], b)
			must(t, err)
			both(binary.BigEndian.AppendUint32(nil, uint32(size)))
			out.Write(b[:size])
		}
		sums.Write(c.Pages[n])
		for _, v := range []int{int(n), begin, out.Len() - begin} {
			index.Write(binary.AppendUvarint(nil, uint64(v)))
		}
	}
	both(make([]byte, ltx.PageHeaderSize))
	index.WriteByte(0)
	both(index.Bytes())
	both(binary.BigEndian.AppendUint64(nil, uint64(index.Len())))
	both(binary.BigEndian.AppendUint64(nil, uint64(c.Trailer.PostApplyChecksum)))
	out.Write(binary.BigEndian.AppendUint64(nil, uint64(ltx.ChecksumFlag)|crc64.Checksum(sums.Bytes(), iso)))
	return out.Bytes()
}

// must fails the test at once if a step of its story fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustRead is the content of a whole file.
func mustRead(t testing.TB, b []byte) *Content {
	t.Helper()
	c, err := ReadFile(bytes.NewReader(b))
	must(t, err)
	return c
}

// TestFilesOfTheFormerFormAreRead, as Litestream wrote them at first: every state of them is restored and proved, and any damage in one is
// found.
func TestFilesOfTheFormerFormAreRead(t *testing.T) {
	store := objstore.NewMemory()
	w := lived(t, store, replica.Bucket, 3)
	must(t, store.Delete(context.Background(), replica.ManifestName)) // it has the sizes of the files as they were
	var old []byte
	for name, b := range store.Objects() { // any order: each by itself
		f, ok := replica.Bucket.Parse(name)
		c := mustRead(t, b)
		if !ok || len(c.Pages) == 0 {
			continue
		}
		if now := written(t, c, false); len(mustRead(t, now).Pages) != len(c.Pages) {
			t.Fatal("the test writes files that are none")
		}
		b = written(t, c, true)
		if got := mustRead(t, b); got.Header != c.Header || !maps.EqualFunc(got.Pages, c.Pages, bytes.Equal) || got.Trailer.PostApplyChecksum != f.Post &&
			got.Trailer.PostApplyChecksum != c.Trailer.PostApplyChecksum {
			t.Errorf("%s has another content in the former form", name)
		}
		must(t, store.Put(context.Background(), objstore.Object{Name: name, Data: b}))
		if old == nil || len(b) < len(old) {
			old = b
		}
	}
	for _, s := range w.Past {
		out, b, err := restoreTo(t, replica.New(store, replica.Bucket), disk.NewMem(), Options{Target: Target{TXID: s.File.Max}, every: 1})
		if err != nil || !bytes.Equal(b, s.DB.Bytes()) || !out.Proved {
			t.Errorf("%s: %v, another database", s.File.Max, err)
		}
	}
	if v, said := verified(t, store, replica.Bucket); v.Wrong != 0 || v.Proved != len(w.Past) {
		t.Errorf("%d states of %d are proved, %q", v.Proved, len(w.Past), said)
	}
	c := mustRead(t, old)
	for i := range old {
		if _, err := ReadFile(bytes.NewReader(old[:i])); err == nil {
			t.Errorf("cut at byte %d of %d it is whole", i, len(old))
		}
		damaged := bytes.Clone(old)
		damaged[i] ^= 1
		if got, err := ReadFile(bytes.NewReader(damaged)); err == nil && (got.Header != c.Header || !maps.EqualFunc(got.Pages, c.Pages, bytes.Equal)) {
			t.Errorf("byte %d flipped, and another content is taken for whole", i)
		}
	}
	if _, err := ReadFile(bytes.NewReader(append(bytes.Clone(old), 0))); err == nil {
		t.Error("with a byte behind its end it is whole")
	}
}

// TestAFileThatContradictsItselfIsRefused: its checksum holds, and what it says cannot be.
func TestAFileThatContradictsItselfIsRefused(t *testing.T) {
	w := lived(t, objstore.NewMemory(), replica.Bucket, 3)
	snapshot, group := w.Past[0].Data, w.Past[3].Data
	for _, c := range []struct {
		name, reason string // "": it is whole
		of           []byte
		spoil        func(c *Content)
	}{
		{"a snapshot", "", snapshot, func(*Content) {}},
		{"a group", "", group, func(*Content) {}},
		{"no checksum behind it", "post-apply", group, func(c *Content) { c.Trailer.PostApplyChecksum = 0 }},
		{"a page behind the database's end", "no place", group, func(c *Content) { c.Pages[c.Header.Commit+1] = c.Pages[1] }},
		{"a snapshot without its last page", "whole database", snapshot, func(c *Content) { delete(c.Pages, c.Header.Commit) }},
		{"a snapshot without its first page", "whole database", snapshot, func(c *Content) { delete(c.Pages, 1) }},
		{"a page of another size", "decompressed", group, func(c *Content) { c.Pages[1] = c.Pages[1][:100] }},
	} {
		for _, former := range []bool{false, true} {
			if former && (c.reason == "decompressed" || c.reason == "post-apply") {
				continue // its pages have no length, and its trailer may be without the checksum
			}
			content := mustRead(t, c.of)
			c.spoil(content)
			if _, err := ReadFile(bytes.NewReader(written(t, content, former))); (err == nil) != (c.reason == "") || err != nil && !former && !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s, in the former form %t: %v", c.name, former, err)
			}
		}
	}
}

// TestPagesOfADatabase: the page with SQLite's lock is never stored, and a bitmap has a bit for each page and little more.
func TestPagesOfADatabase(t *testing.T) {
	lock := ltx.LockPgno(4096)
	for commit, want := range map[uint32]uint32{1: 1, lock - 1: lock - 1, lock: lock - 1, lock + 1: lock} {
		if got := whole(commit, lock); got != want {
			t.Errorf("of %d pages %d are stored, want %d", commit, got, want)
		}
	}
	for _, pages := range []uint32{1, 7, 8, 9, 1000} {
		b := newBitmap(pages)
		for page := uint32(1); page <= pages; page++ {
			if b.has(page) {
				t.Errorf("page %d of %d is there before it is set", page, pages)
			}
			if b.set(page); !b.has(page) {
				t.Errorf("page %d of %d is not there", page, pages)
			}
		}
		if len(b) > int(pages)/8+1 {
			t.Errorf("%d pages take %d bytes", pages, len(b))
		}
	}
}
