package walfile

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Where things lie in the wal-index (walformat.html, 2.1); numbers in the machine's own order.
const (
	headerBytes  = 48
	atChange     = 8
	atInit       = 12
	atPageSize   = 14
	atMaxFrame   = 16
	atPages      = 20
	atFrameSum   = 24
	atSalt       = 32
	atSum        = 40
	atBackfill   = 96
	atMarks      = 100
	atAttempted  = 128
	indexBytes   = 136
	marks        = 5
	markUnused   = 0xffffffff
	indexVersion = 3007000
)

// Position is a place in a WAL: behind a frame (1 is the first, 0 is before it) of the WAL with these salts. Salts are as in the
// WAL's header, byte for byte.
type Position struct {
	Salt  [8]byte
	Frame uint32
}

// Header is the state that the last commit left.
type Header struct {
	Position
	Change   uint32    // changes with each commit
	Pages    uint32    // size of the database
	PageSize uint32    // bytes
	Sum      [2]uint32 // running checksum at Frame
	Copied   uint32    // frames that a checkpoint has copied into the database
}

// Header reads the last commit from the wal-index: ErrBusy if it could not be read whole, which recovery by a connection may
// explain. The database has to be Live.
func (d *DB) Header() (Header, error) {
	var b [indexBytes]byte
	for range 100 {
		if _, err := d.shm.ReadAt(b[:], 0); err != nil {
			return Header{}, ErrBusy // a connection has just emptied it, or has not filled it yet
		}
		if h, ok := parseIndex(b[:]); ok {
			return h, nil
		}
		time.Sleep(20 * time.Microsecond) // a commit writes 96 bytes in between
	}
	return Header{}, ErrBusy
}

func parseIndex(b []byte) (Header, bool) {
	ne := binary.NativeEndian
	if string(b[:headerBytes]) != string(b[headerBytes:2*headerBytes]) || b[atInit] == 0 || ne.Uint32(b) != indexVersion {
		return Header{}, false
	}
	if sum := checksum(ne, [2]uint32{}, b[:atSum]); ne.Uint32(b[atSum:]) != sum[0] || ne.Uint32(b[atSum+4:]) != sum[1] {
		return Header{}, false
	}
	h := Header{
		Change: ne.Uint32(b[atChange:]), Pages: ne.Uint32(b[atPages:]),
		Sum:    [2]uint32{ne.Uint32(b[atFrameSum:]), ne.Uint32(b[atFrameSum+4:])},
		Copied: ne.Uint32(b[atBackfill:]),
	}
	h.Frame = ne.Uint32(b[atMaxFrame:])
	copy(h.Salt[:], b[atSalt:])
	if s := uint32(ne.Uint16(b[atPageSize:])); s != 0 {
		h.PageSize = s&0xfe00 | s&1<<16
	}
	return h, true
}

// checksum is the WAL's (walformat.html, 4.1 "Checksum Algorithm") over p, whose length is a multiple of 8, going on from sum.
func checksum(order binary.ByteOrder, sum [2]uint32, p []byte) [2]uint32 {
	a, b := sum[0], sum[1]
	if order == binary.ByteOrder(binary.LittleEndian) || order == binary.ByteOrder(binary.NativeEndian) && nativeIsLittle {
		for len(p) >= 8 {
			a += binary.LittleEndian.Uint32(p) + b
			b += binary.LittleEndian.Uint32(p[4:]) + a
			p = p[8:]
		}
		return [2]uint32{a, b}
	}
	for len(p) >= 8 {
		a += binary.BigEndian.Uint32(p) + b
		b += binary.BigEndian.Uint32(p[4:]) + a
		p = p[8:]
	}
	return [2]uint32{a, b}
}

var nativeIsLittle = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

func (p Position) String() string { return fmt.Sprintf("frame %d of WAL %x", p.Frame, p.Salt) }
