package restore

import (
	"bytes"
	"io"

	"github.com/superfly/ltx"
)

// Content is all that a file has.
type Content struct {
	Header  ltx.Header
	Trailer ltx.Trailer
	Pages   map[uint32][]byte
}

// ReadFile reads and checks a file that fits into memory.
func ReadFile(in io.Reader) (*Content, error) {
	d, err := newDecoder(in)
	if err != nil {
		return nil, err
	}
	c := &Content{Header: d.head, Pages: map[uint32][]byte{}}
	data := make([]byte, d.head.PageSize)
	for {
		page, err := d.next(data)
		if err != nil {
			return nil, err
		}
		if page == 0 {
			break
		}
		c.Pages[page] = bytes.Clone(data)
	}
	if err := d.close(); err != nil {
		return nil, err
	}
	c.Trailer = d.trailer
	return c, nil
}
