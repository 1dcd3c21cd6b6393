package saga

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// DTM's clients are written in ten languages and agree on the names of fields but not on the form of values. They send null for missing
// values, numbers as texts, a list for an empty map, unknown fields, and some fields twice. A document is therefore looked at piece by
// piece, where each field is read as what it must be. Its JSON syntax is checked first, once for the whole document.

// value is one JSON value in a well-formed document, without blanks around it. Empty: there is none.
type value []byte

// parse returns the value a document holds. It aliases doc.
func parse(doc []byte) (value, error) {
	if !json.Valid(doc) {
		var none any
		err := json.Unmarshal(doc, &none) // for its words
		if err == nil {
			err = errors.New("no JSON")
		}
		return nil, err
	}
	return value(bytes.TrimSpace(doc)), nil
}

// null reports whether there is no value.
func (v value) null() bool { return len(v) == 0 || v[0] == 'n' }

// members calls fn with each member of an object in the order of the document; one that is there twice comes twice. Null has none, nor has
// an empty list, which PHP writes for an empty map.
func (v value) members(fn func(name string, v value) error) error {
	if v.null() || v.emptyList() {
		return nil
	}
	if v[0] != '{' {
		return fmt.Errorf("%s is no object", v.shown())
	}
	for at := v.blank(1); v[at] != '}'; {
		end := v.skip(at)
		name, err := v[at:end].text()
		if err != nil {
			return err
		}
		at = v.blank(v.blank(end) + 1) // behind the colon
		end = v.skip(at)
		if err := fn(name, v[at:end]); err != nil {
			return err
		}
		if at = v.blank(end); v[at] == ',' {
			at = v.blank(at + 1)
		}
	}
	return nil
}

// elements calls fn with each element of a list. Null has none, nor has an empty object.
func (v value) elements(fn func(v value) error) error {
	if v.null() || v[0] == '{' && v[v.blank(1)] == '}' {
		return nil
	}
	if v[0] != '[' {
		return fmt.Errorf("%s is no list", v.shown())
	}
	for at := v.blank(1); v[at] != ']'; {
		end := v.skip(at)
		if err := fn(v[at:end]); err != nil {
			return err
		}
		if at = v.blank(end); v[at] == ',' {
			at = v.blank(at + 1)
		}
	}
	return nil
}

func (v value) emptyList() bool { return v[0] == '[' && v[v.blank(1)] == ']' }

// blank is the first place from at on without a blank.
func (v value) blank(at int) int {
	for at < len(v) && (v[at] == ' ' || v[at] == '\t' || v[at] == '\n' || v[at] == '\r') {
		at++
	}
	return at
}

// skip is the place behind the value that begins at at.
func (v value) skip(at int) int {
	depth := 0
	for ; at < len(v); at++ {
		switch v[at] {
		case '"':
			for at++; v[at] != '"'; at++ {
				if v[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\n', '\r':
			continue // between the values inside
		default:
			for at+1 < len(v) && !endsWord(v[at+1]) {
				at++
			}
		}
		if depth == 0 {
			return at + 1
		}
	}
	return at
}

// endsWord reports whether a number or a word like true ends before c.
func endsWord(c byte) bool {
	switch c {
	case ',', ':', ']', '}', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// bytes is a text, without copying it where that can be: the result may alias the document. A value that is no text is taken as written,
// null as an empty text.
func (v value) bytes() ([]byte, error) {
	switch {
	case v.null():
		return nil, nil
	case v[0] != '"':
		return v, nil
	}
	if v.plain() {
		return v[1 : len(v)-1], nil
	}
	var b bytes.Buffer
	unescape(&b, v[1:len(v)-1])
	return b.Bytes(), nil
}

// plain reports whether a text is written as it is.
func (v value) plain() bool { return bytes.IndexByte(v, '\\') < 0 && utf8.Valid(v) }

// text is bytes in memory of its own.
func (v value) text() (string, error) {
	if !v.null() && v[0] == '"' && !v.plain() {
		var b strings.Builder
		unescape(&b, v[1:len(v)-1])
		return b.String(), nil
	}
	b, err := v.bytes()
	return string(b), err
}

// unescape is the meaning of a text's inside, as encoding/json has it: invalid UTF-8 and half a surrogate pair become U+FFFD. It takes
// memory for the result alone: a text may be all of a request.
func unescape(b interface {
	Grow(n int)
	Write(p []byte) (int, error)
	WriteRune(r rune) (int, error)
}, s []byte) {
	n := 0
	for at := 0; at < len(s); {
		r, plain, size := next(s[at:])
		if at += size; plain {
			n += size
		} else {
			n += utf8.RuneLen(r)
		}
	}
	b.Grow(n)
	for at := 0; at < len(s); {
		r, plain, size := next(s[at:])
		if plain {
			_, _ = b.Write(s[at : at+size]) // neither fails
		} else {
			_, _ = b.WriteRune(r)
		}
		at += size
	}
}

// next reads what stands for one letter, or plain letters that stand for themselves.
func next(s []byte) (r rune, plain bool, size int) {
	for size < len(s) && s[size] != '\\' {
		if s[size] < utf8.RuneSelf {
			size++
			continue
		}
		r, n := utf8.DecodeRune(s[size:])
		switch {
		case r != utf8.RuneError || n > 1:
			size += n
		case size > 0:
			return 0, true, size
		default:
			return utf8.RuneError, false, n
		}
	}
	if size > 0 {
		return 0, true, size
	}
	switch c := s[1]; c { // there is one: the document is JSON
	case 'b':
		return '\b', false, 2
	case 'f':
		return '\f', false, 2
	case 'n':
		return '\n', false, 2
	case 'r':
		return '\r', false, 2
	case 't':
		return '\t', false, 2
	case 'u':
		r = unit(s)
		if !utf16.IsSurrogate(r) {
			return r, false, 6
		}
		if both := utf16.DecodeRune(r, unit(s[6:])); both != utf8.RuneError {
			return both, false, 12
		}
		return utf8.RuneError, false, 6
	default:
		return rune(c), false, 2
	}
}

// unit is the number in \u1234, -1 if there is no such thing at the beginning.
func unit(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// seconds is a number of seconds in milliseconds. DTM's are whole; a fraction is taken as well. Null and an empty text are 0.
func (v value) seconds() (ms int64, err error) {
	n, err := v.number()
	if err != nil {
		return 0, err
	}
	if n < 0 || n > maxSeconds {
		return 0, fmt.Errorf("%s is no number of seconds from 0 to %d", v.shown(), maxSeconds)
	}
	return int64(math.Round(n * 1000)), nil
}

// maxSeconds is the longest time that a client may ask for: ten years.
const maxSeconds = 10 * 366 * 86400

// count is a whole number from 0 on.
func (v value) count() (int64, error) {
	n, err := v.number()
	if err != nil {
		return 0, err
	}
	if n < 0 || n > math.MaxInt32 || n != math.Trunc(n) {
		return 0, fmt.Errorf("%s is no whole number from 0 to %d", v.shown(), math.MaxInt32)
	}
	return int64(n), nil
}

// int is a whole number of 64 bits, which is a text in the JSON of protobuf.
func (v value) int() (int64, error) {
	s, err := v.text()
	if err != nil || s == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is no whole number", v.shown())
	}
	return n, nil
}

func (v value) number() (float64, error) {
	s, err := v.text()
	if err != nil {
		return 0, err
	}
	if s = strings.TrimSpace(s); s == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) {
		return 0, fmt.Errorf("%s is no number", v.shown())
	}
	return n, nil
}

// flag is a truth. Null, an empty text and 0 are false.
func (v value) flag() (bool, error) {
	s, err := v.text()
	if err != nil {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", v.shown())
}

// shown is a value for an error: its beginning.
func (v value) shown() string {
	const most = 40
	if len(v) <= most {
		return string(v)
	}
	return strings.ToValidUTF8(string(v[:most]), "") + "…"
}
