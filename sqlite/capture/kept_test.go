package capture

import (
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// blank are the files of a database whose pages are all zeros, which no connection has open.
type blank struct {
	Files
	pages uint32
}

func (blank) PageSize() uint32         { return 4096 }
func (blank) Join() error              { return nil }
func (blank) Live() bool               { return false }
func (blank) Held() bool               { return false }
func (blank) Moved() bool              { return false }
func (b blank) Pages() (uint32, error) { return b.pages, nil }

func (b blank) Recover(walfile.Header) (walfile.Header, error) {
	return walfile.Header{Pages: b.pages, PageSize: 4096}, nil
}

func (blank) ReadPage(_ uint32, p []byte) error  { clear(p); return nil }
func (blank) ReadFrame(_ uint32, p []byte) error { clear(p); return nil }

// TestASmallGroupIsKept: a group of up to four megabytes has its pages in memory, read from the WAL or by reading the database. A larger
// one leaves them in their place.
func TestASmallGroupIsKept(t *testing.T) {
	for pages, want := range map[uint32]bool{1: true, smallBytes / 4096: true, smallBytes/4096 + 1: false, smallBytes/4096 + 2: false} {
		d := &Database{files: blank{pages: pages}}
		found, err := d.compare()
		if err != nil {
			t.Fatal(err)
		}
		read := &Group{from: d, State: State{PageSize: 4096}}
		for number := range pages {
			read.Pages = append(read.Pages, Page{Number: number + 1, Frame: number + 1})
		}
		if err := read.read(); err != nil {
			t.Fatal(err)
		}
		for name, g := range map[string]*Group{"found": found, "read from the WAL": read} {
			if g.Kept() != want || g.Bytes() != int64(pages)*4096 {
				t.Errorf("%s, of %d pages: %d bytes, kept: %v", name, pages, g.Bytes(), g.Kept())
			}
			n := uint32(0)
			if err := g.Each(func(number uint32, page []byte) error { n++; return nil }); err != nil || n != pages {
				t.Errorf("%s, of %d pages: %d, %v", name, pages, n, err)
			}
		}
	}
	if g := new(Group); !g.Kept() {
		t.Error("a group of no pages needs the database")
	}
}
