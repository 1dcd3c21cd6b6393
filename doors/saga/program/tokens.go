package program

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfastdb/holdfast/serve"
)

// tokenFile is the permitted tokens of the door: the file of --saga-tokens, a token in each line. It has hashes: the time of a look-up
// tells nothing about how much of a guess was right.
type tokenFile = serve.TokenFile[tokenHash, struct{}]

type tokenHash = [sha256.Size]byte

// leastToken is how long a token must be: shorter ones can be guessed.
const leastToken = 16

// hasToken reports whether a line of t has the token.
func hasToken(t *tokenFile, token string) bool {
	_, ok := t.Lines()[sha256.Sum256([]byte(token))]
	return ok
}

// parseTokens reads the lines. Those that are empty or begin with # say nothing.
func parseTokens(b []byte) (map[tokenHash]struct{}, error) {
	known := map[tokenHash]struct{}{}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case len(line) < leastToken || strings.ContainsAny(line, " \t"):
			return nil, fmt.Errorf("%d: a token is one word of %d characters or more; make one with `openssl rand -hex 24`", n, leastToken)
		}
		known[sha256.Sum256([]byte(line))] = struct{}{}
	}
	if len(known) == 0 {
		return nil, errors.New("1: no token; make one with `openssl rand -hex 24`")
	}
	return known, nil
}
