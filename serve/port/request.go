package port

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/holdfastdb/holdfast/serve/port/frame"
)

// maxPeeked bounds the bytes read to find an HTTP/2 connection's first request: preface, settings, window updates and headers. The server
// that gets the headers bounds them again.
const maxPeeked = 96 << 10

var errNoRequest = errors.New("no HTTP/2 request")

// emptySettings is a SETTINGS frame that changes nothing.
var emptySettings = [frame.HeadLen]byte{3: frame.Settings}

// peekRequest reads a client's HTTP/2 connection up to the headers of its first request, which tell whether it speaks gRPC. head is the
// part already read; the result is everything read.
//
// Many clients, grpc-go's among them, do not ask before they have seen the server's settings. So an empty SETTINGS frame is sent first,
// which is allowed: settings may be sent any number of times. The serving server sends its own, and the client acknowledges both.
// secondSettings helps the one server that minds.
func peekRequest(c net.Conn, head []byte) (all []byte, grpc bool, err error) {
	if _, err := c.Write(emptySettings[:]); err != nil {
		return nil, false, err
	}
	p := peeker{conn: c, b: head}
	grpc, err = p.run()
	return p.b, grpc, err
}

// peeker walks over frames and keeps what it reads.
type peeker struct {
	conn io.Reader
	b    []byte
	at   int // the first byte not looked at
}

// next returns the next n bytes. They are valid until the next call.
func (p *peeker) next(n int) ([]byte, error) {
	if p.at+n > maxPeeked {
		return nil, errNoRequest
	}
	for len(p.b) < p.at+n {
		var chunk [2048]byte
		got, err := p.conn.Read(chunk[:])
		p.b = append(p.b, chunk[:got]...)
		if err != nil && len(p.b) < p.at+n {
			return nil, err
		}
	}
	b := p.b[p.at : p.at+n]
	p.at += n
	return b, nil
}

func (p *peeker) run() (grpc bool, err error) {
	if b, err := p.next(len(preface)); err != nil || string(b) != preface {
		return false, errors.Join(err, errNoRequest)
	}
	for {
		kind, flags, payload, err := p.frame()
		if err != nil {
			return false, err
		}
		if kind != frame.Headers {
			if kind == frame.Data || kind == frame.Continuation {
				return false, errNoRequest
			}
			continue
		}
		block, err := p.headers(flags, payload)
		if err != nil {
			return false, err
		}
		return isGRPC(block)
	}
}

func (p *peeker) frame() (kind, flags byte, payload []byte, err error) {
	h, err := p.next(frame.HeadLen)
	if err != nil {
		return 0, 0, nil, err
	}
	n := int(h[0])<<16 | int(binary.BigEndian.Uint16(h[1:]))
	kind, flags = h[3], h[4]
	if n > frame.Max {
		return 0, 0, nil, errNoRequest
	}
	payload, err = p.next(n)
	return kind, flags, payload, err
}

// headers returns the header block that begins in a HEADERS frame.
func (p *peeker) headers(flags byte, payload []byte) ([]byte, error) {
	pad, skip := 0, 0
	if flags&frame.Padded != 0 {
		if len(payload) < 1 {
			return nil, errNoRequest
		}
		pad, skip = int(payload[0]), 1
	}
	if flags&frame.Priority != 0 {
		skip += 5
	}
	if skip+pad > len(payload) {
		return nil, errNoRequest
	}
	block := bytes.Clone(payload[skip : len(payload)-pad])
	for flags&frame.EndHeaders == 0 {
		kind, more, payload, err := p.frame()
		if err != nil {
			return nil, err
		}
		if kind != frame.Continuation {
			return nil, errNoRequest
		}
		block, flags = append(block, payload...), more
	}
	return block, nil
}

// isGRPC reports whether a header block is a gRPC request's. The server that gets the connection decodes it again with the
// dynamic table it will need for the next one.
func isGRPC(block []byte) (bool, error) {
	grpc := false
	d := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == "content-type" {
			grpc = strings.HasPrefix(f.Value, "application/grpc")
		}
	})
	d.SetMaxStringLength(frame.Max)
	if _, err := d.Write(block); err != nil {
		return false, err
	}
	return grpc, d.Close()
}

// secondSettings hides from an HTTP/2 server that settings were sent before its own. It drops the first acknowledgement, because net/http
// takes a surplus one for a broken client. grpc-go does not mind.
type secondSettings struct {
	*encrypted
	left  int    // bytes of the preface or of a frame's payload to pass on
	out   []byte // a frame's head to pass on before them
	ended bool   // the acknowledgement has been dropped
}

func newSecondSettings(c *encrypted) *secondSettings {
	return &secondSettings{encrypted: c, left: len(preface)}
}

// Read implements net.Conn.
func (c *secondSettings) Read(p []byte) (int, error) {
	for !c.ended && c.left == 0 && len(c.out) == 0 {
		var head [frame.HeadLen]byte
		if _, err := io.ReadFull(c.encrypted, head[:]); err != nil {
			return 0, err
		}
		if head[3] == frame.Settings && head[4]&frame.Ack != 0 {
			c.ended = true
			break
		}
		c.out = append(c.out, head[:]...)
		c.left = int(head[0])<<16 | int(binary.BigEndian.Uint16(head[1:]))
	}
	if len(c.out) > 0 {
		n := copy(p, c.out)
		c.out = c.out[n:]
		return n, nil
	}
	if c.ended {
		return c.encrypted.Read(p)
	}
	n, err := c.encrypted.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
