package litestream

import (
	"errors"
	"fmt"
	"strings"
)

// words takes a command line apart as a shell would: blanks, single and double quotes, backslashes. Features that need a shell are refused,
// and no variable is replaced.
func words(line string) (all []string, err error) {
	var word strings.Builder
	in := false // a word has begun, if only with a quote
	end := func() {
		if in {
			all = append(all, word.String())
			word.Reset()
			in = false
		}
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n', '\r':
			end()
		case '\\':
			if i++; i == len(line) {
				return nil, errors.New("it ends with a backslash")
			}
			in = true
			word.WriteByte(line[i])
		case '\'', '"':
			in = true
			for i++; ; i++ {
				if i >= len(line) {
					return nil, fmt.Errorf("a quote (%c) is not closed", c)
				}
				if line[i] == c {
					break
				}
				if c == '"' && line[i] == '\\' && i+1 < len(line) && strings.IndexByte(`"\$`+"`", line[i+1]) >= 0 {
					i++
				}
				word.WriteByte(line[i])
			}
		case ';', '&', '|', '<', '>', '`', '(', ')':
			return nil, fmt.Errorf("%c is for a shell; write sh -c '...'", c)
		default:
			in = true
			word.WriteByte(c)
		}
	}
	end()
	if len(all) == 0 {
		return nil, errors.New("it is empty")
	}
	return all, nil
}
