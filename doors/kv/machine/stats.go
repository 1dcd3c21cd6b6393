package machine

import (
	"math/bits"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// Stats counts what this process has done with the keys since it started. All fields are safe for concurrent use. They are no state:
// members may differ, and nothing the machine decides depends on them.
//
// The apply goroutine counts the effects of commands in plain numbers (tally) and shows them once per entry. So a put does not pay for an
// atomic addition per counter.
type Stats struct {
	Keys             atomic.Int64  // keys there are
	Puts, Deletes    atomic.Uint64 // operations carried out, those in Txns included
	PutBytes         atomic.Uint64 // keys and values of Puts
	Ranges           atomic.Uint64 // operations, of readers and in Txns
	Txns             atomic.Uint64 // of more than one operation, as etcd counts them
	Granted, Revoked atomic.Uint64 // leases
	Scrubbed         atomic.Uint64 // versions dropped by compactions
	CompactedAt      atomic.Int64  // Unix seconds of the last compaction applied; 0 = none
	// Compactions counts finished compactions, with their history dropped, by duration. Bucket i counts those of at most 100·2^i ms, the
	// last one all longer ones. CompactionMs is their total duration. Both go by the wall time in the log.
	Compactions  [CompactionBuckets]atomic.Uint64
	CompactionMs atomic.Uint64
	TTLSeconds   atomic.Uint64 // of all leases granted
	TTLs         [TTLBuckets]atomic.Uint64
}

// TTLBuckets is the number of buckets of Stats.TTLs. Bucket i counts leases granted for at most 2^i seconds and more than half of that, the
// last one all longer ones.
const TTLBuckets = 25

// CompactionBuckets is the number of buckets of Stats.Compactions.
const CompactionBuckets = 15

// Stats returns the counters, to read.
func (m *Machine) Stats() *Stats { return &m.stats }

// tally is the effects so far of the entry being applied. Apply goroutine only.
type tally struct {
	puts, deletes, putBytes, ranges, txns, scrubbed uint64
}

// countOps notes the operations of a plan that is carried out.
func (t *tally) countOps(p *plan) {
	deletes := uint64(len(p.deleted))
	t.puts += p.puts
	t.putBytes += p.putBytes
	t.deletes += deletes
	t.ranges += p.ranges
	if p.puts+deletes+p.ranges > 1 {
		t.txns++
	}
}

// publishTally shows what the entry did.
func (m *Machine) publishTally() {
	t, s := &m.tally, &m.stats
	if *t == (tally{}) {
		return
	}
	for _, c := range [...]struct {
		n  uint64
		to *atomic.Uint64
	}{{t.puts, &s.Puts}, {t.deletes, &s.Deletes}, {t.putBytes, &s.PutBytes}, {t.ranges, &s.Ranges}, {t.txns, &s.Txns}, {t.scrubbed, &s.Scrubbed}} {
		if c.n > 0 {
			c.to.Add(c.n)
		}
	}
	*t = tally{}
}

// granted and compacted count what is too rare to be tallied.
func (s *Stats) granted(ttl int64) {
	s.Granted.Add(1)
	s.TTLSeconds.Add(uint64(max(ttl, 0)))
	s.TTLs[min(bits.Len64(uint64(max(ttl, 1)-1)), TTLBuckets-1)].Add(1)
}

func (s *Stats) compacted(at *entry.Stamp) { s.CompactedAt.Store(at.WallNs / 1e9) }

// scrubbedAll counts a compaction that began and ended at these times of the log.
func (s *Stats) scrubbedAll(fromNs, toNs int64) {
	ms := uint64(max(toNs-fromNs, 0)) / 1e6
	s.CompactionMs.Add(ms)
	i, bound := 0, uint64(100)
	for i < CompactionBuckets-1 && ms > bound {
		i, bound = i+1, bound*2
	}
	s.Compactions[i].Add(1)
}

// countReads counts the Ranges of a Txn that only reads.
func (s *Stats) countReads(n int) {
	s.Ranges.Add(uint64(n))
	if n > 1 {
		s.Txns.Add(1)
	}
}

func rangesOf(res *kvpart.TxnResult) (n int) {
	for i := range res.Ops {
		switch op := &res.Ops[i]; {
		case op.Range != nil:
			n++
		case op.Txn != nil:
			n += rangesOf(op.Txn)
		}
	}
	return n
}
