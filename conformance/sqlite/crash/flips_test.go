package main

import (
	"bytes"
	"testing"

	"github.com/superfly/ltx"
)

// TestSameContentIsWhatFilesSay: of all flipped bits of a file of zeros most are another file, and a few the same in other bytes.
func TestSameContentIsWhatFilesSay(t *testing.T) {
	var b bytes.Buffer
	e, err := ltx.NewEncoder(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.EncodeHeader(ltx.Header{Version: ltx.Version, PageSize: 4096, Commit: 1, MinTXID: 1, MaxTXID: 1}); err != nil {
		t.Fatal(err)
	}
	page := make([]byte, 4096)
	copy(page, "SQLite format 3")
	if err := e.EncodePage(ltx.PageHeader{Pgno: 1}, page); err != nil {
		t.Fatal(err)
	}
	e.SetPostApplyChecksum(ltx.ChecksumFlag | ltx.ChecksumPage(1, page))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	whole, equal := b.Bytes(), 0
	if !sameContent(whole, whole) {
		t.Fatal("a file is not the same as itself")
	}
	for i := range 8 * len(whole) {
		damaged := bytes.Clone(whole)
		damaged[i/8] ^= 1 << (i % 8)
		if sameContent(damaged, whole) {
			equal++
		}
	}
	t.Logf("%d of %d flipped bits change nothing", equal, 8*len(whole))
	if equal == 0 || equal > len(whole) {
		t.Errorf("%d of %d flipped bits change nothing", equal, 8*len(whole))
	}
}
