package tlog

import (
	"container/list"
	"sync"

	"github.com/valyala/fasthttp"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
)

// Packed keeps full bundles as gzip makes them, up to a number of bytes. A bundle never changes and every monitor of a log reads it.
// Compressing it for each of them was three quarters of the cost of serving it. The bundle that was asked for longest ago gives way. Its
// methods may be called from any goroutine; doors may share one.
type Packed struct {
	mu     sync.Mutex
	most   int64                       // guarded by mu
	held   int64                       // guarded by mu: bytes
	all    map[packedKey]*list.Element // guarded by mu
	recent *list.List                  // guarded by mu: of *packedBundle, the one asked for last at the front
}

type packedKey struct {
	log *tlogmachine.Log
	n   uint64
}

type packedBundle struct {
	key packedKey
	// body is nil for one that is sent as it is.
	body []byte
}

// packedOverhead is about what a bundle takes beside its bytes.
const packedOverhead = 200

// NewPacked makes room for so many bytes.
func NewPacked(bytes int64) *Packed {
	return &Packed{most: bytes, all: map[packedKey]*list.Element{}, recent: list.New()}
}

// get returns what is known of bundle n: its compressed form, nil if it is better sent as it is.
func (p *Packed) get(l *tlogmachine.Log, n uint64) (body []byte, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.all[packedKey{l, n}]
	if e == nil {
		return nil, false
	}
	p.recent.MoveToFront(e)
	return e.Value.(*packedBundle).body, true
}

// pack compresses bundle n, which is b, and keeps the result. It returns nil where that saves less than an eighth: the client's time to unpack it is
// worth more then. Hashes and ciphertexts are such entries.
func (p *Packed) pack(l *tlogmachine.Log, n uint64, b []byte) []byte {
	body := fasthttp.AppendGzipBytesLevel(make([]byte, 0, len(b)/2+64), b, fasthttp.CompressBestSpeed)
	if len(body) > len(b)-len(b)/8 {
		body = nil
	} else if cap(body) > len(body)+len(body)/8 {
		body = append(make([]byte, 0, len(body)), body...) // kept bodies are counted by their length
	}
	p.keep(&packedBundle{packedKey{l, n}, body})
	return body
}

func (p *Packed) keep(b *packedBundle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[b.key] != nil {
		return // another request was first
	}
	p.all[b.key] = p.recent.PushFront(b)
	p.held += b.weight()
	p.fit()
}

// Bound sets how many bytes are kept from now on.
func (p *Packed) Bound(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = bytes
	p.fit()
}

// Bytes is how many are kept.
func (p *Packed) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// fit drops what is beyond the bound. The caller holds mu.
func (p *Packed) fit() {
	for p.held > p.most {
		last := p.recent.Back()
		old := p.recent.Remove(last).(*packedBundle)
		delete(p.all, old.key)
		p.held -= old.weight()
	}
}

func (b *packedBundle) weight() int64 { return int64(len(b.body)) + packedOverhead }
