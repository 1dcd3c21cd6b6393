package row

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// ParseJSON reads a JSON document as MySQL keeps it: an integer of up to 64 bits is exact, any other number a DOUBLE. The library's own reader has
// no integers. Its error says what is wrong with the text.
func ParseJSON(text string) (types.JSONDocument, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			err = errJSONEmpty
		}
		return types.JSONDocument{}, err
	}
	if rest, err := io.ReadAll(d.Buffered()); err != nil || len(bytes.TrimSpace(rest)) > 0 {
		return types.JSONDocument{}, errJSONRest
	}
	v, err := numbersOf(v)
	return types.JSONDocument{Val: v}, err
}

var (
	errJSONEmpty  = errors.New("the document is empty")
	errJSONRest   = errors.New("the document root must not be followed by other values")
	errJSONNumber = errors.New("number too big to be stored in double")
)

// numbersOf replaces the numbers in a document.
func numbersOf(v any) (any, error) {
	var err error
	switch x := v.(type) {
	case map[string]any:
		for k := range x { // any order: each is replaced by itself
			if x[k], err = numbersOf(x[k]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range x {
			if x[i], err = numbersOf(x[i]); err != nil {
				return nil, err
			}
		}
	case json.Number:
		return numberOf(string(x))
	}
	return v, nil
}

// wholeMost bounds the DOUBLEs that MySQL writes with digits and no exponent.
const wholeMost = 1e15

func numberOf(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && math.IsInf(f, 0) {
		return nil, errJSONNumber
	}
	if f == math.Trunc(f) && math.Abs(f) < wholeMost { // the library would write it without its point
		d, _, err := apd.NewFromString(strconv.FormatFloat(f, 'f', 1, 64))
		return d, err
	}
	return f, nil
}
