package engine

import (
	"strings"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

const (
	// tokenBytes is about what the parser holds for one token: a name in a list takes 240 bytes with its comma, a row of an INSERT 400.
	tokenBytes = 128
	// A statement may take the memory of so many of the largest packets in its parsed form, and leastParsed at least.
	packetsParsed = 4
	leastParsed   = 64 << 20
	// fewBytes is a text that is not looked at, because it cannot have too many tokens.
	fewBytes = leastParsed / tokenBytes
)

// tokens counts the tokens of the first statement of a text, and stops at most. A text in quotes is one, a comment none.
func tokens(text string, most int) (n int) {
	for i := 0; i < len(text) && n < most; {
		c := text[i]
		switch {
		case c == ';':
			return n
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
			continue
		case c == '#', strings.HasPrefix(text[i:], "-- "):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return n
			}
			i += end
			continue
		case strings.HasPrefix(text[i:], "/*") && !strings.HasPrefix(text[i:], "/*!"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return n
			}
			i += 2 + end + 2
			continue
		case c == '\'' || c == '"' || c == '`':
			i = closing(text, i)
		case letter(c) || c >= '0' && c <= '9':
			for i++; i < len(text) && (letter(text[i]) || text[i] >= '0' && text[i] <= '9'); i++ {
			}
		default:
			i++
		}
		n++
	}
	return n
}

// judgeLength refuses a statement that would take more memory to parse than one may: its text fits into a packet, and what the parser makes of it is a
// hundred times as long.
func (e *Engine) judgeLength(text string) error {
	if len(text) <= fewBytes {
		return nil
	}
	most := max(packetsParsed*e.opt.MaxPacket, leastParsed) / tokenBytes
	if tokens(text, most) < most {
		return nil
	}
	return wire.Errorf(wire.ErrOutOfMemory, "Out of memory for a statement of more than %d names, values and signs; send its rows in several statements, or as parameters, or raise the server's --memory", most)
}
