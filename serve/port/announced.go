package port

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"time"
)

// announced is the length of the body that a request's head announces, 0 if it announces none, or the head is not whole. A body that comes in
// chunks has no length.
func announced(b []byte) int {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return 0
	}
	const name = "\r\ncontent-length:"
	for rest := b[:end]; ; {
		i := bytes.Index(rest, []byte("\r\n"))
		if i < 0 || len(rest)-i < len(name) {
			return 0
		}
		if rest = rest[i:]; !bytes.EqualFold(rest[:len(name)], []byte(name)) {
			rest = rest[2:]
			continue
		}
		value, _, _ := bytes.Cut(rest[len(name):], []byte("\r\n"))
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil || n < 0 {
			return 0 // the parser refuses it
		}
		return n
	}
}

const (
	// lingerTime and lingerBytes bound what is read away of a request that was refused before it came: a client that is still sending
	// when the connection is closed would see that it broke, and not the answer.
	lingerTime  = 2 * time.Second
	lingerBytes = 40 << 20
)

// linger ends the sending side of a connection and reads away what the client sends meanwhile.
func linger(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, lingerBytes) // it ends with the client, the time or the bound
}
