package replica

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/superfly/ltx"
)

// FenceSize is the size in bytes of every LTX file without a page, and of no other: so a list tells fences from groups.
const FenceSize = ltx.HeaderSize + ltx.PageHeaderSize + 1 + 8 + ltx.TrailerSize

// Pages hands the pages of a group to yield, by ascending number and without the lock page. It returns yield's error, if any. The data is
// the caller's again when yield returns. Called again it hands out the same.
type Pages func(yield func(number uint32, data []byte) error) error

// WriteGroup writes an LTX file to w as it goes, with what h says; version and flags are set here. post is the checksum of the
// database behind it. It takes 24 bytes of memory a page. The same arguments make the same bytes.
func WriteGroup(w io.Writer, h Header, pages Pages, post Checksum) error {
	h.Version, h.Flags = ltx.Version, 0
	buf := bufio.NewWriterSize(w, 64<<10)
	enc, err := ltx.NewEncoder(buf)
	if err != nil {
		return err
	}
	if err := enc.EncodeHeader(h); err != nil {
		return fmt.Errorf("encode %s: %w", ltx.FormatFilename(h.MinTXID, h.MaxTXID), err)
	}
	if err := pages(func(number uint32, data []byte) error { return enc.EncodePage(ltx.PageHeader{Pgno: number}, data) }); err != nil {
		return fmt.Errorf("encode %s: %w", ltx.FormatFilename(h.MinTXID, h.MaxTXID), err)
	}
	enc.SetPostApplyChecksum(post)
	if err := enc.Close(); err != nil {
		return fmt.Errorf("encode %s: %w", ltx.FormatFilename(h.MinTXID, h.MaxTXID), err)
	}
	return buf.Flush()
}

// SizeOf is how many bytes WriteGroup writes, found by encoding everything and keeping nothing.
func SizeOf(h Header, pages Pages, post Checksum) (int64, error) {
	var n counter
	err := WriteGroup(&n, h, pages, post)
	return int64(n), err
}

type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// EncodeFence is the fence with which an owner begins behind a head that is not empty, to the millisecond of t.
func EncodeFence(head Head, owner uint64, t time.Time) ([]byte, error) {
	min, max := head.Next()
	var b bytes.Buffer
	err := WriteGroup(&b, Header{PageSize: head.PageSize, Commit: head.Pages, MinTXID: min, MaxTXID: max, Timestamp: t.UnixMilli(),
		PreApplyChecksum: head.Post, NodeID: owner}, func(func(uint32, []byte) error) error { return nil }, head.Post)
	return b.Bytes(), err
}
