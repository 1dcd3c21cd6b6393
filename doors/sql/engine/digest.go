package engine

import "strings"

// A digest is what statements have in common that differ in their values alone. No value is in it, so that it can be shown to operators.

const (
	// digested bounds how much of a statement is looked at, and digestShown how much of its digest is kept, in bytes.
	digested    = 4 << 10
	digestShown = 1 << 10
)

// digestOf returns the digest of a statement: texts and numbers are a ?, lists of nothing else are (...), and comments and spaces do not count.
// ansi: names stand in double quotes. plain: a backslash is a letter as any other.
func digestOf(text string, ansi, plain bool) string {
	if len(text) > digested {
		text = text[:digested]
	}
	d := digest{out: make([]byte, 0, min(len(text)+16, digestShown))}
	for i := 0; i < len(text) && len(d.out) < digestShown; {
		c, rest := text[i], text[i:]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		case c == '#', strings.HasPrefix(rest, "-- "), strings.HasPrefix(rest, "--\n"), strings.HasPrefix(rest, "--\t"):
			i = upTo(text, i, "\n")
		case strings.HasPrefix(rest, "/*"):
			i = upTo(text, i+2, "*/")
		case c == '\'', c == '"' && !ansi:
			i = closed(text, i, plain)
			d.value()
		case c == '`', c == '"':
			end := closed(text, i, true)
			d.word(text[i:end])
			i = end
		case digit(c), c == '.' && len(rest) > 1 && digit(rest[1]) && !d.glued:
			i = numberEnd(text, i)
			d.value()
		case letter(c) || c == '@':
			end := i + 1
			for end < len(text) && (letter(text[end]) || digit(text[end]) || text[end] == '@') {
				end++
			}
			if end < len(text) && text[end] == '\'' && end-i == 1 && strings.IndexByte("xXbBnN", c) >= 0 { // x'1F'
				i = closed(text, end, plain)
				d.value()
				continue
			}
			if c == '_' && introducers[strings.ToLower(text[i:end])] { // of the text behind it
				i = end
				continue
			}
			d.word(text[i:end])
			i = end
		case (c == '-' || c == '+') && d.open() && len(rest) > 1 && (digit(rest[1]) || rest[1] == '.'):
			i++ // of the number behind it
		case c == '?':
			i++
			d.value()
		default:
			i++
			d.sign(c)
		}
	}
	if len(d.out) > digestShown {
		d.out = d.out[:digestShown]
	}
	return strings.ToValidUTF8(string(d.out), "")
}

// closed is closing, where a backslash may be a letter.
func closed(text string, i int, plain bool) int {
	if !plain {
		return closing(text, i)
	}
	quote := text[i : i+1]
	for i++; ; i += 2 {
		at := strings.Index(text[i:], quote)
		if at < 0 {
			return len(text)
		}
		if i += at; !strings.HasPrefix(text[i+1:], quote) {
			return i + 1
		}
	}
}

// introducers say in which character set the text behind them is.
var introducers = set("_utf8", "_utf8mb3", "_utf8mb4", "_binary", "_latin1", "_ascii")

func digit(c byte) bool { return c >= '0' && c <= '9' }

// upTo is behind the next end of a comment, or the end of the text.
func upTo(text string, from int, end string) int {
	if at := strings.Index(text[min(from, len(text)):], end); at >= 0 {
		return from + at + len(end)
	}
	return len(text)
}

// numberEnd is behind the number that begins at a place.
func numberEnd(text string, i int) int {
	for i < len(text) && (letter(text[i]) || digit(text[i]) || text[i] == '.' || (text[i] == '+' || text[i] == '-') && (text[i-1] == 'e' || text[i-1] == 'E')) {
		i++
	}
	return i
}

// digest is written sign by sign.
type digest struct {
	out   []byte
	glued bool // nothing stands between what was written last and what follows: behind a point or an opening parenthesis
	list  int  // where the parenthesis stands that was opened last, plus one, if nothing but values stands behind it; 0: none
}

func (d *digest) space() {
	if len(d.out) > 0 && !d.glued {
		d.out = append(d.out, ' ')
	}
	d.glued = false
}

func (d *digest) word(text string) {
	d.list = 0
	d.space()
	d.out = append(d.out, text...)
}

// open reports whether a value is to follow: a sign stands last, and no parenthesis that closes.
func (d *digest) open() bool {
	if len(d.out) == 0 {
		return false
	}
	c := d.out[len(d.out)-1]
	return strings.IndexByte("=<>(,*/%|&^+-!~:", c) >= 0
}

// value writes a ?. Of several in a list the first stands for all.
func (d *digest) value() {
	if d.list > 0 && len(d.out) > d.list {
		return
	}
	d.space()
	d.out = append(d.out, '?')
}

func (d *digest) sign(c byte) {
	switch {
	case c == ',' && d.list > 0 && len(d.out) > d.list:
		return // of a list of values
	case (c == '-' || c == '+') && d.list > 0:
		return // of a number in one
	case c == '(':
		d.space()
		d.out = append(d.out, c)
		d.glued, d.list = true, len(d.out)
	case c == ')':
		if d.list > 0 && len(d.out) > d.list {
			d.out = append(d.out[:d.list], "...)"...)
			d.row()
		} else {
			d.out = append(d.out, c)
		}
		d.glued, d.list = false, 0
	case c == '.':
		d.out = append(d.out, c)
		d.glued, d.list = true, 0
	case c == ',':
		d.out = append(d.out, c)
		d.glued, d.list = false, 0
	default:
		d.list = 0
		d.space()
		d.out = append(d.out, c)
	}
}

// row has rows of values that follow each other stand as one.
func (d *digest) row() {
	const again = "(...), (...)"
	if strings.HasSuffix(string(d.out[max(0, len(d.out)-len(again)):]), again) {
		d.out = d.out[:len(d.out)-len(", (...)")]
	}
}
