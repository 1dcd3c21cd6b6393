package port

import "bytes"

// headScan finds the end of a request's head in bytes that come in pieces. Its lines end with a carriage return and a line feed (RFC 9112,
// section 2.2). The parser waits for the rest of a head that has bare line feeds.
type headScan struct {
	last  byte // the byte before
	line  int  // bytes of the present line, the carriage return among them
	begun bool // there was a line that is not empty: servers skip empty ones before a request
	done  bool // the head has ended
}

// scan takes in the next bytes, and reports whether there is a line feed alone among those of the head.
func (h *headScan) scan(b []byte) (bare bool) {
	if h.done {
		return false
	}
	if h.last == 0 && bytes.Contains(b, []byte("\r\n\r\n")) { // nearly always
		h.done = true
		return false
	}
	for _, c := range b {
		switch {
		case c != '\n':
			h.line++
		case h.last != '\r':
			return true
		case h.line == 1 && h.begun:
			h.done = true
			return false
		default:
			h.begun = h.begun || h.line > 1
			h.line = 0
		}
		h.last = c
	}
	return false
}
