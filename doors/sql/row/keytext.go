package row

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/internal/tuple"
)

// Text reads a field of a key that AppendKey has written, as people read it. A text comes in the letters by which its collation compares it, so that 'alice'
// is 'ALICE' where the two are equal, and '·' stands for a letter beyond ASCII: the key has weights and no letters. Error: the field is damaged.
func (p *Part) Text(b []byte) (text string, rest []byte, err error) {
	if rest, ok := tuple.Null(b); ok {
		return "NULL", rest, nil
	}
	switch p.form {
	case formInt, formYear, formTime, formDuration:
		n, rest, err := tuple.Int(b)
		if err != nil {
			return "", nil, err
		}
		switch p.form {
		case formTime:
			layout := "'2006-01-02 15:04:05.999999'"
			if types.IsDateType(p.typ) {
				layout = "'2006-01-02'"
			}
			return time.UnixMicro(n).UTC().Format(layout), rest, nil
		case formDuration:
			return fmt.Sprintf("'%v'", types.Timespan(n)), rest, nil
		}
		return fmt.Sprint(n), rest, nil
	case formUint:
		n, rest, err := tuple.Uint(b)
		return fmt.Sprint(n), rest, err
	case formFloat:
		n, rest, err := tuple.Float(b)
		return fmt.Sprint(n), rest, err
	}
	v, rest, err := tuple.Bytes(nil, b)
	if err != nil {
		return "", nil, err
	}
	switch p.form {
	case formDecimal:
		d, _, err := decodeDecimal(v, scale(p.typ))
		return fmt.Sprint(d), rest, err
	case formText:
		return "'" + strings.ReplaceAll(p.order.text(v, lettersOf(p.typ.(sql.TypeWithCollation).Collation())), "'", "''") + "'", rest, nil
	}
	if utf8.Valid(v) && strings.IndexFunc(string(v), func(r rune) bool { return r < ' ' }) < 0 {
		return "'" + strings.ReplaceAll(string(v), "'", "''") + "'", rest, nil
	}
	return fmt.Sprintf("0x%X", v), rest, nil
}

// lettersOf has for each weight of a letter of ASCII the first letter that has it.
func lettersOf(c sql.CollationID) map[int32]byte {
	letters, weight := map[int32]byte{}, Sorter(c)
	for r := byte(' '); r < 0x7f; r++ {
		if w := weight(rune(r)); letters[w] == 0 {
			letters[w] = r
		}
	}
	return letters
}

// mostLetters bounds the text of a field: a key of MySQL has 3,072 bytes, and spaces are written as a number.
const mostLetters = 3072

// text turns the weights of appendKey into letters.
func (w *weights) text(b []byte, letters map[int32]byte) string {
	var s strings.Builder
	for len(b) >= 3 && s.Len() < mostLetters {
		weight := int32(b[0])<<16 | int32(b[1])<<8 | int32(b[2])
		b = b[3:]
		if w.pad && weight == w.space && len(b) > 0 {
			mark := b[0]
			b = b[1:]
			if mark == spacesEnd || len(b) < 4 {
				break
			}
			n := binary.BigEndian.Uint32(b)
			if b = b[4:]; mark == spacesBeforeHigher {
				n = ^n
			}
			s.WriteString(strings.Repeat(" ", int(min(n, mostLetters))))
			continue
		}
		if letter := letters[weight]; letter != 0 {
			s.WriteByte(letter)
		} else {
			s.WriteString("·")
		}
	}
	return s.String()
}
