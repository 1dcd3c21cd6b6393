package gateway

import (
	"fmt"
	"io"
)

// judged is a body that ends with an error before it holds more values than a request may have. The decoder makes a hundred bytes and more of a
// value that has three in the body.
type judged struct {
	io.ReadCloser
	most int // values of one document

	values int
	depth  int
	text   bool // within a text
	escape bool // behind a backslash within a text
	refuse error
}

// tooMany is the refusal of a body.
func tooMany(most int) error {
	return fmt.Errorf("the request has more than %d values; send several, or raise --max-txn-ops", most)
}

// Read implements io.Reader.
func (j *judged) Read(p []byte) (int, error) {
	if j.refuse != nil {
		return 0, j.refuse
	}
	n, err := j.ReadCloser.Read(p)
	for _, c := range p[:n] {
		switch {
		case j.escape:
			j.escape = false
		case j.text:
			j.text, j.escape = c != '"', c == '\\'
		case c == '"':
			j.text = true
		case c == '{' || c == '[':
			j.depth++
			j.values++
		case c == ',':
			j.values++
		case c == '}' || c == ']':
			if j.depth--; j.depth <= 0 { // the next document of a stream
				j.depth, j.values = 0, 0
			}
		}
		if j.values > j.most {
			j.refuse = tooMany(j.most)
			return 0, j.refuse
		}
	}
	return n, err
}
