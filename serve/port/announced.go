package port

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
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
	// lingerTime and lingerBytes bound the bytes read and dropped of a request that was refused before it came. A client that is still
	// sending when the connection closes would see a broken connection instead of the answer.
	lingerTime  = 2 * time.Second
	lingerBytes = 40 << 20
	// lingerPiece is read and dropped at a time, with lingerPause between two pieces of all such clients together. Dropping as fast as
	// dozens of them send would take the processors from other clients.
	lingerPiece = 256 << 10
	lingerPause = time.Millisecond
)

// turns gives the clients that are read away their turns, one each lingerPause. It is of the process: its ports share the processors.
var turns struct {
	mu   sync.Mutex
	next time.Time // guarded by mu
}

// turn waits for a turn. It reports false if there is none before a time.
func turn(before time.Time) bool {
	now := time.Now()
	turns.mu.Lock()
	at := turns.next
	if at.Before(now) {
		at = now
	}
	if at.After(before) {
		turns.mu.Unlock()
		return false
	}
	turns.next = at.Add(lingerPause)
	turns.mu.Unlock()
	time.Sleep(time.Until(at))
	return true
}

// linger ends the sending side of a connection and reads away what the client sends meanwhile.
func linger(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	end := time.Now().Add(lingerTime)
	if c.SetReadDeadline(end) != nil {
		return
	}
	for range lingerBytes / lingerPiece {
		if _, err := io.CopyN(io.Discard, c, lingerPiece); err != nil || !turn(end) { // it ends with the client, the time or the bound
			return
		}
	}
}
