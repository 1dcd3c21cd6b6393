package row

import (
	"encoding/binary"
	"sync"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/internal/tuple"
)

// weights sorts the texts of one collation by bytes.
type weights struct {
	weight func(r rune) int32
	pad    bool // PAD SPACE: a text is as if spaces without end followed it
	space  int32
}

// Sorter returns the weight of each character in a collation. The library looks each of them up in a table of all there are: those of ASCII are kept
// beside it. Any goroutine.
func Sorter(c sql.CollationID) func(r rune) int32 {
	if f, ok := sorters.Load(c); ok {
		return f.(func(r rune) int32)
	}
	weight, ascii := c.Sorter(), new([utf8.RuneSelf]int32)
	for r := range ascii {
		ascii[r] = weight(rune(r))
	}
	f, _ := sorters.LoadOrStore(c, func(r rune) int32 {
		if r >= 0 && r < utf8.RuneSelf {
			return ascii[r]
		}
		return weight(r)
	})
	return f.(func(r rune) int32)
}

// sorters has a func(r rune) int32 of each sql.CollationID that was asked for.
var sorters sync.Map

// weightsOf returns the order of a collation.
func weightsOf(c sql.CollationID) *weights {
	w := &weights{weight: Sorter(c), pad: c.PadAttribute() == "PAD SPACE"}
	w.space = w.weight(' ')
	return w
}

// A text without its last spaces compares with a longer one as its first missing character does, a space. Where the longer text has a space
// too, the first character behind the spaces decides. So each run of spaces, and the end, has the weight of a space and a mark behind it.
const (
	spacesBeforeLower  = 0x01 // a character lower than a space follows; the more spaces, the higher
	spacesEnd          = 0x02 // nothing follows
	spacesBeforeHigher = 0x03 // a higher one follows; the more spaces, the lower
)

// appendKey appends the weights of a text. prefix: of so many characters; 0: of all.
func (w *weights) appendKey(dst []byte, s string, prefix int) []byte {
	b := make([]byte, 0, 3*len(s)+4) // a character takes three bytes, the end four
	spaces, count := uint32(0), 0
	for len(s) > 0 && (prefix == 0 || count < prefix) {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			r = rune(s[0])
		}
		s = s[size:]
		count++
		weight := w.weight(r)
		switch {
		case !w.pad:
			b = appendWeight(b, weight)
			continue
		case weight == w.space:
			spaces++
			continue
		case spaces > 0 && weight < w.space:
			b = binary.BigEndian.AppendUint32(append(appendWeight(b, w.space), spacesBeforeLower), spaces)
		case spaces > 0:
			b = binary.BigEndian.AppendUint32(append(appendWeight(b, w.space), spacesBeforeHigher), ^spaces)
		}
		spaces = 0
		b = appendWeight(b, weight)
	}
	if w.pad {
		b = append(appendWeight(b, w.space), spacesEnd)
	}
	return tuple.AppendBytes(dst, b)
}

// appendWeight appends a weight in three bytes. The engine gives characters that a collation does not know the largest int32: they stay the last.
func appendWeight(b []byte, w int32) []byte {
	w = min(max(w, 0), 1<<24-1)
	return append(b, byte(w>>16), byte(w>>8), byte(w))
}
