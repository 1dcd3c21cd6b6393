package saga

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/cmd/holdfast/cli"
)

// tokenFile is who may use the door: the file of --saga-tokens, a token in each line. Lines that are empty or begin with # say nothing.
// Each member has its own file. Its methods may be called from any goroutine.
type tokenFile struct {
	path string
	log  *slog.Logger
	// known has hashes: the time of a look-up tells nothing about how much of a guess was right.
	known atomic.Pointer[map[[sha256.Size]byte]struct{}]
	stop  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
}

const (
	// tokensAgain is the time between two looks at the file.
	tokensAgain = 500 * time.Millisecond
	// leastToken is how long a token must be: shorter ones can be guessed.
	leastToken = 16
)

// openTokens reads the file and goes on reading it until close.
func openTokens(path string, log *slog.Logger) (*tokenFile, error) {
	t := &tokenFile{path: path, log: log, stop: make(chan struct{})}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--saga-tokens %s: %s; give a file this user can read", path, cli.Reason(err))
	}
	known, err := parseTokens(b)
	if err != nil {
		return nil, fmt.Errorf("--saga-tokens %s:%w", path, err)
	}
	t.known.Store(&known)
	t.wg.Go(func() { t.watch(b) })
	return t, nil
}

func (t *tokenFile) close() {
	t.once.Do(func() { close(t.stop) })
	t.wg.Wait()
}

// has reports whether a line has the token.
func (t *tokenFile) has(token string) bool {
	_, ok := (*t.known.Load())[sha256.Sum256([]byte(token))]
	return ok
}

// watch takes in what the file becomes. If it cannot be read nothing changes: it may be being written.
func (t *tokenFile) watch(was []byte) {
	tick := time.NewTicker(tokensAgain)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
		}
		b, err := os.ReadFile(t.path)
		if err == nil && bytes.Equal(b, was) {
			continue
		}
		var known map[[sha256.Size]byte]struct{}
		if err == nil {
			known, err = parseTokens(b)
		}
		if err != nil {
			if err.Error() != told {
				told = err.Error()
				t.log.Warn("tokens are as they were: the file cannot be read", "file", t.path, "err", err)
			}
			continue
		}
		t.known.Store(&known)
		was, told = b, ""
		t.log.Info("tokens read", "file", t.path, "lines", len(known))
	}
}

// parseTokens reads the lines. The error begins with the number of the line it is about.
func parseTokens(b []byte) (map[[sha256.Size]byte]struct{}, error) {
	known := map[[sha256.Size]byte]struct{}{}
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
