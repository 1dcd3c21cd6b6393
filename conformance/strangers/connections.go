package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

// noHandshake stands for the protocols of a connection on which no TLS handshake is made.
const noHandshake = "none"

func silent(*target) ([]string, []byte) { return []string{noHandshake}, nil }

// path is a request that every HTTP door judges by its body.
func path(t *target) string {
	return map[string]string{"kv": "POST /v3/kv/range", "tlog": "POST /add", "saga": "POST /api/dtmsvr/submit", "admin": "POST /v1/snapshot"}[t.port]
}

func halfRequest(t *target) ([]string, []byte) {
	return nil, []byte(path(t) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n{")
}

func halfHead(t *target) ([]string, []byte) {
	return nil, []byte(path(t) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: a")
}

func http2Alone(*target) ([]string, []byte) {
	return []string{"h2"}, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
}

// halfHandshake is the first bytes of a ClientHello of 500.
func halfHandshake(*target) ([]string, []byte) {
	return []string{noHandshake}, []byte("\x16\x03\x01\x01\xf4\x01\x00\x01\xf0\x03\x03")
}

func halfLogin(*target) ([]string, []byte) { return nil, []byte{200, 0, 0, 1, 5, 6, 7} }

func gigabyteLogin(*target) ([]string, []byte) {
	return nil, append([]byte{0xff, 0xff, 0xff, 1}, make([]byte, 64<<10)...)
}

// halfBody sends half a megabyte of a body of one.
func halfBody(t *target) ([]string, []byte) {
	size := 1 << 20
	if t.port == "tlog" {
		size = 60 << 10
	}
	return nil, fmt.Appendf(nil, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", path(t), size, strings.Repeat("x", size/2))
}

func endlessHead(ctx context.Context, t *target, c net.Conn) {
	line := []byte("X-Header: " + strings.Repeat("a", 1000) + "\r\n")
	_, err := c.Write([]byte(path(t) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n"))
	for err == nil && ctx.Err() == nil {
		c.SetWriteDeadline(time.Now().Add(time.Second))
		_, err = c.Write(line)
	}
	rest(ctx)
}

func hugeBody(ctx context.Context, t *target, c net.Conn) {
	_, err := c.Write([]byte(path(t) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000000\r\n\r\n"))
	piece := make([]byte, 16<<10)
	for err == nil && ctx.Err() == nil {
		c.SetWriteDeadline(time.Now().Add(time.Second))
		_, err = c.Write(piece)
	}
	rest(ctx)
}

func noise(ctx context.Context, _ *target, c net.Conn) {
	b := make([]byte, 1+rand.IntN(4000))
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	c.SetDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = c.Write(b) // the server may have had enough before
	_, _ = c.Read(make([]byte, 512))
	rest(ctx)
}
