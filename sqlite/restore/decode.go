package restore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"

	"github.com/pierrec/lz4/v4"
	"github.com/superfly/ltx"
)

var iso = crc64.MakeTable(crc64.ISO)

// frameHead is a page's header: its number, the flags, and the length of the compressed page, in bytes.
const frameHead = ltx.PageHeaderSize + 4

// decoder reads an LTX file page by page and checks all of it. The file's checksum must match, pages must ascend, and its index must name
// exactly the pages there. Unlike ltx.Decoder it can pause between two pages, takes no memory for a page, and leaves the database's
// checksum to its caller.
type decoder struct {
	in   *bufio.Reader
	head ltx.Header
	at   progress
	comp []byte // a page as it is stored

	trailer ltx.Trailer
	// old decodes files in the form that the format had before, where pages are LZ4 frames; nil: it is not one. It cannot be made to go on.
	old *ltx.Decoder
}

// progress is where a decoder is: all that it needs to go on from there.
type progress struct {
	Offset   int64  `json:"offset"`
	Sum      uint64 `json:"sum"`       // of the bytes read, as in the file's checksum
	Index    uint64 `json:"index"`     // of the index that the file must have
	IndexLen uint64 `json:"index_len"` // bytes
	Page     uint32 `json:"page"`      // the last one
	Pages    uint32 `json:"pages"`
}

// newDecoder reads the header.
func newDecoder(in io.Reader) (*decoder, error) {
	d := &decoder{in: bufio.NewReaderSize(in, 64<<10)}
	b := make([]byte, ltx.HeaderSize)
	if err := d.read(b); err != nil {
		return nil, err
	}
	if err := d.head.UnmarshalBinary(b); err != nil {
		return nil, err
	}
	if err := d.head.Validate(); err != nil {
		return nil, err
	}
	for _, c := range b[80:] {
		if c != 0 {
			return nil, errors.New("its header has something in the reserved bytes")
		}
	}
	d.room()
	if first, err := d.in.Peek(ltx.PageHeaderSize); err == nil && binary.BigEndian.Uint32(first) != 0 && binary.BigEndian.Uint16(first[4:]) == 0 {
		d.old = ltx.NewDecoder(io.MultiReader(bytes.NewReader(b), d.in))
		d.old.SetRetainPageIndex(false)
		if err := d.old.DecodeHeader(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// resumeDecoder goes on where another was; in has the file from there on.
func resumeDecoder(in io.Reader, head ltx.Header, at progress) *decoder {
	d := &decoder{in: bufio.NewReaderSize(in, 64<<10), head: head, at: at}
	d.room()
	return d
}

func (d *decoder) room() { d.comp = make([]byte, lz4.CompressBlockBound(int(d.head.PageSize))) }

// read reads all of b and counts it into the file's checksum.
func (d *decoder) read(b []byte) error {
	if _, err := io.ReadFull(d.in, b); err != nil {
		return ended(err)
	}
	d.add(b)
	d.at.Offset += int64(len(b))
	return nil
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}

func (d *decoder) add(b []byte) { d.at.Sum = crc64.Update(d.at.Sum, iso, b) }

// next decodes the next page into data, which has the length of a page. 0 says that there is none left.
func (d *decoder) next(data []byte) (page uint32, err error) {
	if d.old != nil {
		return d.nextOld(data)
	}
	begin := d.at.Offset
	var b [frameHead]byte
	if err := d.read(b[:ltx.PageHeaderSize]); err != nil {
		return 0, err
	}
	page = binary.BigEndian.Uint32(b[:])
	switch flags := binary.BigEndian.Uint16(b[4:]); {
	case page == 0 && flags == 0:
		return 0, nil
	case page == 0 || flags != ltx.PageHeaderFlagSize:
		return 0, fmt.Errorf("at byte %d no page begins", begin)
	}
	if err := d.place(page); err != nil {
		return 0, err
	}
	if err := d.read(b[ltx.PageHeaderSize:]); err != nil {
		return 0, err
	}
	n := int64(binary.BigEndian.Uint32(b[ltx.PageHeaderSize:]))
	if n > int64(len(d.comp)) {
		return 0, fmt.Errorf("page %d is said to have %d bytes", page, n)
	}
	if _, err := io.ReadFull(d.in, d.comp[:n]); err != nil {
		return 0, ended(err)
	}
	d.at.Offset += n
	if m, err := lz4.UncompressBlock(d.comp[:n], data); err != nil || m != len(data) {
		return 0, fmt.Errorf("page %d cannot be decompressed", page)
	}
	d.add(data)
	d.indexed(page, begin, d.at.Offset-begin)
	return page, nil
}

// place refuses a page that cannot come here.
func (d *decoder) place(page uint32) error {
	switch {
	case page <= d.at.Page:
		return fmt.Errorf("page %d comes behind page %d", page, d.at.Page)
	case page > d.head.Commit || page == d.head.LockPgno():
		return fmt.Errorf("page %d has no place in a database of %d pages", page, d.head.Commit)
	}
	return nil
}

func (d *decoder) nextOld(data []byte) (page uint32, err error) {
	var h ltx.PageHeader
	if err := d.old.DecodePage(&h, data); errors.Is(err, io.EOF) {
		return 0, nil
	} else if err != nil {
		return 0, ended(err)
	}
	if err := d.place(h.Pgno); err != nil {
		return 0, err
	}
	d.at.Page = h.Pgno
	d.at.Pages++
	return h.Pgno, nil
}

// indexed counts a page into the index that the file must have.
func (d *decoder) indexed(page uint32, offset, size int64) {
	var b [3 * binary.MaxVarintLen64]byte
	e := binary.AppendUvarint(b[:0], uint64(page))
	e = binary.AppendUvarint(e, uint64(offset))
	e = binary.AppendUvarint(e, uint64(size))
	d.at.Index = crc64.Update(d.at.Index, iso, e)
	d.at.IndexLen += uint64(len(e))
	d.at.Page = page
	d.at.Pages++
}

// close reads what is behind the last page, to the end of the file.
func (d *decoder) close() error {
	if d.old != nil {
		if err := d.old.Close(); err != nil {
			return ended(err)
		}
		d.trailer = d.old.Trailer()
		return d.complete()
	}
	var sum uint64
	for left := d.at.IndexLen; left > 0; {
		b := d.comp[:min(left, uint64(len(d.comp)))]
		if err := d.read(b); err != nil {
			return err
		}
		sum = crc64.Update(sum, iso, b)
		left -= uint64(len(b))
	}
	b := make([]byte, 9)
	if err := d.read(b); err != nil {
		return err
	}
	if sum != d.at.Index || b[0] != 0 || binary.BigEndian.Uint64(b[1:]) != d.at.IndexLen+1 {
		return errors.New("its index does not name the pages that it has")
	}
	b = make([]byte, ltx.TrailerSize)
	if _, err := io.ReadFull(d.in, b); err != nil {
		return ended(err)
	}
	d.at.Offset += ltx.TrailerSize
	d.add(b[:ltx.TrailerChecksumOffset])
	if err := d.trailer.UnmarshalBinary(b); err != nil {
		return err
	}
	if is := ltx.ChecksumFlag | ltx.Checksum(d.at.Sum); is != d.trailer.FileChecksum {
		return fmt.Errorf("its checksum is %s, and it says %s", is, d.trailer.FileChecksum)
	}
	if err := d.trailer.Validate(d.head); err != nil {
		return err
	}
	if _, err := d.in.ReadByte(); err == nil {
		return errors.New("something is behind its end")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return d.complete()
}

// complete refuses a snapshot that has not all pages.
func (d *decoder) complete() error {
	if d.head.IsSnapshot() && d.at.Pages != whole(d.head.Commit, d.head.LockPgno()) {
		return fmt.Errorf("it is to have the whole database and has %d pages of %d", d.at.Pages, d.head.Commit)
	}
	return nil
}

// whole is the number of pages of a database of a size, without the lock page, which is never stored.
func whole(commit, lock uint32) uint32 {
	if commit >= lock {
		return commit - 1
	}
	return commit
}
