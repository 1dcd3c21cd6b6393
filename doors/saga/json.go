package saga

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DTM's clients are written in ten languages and agree on the names of fields but not on how to write a value: they send null for what they
// have not, numbers as texts, a list where an empty map is due, fields that nobody knows, and some twice. A document is therefore
// looked at piece by piece, where each field is read as what it must be. Whether it is JSON at all is judged first, once and for all of it.

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

// bytes is a text, without copying it where that can be: the result may alias the document. What is no text is taken as it is written, null
// as an empty text.
func (v value) bytes() ([]byte, error) {
	switch {
	case v.null():
		return nil, nil
	case v[0] != '"':
		return v, nil
	}
	if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return inner, nil
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return nil, err
	}
	return []byte(s), nil
}

// text is bytes in memory of its own.
func (v value) text() (string, error) {
	b, err := v.bytes()
	return string(b), err
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
