package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/serve/cli"
)

// TokenFile is a file of a door's tokens that is read again within a second of a change. Each member has its own and judges by it, before
// anything is proposed. The door alone knows the meaning of a key and a value. Any goroutine.
type TokenFile[K comparable, V any] struct {
	path  string
	parse func(b []byte) (map[K]V, error)
	keep  func(lines, was map[K]V)
	log   *slog.Logger

	lines atomic.Pointer[map[K]V]
	stop  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
}

// tokensAgain is the time between two looks at the file.
const tokensAgain = 500 * time.Millisecond

// OpenTokens reads the file that flag names and goes on reading it until Close. An error of parse begins with the number of the line it is
// about. keep, unless it is nil, moves what goes on from the lines that were to those that come in their place, before they count.
func OpenTokens[K comparable, V any](flag, path string, parse func(b []byte) (map[K]V, error), keep func(lines, was map[K]V), log *slog.Logger) (*TokenFile[K, V], error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %s; give a file this user can read", flag, path, cli.Reason(err))
	}
	lines, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s %s:%w", flag, path, err)
	}
	t := &TokenFile[K, V]{path: path, parse: parse, keep: keep, log: log, stop: make(chan struct{})}
	t.lines.Store(&lines)
	t.wg.Go(func() { t.watch(b) })
	return t, nil
}

// Lines is the file's content. It is not to be changed.
func (t *TokenFile[K, V]) Lines() map[K]V { return *t.lines.Load() }

// Close ends the reading. It may be called again.
func (t *TokenFile[K, V]) Close() {
	t.once.Do(func() { close(t.stop) })
	t.wg.Wait()
}

// watch follows changes of the file. If it cannot be read nothing changes: it may be being written.
func (t *TokenFile[K, V]) watch(was []byte) {
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
		var lines map[K]V
		if err == nil {
			lines, err = t.parse(b)
		}
		if err != nil {
			if err.Error() != told {
				told = err.Error()
				t.log.Warn("tokens are as they were: the file cannot be read", "file", t.path, "err", err)
			}
			continue
		}
		if t.keep != nil {
			t.keep(lines, t.Lines())
		}
		t.lines.Store(&lines)
		was, told = b, ""
		t.log.Info("tokens read", "file", t.path, "lines", len(lines))
	}
}
