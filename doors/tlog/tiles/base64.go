package tiles

import (
	"encoding/base64"
	"errors"
	"strings"
)

var errBase64 = errors.New("not base64 in its canonical form")

// decodeBase64 accepts only the output of EncodeToString, so that a text has one form: signed, stored and compared bytes cannot be written
// in two ways. Strict alone is not enough, it skips line breaks.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errBase64
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}
