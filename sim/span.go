package sim

import (
	"bytes"
	"errors"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/node"
)

// span is an object of the archive, and where in it each of its entries ends.
type span struct {
	name   string
	object []byte
	first  uint64
	ends   []int
}

// shipped makes the objects of all entries, and goes on with the entries that are read from them.
func (b *shipBook) shipped() {
	tip := format.Tip{Cluster: 1, Timeline: b.w.opt.Seed, Last: 1, Term: 1} // the first state stands for entry 1
	b.pack(tip)
	read := make([]node.Entry, 0, len(b.entries))
	for i := range b.spans {
		s, err := format.DecodeSpan(b.spans[i].name, bytes.Clone(b.spans[i].object))
		if err == nil {
			err = s.Follows(tip)
		}
		if err != nil {
			b.w.fail(Diverged, "what was shipped cannot be read: %v", err)
		}
		for e := range s.Entries() {
			if was := b.entries[len(read)]; !e.Equal(format.Entry(was)) {
				b.w.fail(Diverged, "entry %d@%d of %d bytes was shipped, %d@%d of %d bytes read", was.Index, was.Term, len(was.Data),
					e.Index, e.Term, len(e.Data))
			}
			read = append(read, node.Entry(e))
		}
		tip = s.Tip()
	}
	if len(read) != len(b.entries) {
		b.w.fail(Diverged, "%d entries were shipped, %d read", len(b.entries), len(read))
	}
	b.entries = read
}

// pack makes spans of all entries, which the seed cuts.
func (b *shipBook) pack(after format.Tip) {
	enc, s := format.NewEncoder(after, 1<<(8+b.r.IntN(14))), span{first: after.Last + 1}
	finish := func() {
		s.name, s.object = enc.Finish(b.w.states.at[enc.Tip().Last].hash)
		b.spans, s = append(b.spans, s), span{first: enc.Tip().Last + 1}
	}
	for i := range b.entries {
		e := format.Entry(b.entries[i])
		ok, err := enc.Append(e)
		if err == nil && !ok {
			finish()
			_, err = enc.Append(e) // an empty span has room for any entry
		}
		if err != nil {
			b.w.fail(Diverged, "entry %d cannot be shipped: %v", e.Index, err)
		}
		s.ends = append(s.ends, enc.Len()-format.SpanEndBytes)
	}
	finish()
}

// spoilSpan changes one byte of the shipped objects, and fails the run if that is not named: by its entry, if it is in one.
func (b *shipBook) spoilSpan() {
	s := &b.spans[b.r.IntN(len(b.spans))]
	bad := bytes.Clone(s.object)
	off := b.r.IntN(len(bad))
	bad[off] ^= byte(1 + b.r.IntN(255))
	var index uint64
	for i, begin := 0, format.SpanHeadBytes; i < len(s.ends); i, begin = i+1, s.ends[i] {
		if begin <= off && off < s.ends[i] {
			index = s.first + uint64(i)
		}
	}
	var at *format.Fault
	if _, err := format.DecodeSpan(s.name, bad); !errors.As(err, &at) || at.Index != index {
		b.w.fail(Diverged, "byte %d of %s was changed, in entry %d (0: in none), and it says %v", off, s.name, index, err)
	}
}
