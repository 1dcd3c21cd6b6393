package walfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	walHeaderBytes   = 32
	frameHeaderBytes = 24
	chunkBytes       = 256 << 10 // read at a time
)

// ErrDamaged: the frames are not those that the wal-index speaks of.
var ErrDamaged = errors.New("the WAL is not what its index says")

// Frame is a frame's header. It has its page number, and in the last frame of a commit the size of the database in pages (0 in others).
type Frame struct {
	Number, Page, Commit uint32
}

// FrameOffset is where frame n begins in the WAL; that of n+1 is where n ends.
func (d *DB) FrameOffset(n uint32) int64 {
	return walHeaderBytes + int64(n-1)*(frameHeaderBytes+int64(d.pageSize))
}

// Frames reads the frames behind from, up to h, in order. It calls each with every frame and its page; the page is valid during the call.
// sum is the running checksum at from; if from is the WAL's beginning it is not used. ErrDamaged if checksum or salts are not those of h:
// then discard everything that each got.
func (d *DB) Frames(from uint32, sum [2]uint32, h Header, each func(f Frame, page []byte) error) error {
	if d.wal == nil {
		return ErrBusy // its first frame is being written
	}
	var head [walHeaderBytes]byte
	if _, err := d.wal.ReadAt(head[:], 0); err != nil {
		return fmt.Errorf("read the WAL's header: %w", err)
	}
	order, start, ok := parseHead(head[:], d.pageSize)
	if !ok || [8]byte(head[16:24]) != h.Salt {
		return ErrDamaged
	}
	if from == 0 {
		sum = start
	}
	sum, err := d.walk(from, h.Frame, sum, order, h.Salt, each)
	if err == nil && sum != h.Sum {
		err = ErrDamaged
	}
	return err
}

// walk checks and hands out the frames behind from up to last.
func (d *DB) walk(from, last uint32, sum [2]uint32, order binary.ByteOrder, salt [8]byte, each func(Frame, []byte) error) ([2]uint32, error) {
	size := frameHeaderBytes + int(d.pageSize)
	batch := max(chunkBytes/size, 1)
	if most := min(int(last-from), batch) * size; len(d.buf) < most {
		d.buf = make([]byte, most)
	}
	for from < last {
		n := min(int(last-from), batch)
		b := d.buf[:n*size]
		if _, err := d.wal.ReadAt(b, d.FrameOffset(from+1)); err != nil {
			if errors.Is(err, io.EOF) {
				err = ErrDamaged
			}
			return sum, err
		}
		for ; len(b) > 0; b = b[size:] {
			head, page := b[:frameHeaderBytes], b[frameHeaderBytes:size]
			sum = checksum(order, checksum(order, sum, head[:8]), page)
			be := binary.BigEndian
			if [8]byte(head[8:16]) != salt || be.Uint32(head[16:]) != sum[0] || be.Uint32(head[20:]) != sum[1] {
				return sum, ErrDamaged
			}
			from++
			if err := each(Frame{from, be.Uint32(head), be.Uint32(head[4:])}, page); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// ReadFrame reads the page of frame n into p, which is a page long.
func (d *DB) ReadFrame(n uint32, p []byte) error {
	_, err := d.wal.ReadAt(p, d.FrameOffset(n)+frameHeaderBytes)
	return err
}

// parseHead takes the byte order of checksums and the first checksum from a WAL's header (walformat.html, 4.1).
func parseHead(b []byte, pageSize uint32) (binary.ByteOrder, [2]uint32, bool) {
	be := binary.BigEndian
	var order binary.ByteOrder
	switch be.Uint32(b) {
	case 0x377f0682:
		order = binary.LittleEndian
	case 0x377f0683:
		order = be
	default:
		return nil, [2]uint32{}, false
	}
	sum := checksum(order, [2]uint32{}, b[:24])
	return order, sum, be.Uint32(b[4:]) == indexVersion && be.Uint32(b[8:]) == pageSize && be.Uint32(b[24:]) == sum[0] && be.Uint32(b[28:]) == sum[1]
}

// Recover reads the state of a database without its index, as the next connection to open it will find it. It reads the frames up to the
// last commit with right checksums (walformat.html, 4.2 "Recovery"). A database without such a frame has Frame 0 and the size of its file.
// before is the result of an earlier call, or zero: if the WAL is still the same, reading continues behind it.
func (d *DB) Recover(before Header) (Header, error) {
	pages, err := d.Pages()
	if err != nil {
		return Header{}, err
	}
	h := Header{Pages: pages, PageSize: d.pageSize}
	if d.wal == nil {
		return h, nil
	}
	var head [walHeaderBytes]byte
	if _, err := d.wal.ReadAt(head[:], 0); errors.Is(err, io.EOF) {
		return h, nil
	} else if err != nil {
		return h, err
	}
	order, sum, ok := parseHead(head[:], d.pageSize)
	if !ok {
		return h, nil
	}
	h.Salt, h.Sum = [8]byte(head[16:24]), sum
	if before.Salt == h.Salt && before.Frame > 0 && before.PageSize == h.PageSize {
		h, sum = before, before.Sum
	}
	info, err := d.wal.Stat()
	if err != nil {
		return h, err
	}
	last := uint32(max(info.Size()-walHeaderBytes, 0) / (frameHeaderBytes + int64(d.pageSize)))
	running := sum
	_, err = d.walk(h.Frame, last, sum, order, h.Salt, func(f Frame, page []byte) error {
		running = frameSum(order, running, f, page)
		if f.Commit != 0 {
			h.Frame, h.Pages, h.Sum = f.Number, f.Commit, running
		}
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		err = nil // frames written when the last connection ended, or being written
	}
	return h, err
}

// frameSum goes on from sum over one frame.
func frameSum(order binary.ByteOrder, sum [2]uint32, f Frame, page []byte) [2]uint32 {
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], f.Page)
	binary.BigEndian.PutUint32(b[4:], f.Commit)
	return checksum(order, checksum(order, sum, b[:]), page)
}
