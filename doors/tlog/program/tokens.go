package program

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// tokenFile has the permissions to add to transparency logs: the file of --tlog-tokens, a line for each, LOG TOKEN [BYTES/s] [MAXBYTES].
// Its methods may be called from any goroutine.
type tokenFile struct {
	*serve.TokenFile[tokenKey, *tokenLine]
	logOf func(name string) *tlogmachine.Log
	now   func() time.Time

	mu   sync.Mutex
	used map[string]*usedBytes // guarded by mu: of each log with a quota
}

// tokenKey is a log and the hash of a token. With a hash, the time of a look-up does not reveal how much of a guess was right.
type tokenKey struct {
	log   string
	token [sha256.Size]byte
}

// tokenLine is what one line allows.
type tokenLine struct {
	rate, most int64 // bytes a second, and of the log altogether; 0 = no limit

	mu    sync.Mutex
	room  float64   // guarded by mu: bytes that may be added now
	since time.Time // guarded by mu: when that was so
}

// openTokens reads the file and goes on reading it until Close.
func openTokens(path string, logOf func(name string) *tlogmachine.Log, log *slog.Logger) (*tokenFile, error) {
	file, err := serve.OpenTokens("--tlog-tokens", path, parseTokens, keepUsed, log)
	if err != nil {
		return nil, err
	}
	return &tokenFile{TokenFile: file, logOf: logOf, now: time.Now, used: map[string]*usedBytes{}}, nil
}

// names lists the logs that the lines name, each once.
func (t *tokenFile) names() []string {
	all := map[string]bool{}
	for k := range t.Lines() { // any order: sorted below
		all[k.log] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// keepUsed lets lines that have not changed keep what they have used of their rate.
func keepUsed(lines, was map[tokenKey]*tokenLine) {
	for k, l := range lines { // any order: each stands for itself
		if o := was[k]; o != nil && o.rate == l.rate && o.most == l.most {
			lines[k] = o
		}
	}
}

// parseTokens reads the lines. Empty ones and those that begin with # say nothing.
func parseTokens(b []byte) (map[tokenKey]*tokenLine, error) {
	out := map[tokenKey]*tokenLine{}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) < 2 || len(f) > 4 || !tlogpart.ValidName(f[0]) {
			return nil, fmt.Errorf("%d: write LOG TOKEN [BYTES/s] [MAXBYTES]", n)
		}
		l := &tokenLine{}
		for i, to := range []*int64{&l.rate, &l.most} {
			if len(f) <= 2+i {
				break
			}
			if err := cli.SetSize(to, strings.TrimSuffix(f[2+i], "/s")); err != nil {
				return nil, fmt.Errorf("%d: %s: %w, or 0 for no limit", n, f[2+i], err)
			}
		}
		k := tokenKey{f[0], sha256.Sum256([]byte(f[1]))}
		if out[k] != nil {
			return nil, fmt.Errorf("%d: a line for the same log and token stands above; remove one", n)
		}
		out[k] = l
	}
	return out, nil
}

// admit implements tlog.Options.Admit.
func (t *tokenFile) admit(log, authorization string, n int) (code int, text string, done func()) {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return 401, "adding to this log needs a token; send it in the header Authorization: Bearer TOKEN", nil
	}
	line := t.Lines()[tokenKey{log, sha256.Sum256([]byte(strings.TrimSpace(token)))}]
	if line == nil {
		return 401, "this token is not one of this log's; ask the operator for one", nil
	}
	if line.most > 0 {
		l := t.logOf(log)
		if l == nil {
			return 0, "", nil // the door answers for a log that does not exist
		}
		u := t.usedOf(log)
		if err := u.take(l, int64(n), line.most); err != nil {
			return 507, err.Error(), nil
		}
		done = func() { u.flying.Add(-int64(n)) }
	}
	if !line.take(t.now(), n) {
		if done != nil {
			done()
		}
		return 429, fmt.Sprintf("this token may add %s a second; send less at once", cli.SizeString(line.rate)), nil
	}
	return 0, "", done
}

// take takes n bytes from the quota of the moment; false: there are not as many. An entry of any length fits a second's worth.
func (l *tokenLine) take(now time.Time, n int) bool {
	if l.rate == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	most := float64(max(l.rate, tiles.MaxEntryBytes))
	if l.since.IsZero() {
		l.room = most
	} else {
		l.room = min(most, l.room+now.Sub(l.since).Seconds()*float64(l.rate))
	}
	l.since = now
	if l.room < float64(n) {
		return false
	}
	l.room -= float64(n)
	return true
}

// usedBytes counts the entries of a log, which other members add to as well: it reads the log.
type usedBytes struct {
	flying atomic.Int64 // of entries whose adds are under way here

	mu      sync.Mutex
	bundles uint64 // full bundles that are counted; guarded by mu
	bytes   int64  // in them; guarded by mu
}

func (t *tokenFile) usedOf(log string) *usedBytes {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.used[log]
	if u == nil {
		u = &usedBytes{}
		t.used[log] = u
	}
	return u
}

// take notes n bytes as under way if the log has room for them.
func (u *usedBytes) take(l *tlogmachine.Log, n, most int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	size := l.View().Size
	for u.bundles < size/tiles.Width {
		b, err := l.Bundle(u.bundles, tiles.Width)
		if err != nil {
			return fmt.Errorf("the log's entries cannot be counted: %w", err)
		}
		u.bytes += int64(len(b)) - 2*tiles.Width // each has its length before it
		u.bundles++
	}
	used := u.bytes
	if width := int(size % tiles.Width); width > 0 && size/tiles.Width == u.bundles {
		b, err := l.Bundle(u.bundles, width)
		if err != nil {
			return fmt.Errorf("the log's entries cannot be counted: %w", err)
		}
		used += int64(len(b)) - 2*int64(width)
	}
	if used+u.flying.Load()+n > most {
		return fmt.Errorf("the log has %s of entries and this token may fill it to %s; ask the operator for more", cli.SizeString(used), cli.SizeString(most))
	}
	u.flying.Add(n)
	return nil
}
