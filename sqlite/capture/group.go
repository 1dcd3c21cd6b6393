package capture

import (
	"encoding/binary"
	"errors"
	"hash/crc64"
	"io/fs"
	"time"
)

// Checksum is LTX's of a database: the CRC-64/ISO of every page's number and content, combined by exclusive or, with bit 63 set
// (github.com/superfly/ltx, README, "Checksum").
type Checksum uint64

// Flag is set in every Checksum, which is therefore never 0.
const Flag Checksum = 1 << 63

var iso = crc64.MakeTable(crc64.ISO)

// pageSum is a page's part of the checksum.
func pageSum(number uint32, page []byte) uint64 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], number)
	return crc64.Update(crc64.Update(0, iso, b[:]), iso, page) | uint64(Flag)
}

// smallBytes is up to how many bytes a group keeps its pages in memory.
const smallBytes = 4 << 20

// Page is one of a group, as it was captured.
type Page struct {
	Number uint32
	Frame  uint32 // where it is in the WAL; 0: in the database
	Sum    uint64
}

// Group is what changed from one state to a later one. It does not change once it was returned.
type Group struct {
	State  // after it
	Before Checksum
	Pages  []Page // by number; none behind the database's end, and not the lock page
	// Whole reports that it has every page of the database, because nothing before it is of use: another page size.
	Whole bool
	// Found reports that it was found by reading the database and not in the WAL.
	Found bool
	// Offset, Size and Salt say where in the WAL it was, in bytes; all 0 if it was not in one range.
	Offset, Size int64
	Salt         [8]byte
	// Commits are the last frames of the commits it has, in order; nil if it was not read from the WAL.
	Commits []uint32

	from  *Database
	data  []byte // of all pages, one after the other; nil: to be read
	unpin func() // nil: none
}

// Release ends the hold that keeps the pages in place for Each. It may be called again, by the goroutine that has the Database, and of no
// group at all.
func (g *Group) Release() {
	if g != nil && g.unpin != nil {
		g.unpin()
		g.unpin = nil
	}
}

// Bytes is how many bytes its pages have.
func (g *Group) Bytes() int64 { return int64(len(g.Pages)) * int64(g.PageSize) }

// Kept reports whether the group has its pages in memory: Each reads nothing then. Otherwise the database has to stay unchanged. The held
// mark ensures that and, for pages that are not in the WAL, a pin.
func (g *Group) Kept() bool { return g.data != nil || len(g.Pages) == 0 }

// Each calls f with every page. Pages that are not in memory are read and compared with their checksums: ErrChanged. Any goroutine may call
// it.
func (g *Group) Each(f func(number uint32, page []byte) error) error {
	size := int(g.PageSize)
	var buf []byte
	for i, p := range g.Pages {
		page := buf
		if g.data != nil {
			page = g.data[i*size : (i+1)*size]
		} else {
			if buf == nil {
				buf = make([]byte, size)
				page = buf
			}
			if err := g.readAgain(p, page); err != nil {
				return err
			}
			if pageSum(p.Number, page) != p.Sum {
				return ErrChanged
			}
		}
		if err := f(p.Number, page); err != nil {
			return err
		}
	}
	return nil
}

// readAgain reads a page while the files may be closed and opened anew beside it: a connection in exclusive mode came or went. The new ones are
// as good, because the page is compared. ErrChanged if they stay closed.
func (g *Group) readAgain(p Page, page []byte) error {
	for tries := 0; ; tries++ {
		err := g.from.readPage(p, page)
		switch {
		case !errors.Is(err, fs.ErrClosed) && !errors.Is(err, fs.ErrInvalid): // the second: there is no such file any more
			return err
		case tries == closedTries:
			return ErrChanged
		}
		g.from.by.Pause(time.Millisecond)
	}
}

// closedTries is how often a page of files that are closed is tried again, a millisecond apart: opening them takes less.
const closedTries = 50

// read takes the checksums of the pages, and the pages themselves if they are few.
func (g *Group) read() error {
	size := int(g.from.files.PageSize())
	var buf []byte
	keep := len(g.Pages)*size <= smallBytes
	if keep {
		g.data = make([]byte, len(g.Pages)*size)
	} else {
		buf = make([]byte, size)
	}
	for i := range g.Pages {
		p := &g.Pages[i]
		if keep {
			buf = g.data[i*size : (i+1)*size]
		}
		if err := g.from.readPage(*p, buf); err != nil {
			return err
		}
		p.Sum = pageSum(p.Number, buf)
	}
	return nil
}

func (d *Database) readPage(p Page, b []byte) error {
	if p.Frame != 0 {
		return d.files.ReadFrame(p.Frame, b)
	}
	return d.files.ReadPage(p.Number, b)
}
