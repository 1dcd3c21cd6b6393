package ident

import (
	"bytes"
	"container/heap"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/store"
)

const (
	// MaxTokens bounds the tokens kept; beyond it the token that would end first makes room.
	MaxTokens = 1 << 16
	// sweepTokens is how many that have ended one new token takes away: more than one, so that their number goes down.
	sweepTokens = 64
	// maxTTLMs is a hundred years.
	maxTTLMs = 100 * 365 * 86400 * 1000
)

// Token is one token's record; read only except for Touching.
type Token struct {
	User string
	// TTLMs is how long it lives unused, DeadlineMs when it ends, both in milliseconds of the cluster tick.
	TTLMs, DeadlineMs int64
	// Touching belongs to the door that serves the token: it has a TokenTouch under way. The machine never looks at it.
	Touching atomic.Bool
}

// tokens is all tokens. An entry's changes show at once and not in Publish. No client knows a token yet that is visible early, and a token
// that is removed early has ended anyway.
type tokens struct {
	mu     sync.RWMutex
	byHash map[[eident.TokenBytes]byte]*Token // guarded by mu; written by the apply goroutine alone

	// ends is ordered by deadline and then hash, so that every member takes away the same tokens. It may hold deadlines
	// that a touch has moved; they are passed over when they come up. Apply goroutine only.
	ends ends
}

type tokenEnd struct {
	deadlineMs int64
	hash       [eident.TokenBytes]byte
}

type ends []tokenEnd

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	if e[i].deadlineMs != e[j].deadlineMs {
		return e[i].deadlineMs < e[j].deadlineMs
	}
	return bytes.Compare(e[i].hash[:], e[j].hash[:]) < 0
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)   { *e = append(*e, x.(tokenEnd)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (t *tokens) get(hash [eident.TokenBytes]byte) (*Token, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	tok, ok := t.byHash[hash]
	return tok, ok
}

func (t *tokens) reset() { t.replace(map[[eident.TokenBytes]byte]*Token{}) }

// replace takes over what was loaded.
func (t *tokens) replace(all map[[eident.TokenBytes]byte]*Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHash = all
	t.ends = t.ends[:0]
	for hash, tok := range all { // any order: a heap of distinct elements
		t.ends = append(t.ends, tokenEnd{tok.DeadlineMs, hash})
	}
	heap.Init(&t.ends)
}

// first returns the token that ends first.
func (t *tokens) first() (tokenEnd, bool) {
	for len(t.ends) > 0 {
		e := t.ends[0]
		if tok := t.byHash[e.hash]; tok != nil && tok.DeadlineMs == e.deadlineMs {
			return e, true
		}
		heap.Pop(&t.ends)
	}
	return tokenEnd{}, false
}

func (t *tokens) remove(hash [eident.TokenBytes]byte, b store.Batch) {
	delete(t.byHash, hash)
	b.Delete(tokenKey(hash))
}

func (t *tokens) set(hash [eident.TokenBytes]byte, tok *Token, b store.Batch) {
	t.byHash[hash] = tok
	heap.Push(&t.ends, tokenEnd{tok.DeadlineMs, hash})
	b.Set(tokenKey(hash), appendToken(nil, tok))
}

// issue adds a token and takes away some that have ended. Nothing else removes them: a token that has ended gives no access and
// only takes memory, which does not justify a worker.
func (t *tokens) issue(st *entry.Stamp, n *eident.TokenIssue, b store.Batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range sweepTokens {
		e, ok := t.first()
		if !ok || e.deadlineMs > st.TickMs && len(t.byHash) < MaxTokens {
			break
		}
		t.remove(e.hash, b)
	}
	t.set(n.Token, &Token{User: n.User, TTLMs: int64(n.TTLMs), DeadlineMs: st.TickMs + int64(n.TTLMs)}, b)
}

// touch moves a deadline. A token that has ended stays ended.
func (t *tokens) touch(st *entry.Stamp, hash [eident.TokenBytes]byte, b store.Batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.byHash[hash]
	if old.DeadlineMs <= st.TickMs {
		return
	}
	t.set(hash, &Token{User: old.User, TTLMs: old.TTLMs, DeadlineMs: st.TickMs + old.TTLMs}, b)
}

// end removes the tokens for which which returns true.
func (t *tokens) end(b store.Batch, which func(*Token) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var gone [][eident.TokenBytes]byte
	for hash, tok := range t.byHash { // any order: sorted below
		if which(tok) {
			gone = append(gone, hash)
		}
	}
	slices.SortFunc(gone, func(a, b [eident.TokenBytes]byte) int { return bytes.Compare(a[:], b[:]) })
	for _, hash := range gone {
		t.remove(hash, b)
	}
}
