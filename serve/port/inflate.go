package port

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

// Gzip is how a gRPC server behind a Port takes messages in gzip (grpc.RPCDecompressor). It inflates nothing. A server that inflates
// messages itself does so before its codec hears of them. The result is not charged to any account: a hundred bytes become megabytes. Gzip
// marks the message, and the server's codec passes it to Port.Inflate.
type Gzip struct{}

// Type implements grpc.Decompressor.
func (Gzip) Type() string { return "gzip" }

// Do implements grpc.Decompressor: it returns the message as it came, behind a mark.
func (Gzip) Do(r io.Reader) ([]byte, error) {
	size := 0
	if sized, ok := r.(interface{ Remaining() int }); ok {
		size = sized.Remaining()
	}
	b := bytes.NewBuffer(make([]byte, 0, len(gzipMark)+size+bytes.MinRead))
	b.Write(gzipMark[:])
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// gzipMark stands before a message that Gzip has passed on. A client cannot send it, because it is random.
var gzipMark = func() (b [16]byte) {
	_, _ = rand.Read(b[:]) // never fails
	return b
}()

// InGzip reports whether a message came through Gzip and has to be inflated.
func InGzip(message []byte) bool { return bytes.HasPrefix(message, gzipMark[:]) }

// Errors of Inflate. Every other error says that the message is no gzip.
var (
	// ErrNoRoom: the requests of all clients hold all the room, or this connection holds its share. Nothing is drawn.
	ErrNoRoom = errors.New("too many large requests at a time")
	// ErrInflatedTooLarge: the message is larger than Options.MaxMessageBytes when it is inflated. Nothing is drawn.
	ErrInflatedTooLarge = errors.New("the inflated message is larger than any may be")
)

// freeInflated is the size of an inflated message without drawn room, in bytes: as for a plain one.
const freeInflated = 16 << 10

// inflaters is the gzip readers of a port, and the places of those that may work at the same time. A reader has 80 KB, and is all work of
// the processor. Large messages take milliseconds each: they have half of the processors, and small ones do not wait for them.
type inflaters struct {
	small, large chan struct{}
	idle         sync.Pool
}

func newInflaters() *inflaters {
	processors := runtime.GOMAXPROCS(0)
	return &inflaters{small: make(chan struct{}, 2*processors), large: make(chan struct{}, max(1, processors/2))}
}

// errGrows: a message is larger than it claims, and is to be inflated again in the place of a large one.
var errGrows = errors.New("larger than a small message")

// Inflate returns the content of a message for which InGzip is true. drawn is its part of the room for requests, in bytes: the caller gives
// it back with Deflated when the call is answered. from is the account of the client's connection; nil: a call of this process.
func (p *Port) Inflate(from *From, message []byte) (content []byte, drawn int64, err error) {
	packed := message[len(gzipMark):]
	if claimedSize(packed) < freeInflated {
		if content, drawn, err = p.inflate(from, packed, p.inflaters.small); !errors.Is(err, errGrows) {
			return content, drawn, err
		}
	}
	return p.inflate(from, packed, p.inflaters.large)
}

// inflate is Inflate in one of the places.
func (p *Port) inflate(from *From, packed []byte, places chan struct{}) (content []byte, drawn int64, err error) {
	defer func() {
		if err != nil {
			p.Deflated(from, drawn)
			content, drawn = nil, 0
		}
	}()
	places <- struct{}{}
	defer func() { <-places }()
	z, err := p.inflaters.take(packed)
	if err != nil {
		return nil, 0, fmt.Errorf("failed to decompress the message: %w", err)
	}
	defer p.inflaters.idle.Put(z)
	most := p.opts.MaxMessageBytes
	size := min(claimedSize(packed), most) + 1 // one more, so that the end is seen without growing
	for {
		if size > freeInflated {
			if places == p.inflaters.small {
				return nil, drawn, errGrows
			}
			if !p.drawInflated(from, int64(size)-drawn) {
				return nil, drawn, ErrNoRoom
			}
			drawn = int64(size)
		}
		grown := make([]byte, len(content), size)
		copy(grown, content)
		content = grown
		for len(content) < cap(content) {
			n, err := z.Read(content[len(content):cap(content)])
			content = content[:len(content)+n]
			switch {
			case len(content) > most:
				return nil, drawn, ErrInflatedTooLarge
			case errors.Is(err, io.EOF):
				return content, drawn, nil
			case err != nil:
				return nil, drawn, fmt.Errorf("failed to read decompressed data: %w", err)
			}
		}
		size = min(max(2*size, 4<<10), most+1)
	}
}

// Deflated gives back what Inflate has drawn.
func (p *Port) Deflated(from *From, drawn int64) {
	switch {
	case drawn == 0:
	case from == nil || from.of == nil:
		p.returnRoom(drawn)
	default:
		from.of.Return(drawn)
	}
}

// drawInflated takes n bytes of the room for requests for a message that has come already, or reports that they are not there. It closes no
// stalled connection and waits for none: the caller holds the place of an inflater.
func (p *Port) drawInflated(from *From, n int64) bool {
	if from == nil || from.of == nil {
		return p.tryDraw(n, 0, true)
	}
	i := from.of
	if !p.tryDraw(n, i.room.Load(), p.settled(i.opened, 0)) {
		return false
	}
	i.room.Add(n)
	return true
}

// take returns a reader of packed.
func (i *inflaters) take(packed []byte) (*gzip.Reader, error) {
	z, ok := i.idle.Get().(*gzip.Reader)
	if !ok {
		return gzip.NewReader(bytes.NewReader(packed))
	}
	if err := z.Reset(bytes.NewReader(packed)); err != nil {
		i.idle.Put(z)
		return nil, err
	}
	return z, nil
}

// claimedSize is how long the content is by the last field of packed, in bytes. A client may claim anything, so it is only a first guess.
func claimedSize(packed []byte) int {
	if len(packed) < 4 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(packed[len(packed)-4:]))
}
