package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameHeaderLen is the length of a frame's header: payload length (4, little endian), CRC-32C of the payload (4).
const frameHeaderLen = 8

// errFrame marks a frame that cannot be trusted; the connection is closed.
var errFrame = errors.New("bad frame")

// putFrameHeader writes the header of payload into dst[:frameHeaderLen].
func putFrameHeader(dst, payload []byte) {
	binary.LittleEndian.PutUint32(dst, uint32(len(payload)))
	binary.LittleEndian.PutUint32(dst[4:], crc32.Checksum(payload, castagnoli))
}

// readFrame reads one frame into a slice of its own, at most max bytes long. Memory grows with the bytes read, not with the announced
// length.
func readFrame(r *bufio.Reader, max int) ([]byte, error) {
	var h [frameHeaderLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(h[:]))
	if n > max {
		return nil, fmt.Errorf("%w: %d bytes announced, at most %d allowed", errFrame, n, max)
	}
	const step = 1 << 20
	buf := make([]byte, min(n, step))
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, unexpected(err)
	}
	for len(buf) < n {
		k := min(n-len(buf), step)
		buf = append(buf, make([]byte, k)...)
		if _, err := io.ReadFull(r, buf[len(buf)-k:]); err != nil {
			return nil, unexpected(err)
		}
	}
	if crc32.Checksum(buf, castagnoli) != binary.LittleEndian.Uint32(h[4:]) {
		return nil, fmt.Errorf("%w: checksum", errFrame)
	}
	return buf, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// hello opens a connection. Byte table: docs/formats/peer.md.
type hello struct {
	kind     byte // a Channel, or helloAsk
	cluster  uint64
	from, to uint64
}

const (
	helloMagic = "HFPEER01"
	helloLen   = 8 + 1 + 24
	helloAsk   = 0xff
)

func (h *hello) append(b []byte) []byte {
	b = append(b, helloMagic...)
	b = append(b, h.kind)
	b = binary.LittleEndian.AppendUint64(b, h.cluster)
	b = binary.LittleEndian.AppendUint64(b, h.from)
	return binary.LittleEndian.AppendUint64(b, h.to)
}

func decodeHello(b []byte) (hello, error) {
	if len(b) != helloLen || string(b[:8]) != helloMagic {
		return hello{}, fmt.Errorf("%w: not a Holdfast member, or one of another version", errFrame)
	}
	h := hello{kind: b[8]}
	h.cluster = binary.LittleEndian.Uint64(b[9:])
	h.from = binary.LittleEndian.Uint64(b[17:])
	h.to = binary.LittleEndian.Uint64(b[25:])
	if h.kind != helloAsk && h.kind >= byte(channelCount) {
		return hello{}, fmt.Errorf("%w: unknown channel %d", errFrame, h.kind)
	}
	return h, nil
}
