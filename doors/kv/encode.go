package kv

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// The encoders below write etcd's answers in the very bytes protobuf would: fields in order of their numbers, zero
// values left out. Each append function has a size function beside it, because a nested message is preceded by its
// length.

// header is etcd's ResponseHeader. A zero header is still written (as an empty message) where etcd sends one.
type header struct {
	cluster, member uint64
	revision        int64
	term            uint64
}

func sizeUint(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

func sizeBool(v bool) int {
	if v {
		return 2
	}
	return 0
}

// sizeMessage is the size of a length-delimited field (number up to 15) of n bytes.
func sizeMessage(n int) int { return 1 + protowire.SizeBytes(n) }

func sizeBytes(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	return sizeMessage(len(b))
}

func appendUint(b []byte, id byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, id<<3), v)
}

func appendBool(b []byte, id byte, v bool) []byte {
	if !v {
		return b
	}
	return append(b, id<<3, 1)
}

func appendLen(b []byte, id byte, n int) []byte {
	return protowire.AppendVarint(append(b, id<<3|byte(protowire.BytesType)), uint64(n))
}

func appendBytes(b []byte, id byte, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return append(appendLen(b, id, len(v)), v...)
}

func (h *header) size() int {
	return sizeUint(h.cluster) + sizeUint(h.member) + sizeUint(uint64(h.revision)) + sizeUint(h.term)
}

// append writes the header as field 1 of its message.
func (h *header) append(b []byte) []byte {
	b = appendLen(b, 1, h.size())
	b = appendUint(b, 1, h.cluster)
	b = appendUint(b, 2, h.member)
	b = appendUint(b, 3, uint64(h.revision))
	return appendUint(b, 4, h.term)
}

func sizeKV(kv *kvpart.KeyValue) int {
	return sizeBytes(kv.Key) + sizeUint(uint64(kv.CreateRevision)) + sizeUint(uint64(kv.ModRevision)) +
		sizeUint(uint64(kv.Version)) + sizeBytes(kv.Value) + sizeUint(uint64(kv.Lease))
}

// appendKV writes kv as the length-delimited field id.
func appendKV(b []byte, id byte, kv *kvpart.KeyValue) []byte {
	b = appendBytes(appendFront(b, id, kv), 5, kv.Value)
	return appendUint(b, 6, uint64(kv.Lease))
}

// appendFront writes what comes before kv's value.
func appendFront(b []byte, id byte, kv *kvpart.KeyValue) []byte {
	b = appendLen(b, id, sizeKV(kv))
	b = appendBytes(b, 1, kv.Key)
	b = appendUint(b, 2, uint64(kv.CreateRevision))
	b = appendUint(b, 3, uint64(kv.ModRevision))
	return appendUint(b, 4, uint64(kv.Version))
}

func sizeKVs(kvs []kvpart.KeyValue) (n int) {
	for i := range kvs {
		n += sizeMessage(sizeKV(&kvs[i]))
	}
	return n
}

func appendKVs(b []byte, id byte, kvs []kvpart.KeyValue) []byte {
	for i := range kvs {
		b = appendKV(b, id, &kvs[i])
	}
	return b
}

// message is an answer that writes itself; the codec calls size once and append with a buffer of that capacity.
type message interface {
	size() int
	append(b []byte) []byte
}

// marshal encodes m into one buffer, pooled when it is large enough for grpc's pool to pay. r is the room a large answer
// takes, nil for others.
func marshal(m message, r *room) mem.BufferSlice {
	if a, ok := m.(*rangeAnswer); ok {
		if parts := a.apart(r); parts != nil {
			return parts
		}
	}
	n := m.size()
	var from mem.BufferPool = pool
	switch {
	case r != nil:
		from = r
	case mem.IsBelowBufferPoolingThreshold(n):
		return mem.BufferSlice{mem.SliceBuffer(m.append(make([]byte, 0, n)))}
	}
	buf := from.Get(n)
	*buf = m.append((*buf)[:0])
	return mem.BufferSlice{mem.NewBuffer(buf, from)}
}

// isApart reports whether a value is sent from where it lies, as a part of its own. A copy of a smaller value costs less than the part, and
// the transport does not report when it releases a copy.
func isApart(value []byte) bool { return !mem.IsBelowBufferPoolingThreshold(len(value)) }

// apart encodes an answer around its large values, which stay where they are; nil: it has none. The values are the answer's own memory, or
// are never changed.
func (a *rangeAnswer) apart(r *room) mem.BufferSlice {
	kvs, large, inside := a.result.KVs, 0, 0
	for i := range kvs {
		if isApart(kvs[i].Value) {
			large++
			inside += len(kvs[i].Value)
		}
	}
	if large == 0 {
		return nil
	}
	parts := make(mem.BufferSlice, 0, 2*large+1)
	b := make([]byte, 0, a.size()-inside)
	from := 0
	if !a.noHeader {
		b = a.header.append(b)
	}
	for i := range kvs {
		kv := &kvs[i]
		if !isApart(kv.Value) {
			b = appendKV(b, 2, kv)
			continue
		}
		b = appendLen(appendFront(b, 2, kv), 5, len(kv.Value))
		parts = append(parts, mem.SliceBuffer(b[from:len(b):len(b)]), mem.SliceBuffer(kv.Value))
		from = len(b)
		b = appendUint(b, 6, uint64(kv.Lease))
	}
	b = appendBool(b, 3, a.result.More)
	b = appendUint(b, 4, uint64(a.result.Count))
	if r != nil { // given back with the last value: the parts are sent in order, or all released together
		last := &parts[len(parts)-1]
		value := (*last).ReadOnlyData()
		*last = mem.NewBuffer(&value, lent{r})
	}
	return append(parts, mem.SliceBuffer(b[from:]))
}

// putAnswer is a PutResponse.
type putAnswer struct {
	header
	prev *kvpart.KeyValue
}

func (a *putAnswer) size() int {
	n := sizeMessage(a.header.size())
	if a.prev != nil {
		n += sizeMessage(sizeKV(a.prev))
	}
	return n
}

func (a *putAnswer) append(b []byte) []byte {
	b = a.header.append(b)
	if a.prev != nil {
		b = appendKV(b, 2, a.prev)
	}
	return b
}

// rangeAnswer is a RangeResponse. noHeader leaves the header out: all chunks of a RangeStream but the last.
type rangeAnswer struct {
	header
	noHeader bool
	result   *kvpart.RangeResult
}

func (a *rangeAnswer) size() int {
	n := sizeKVs(a.result.KVs) + sizeBool(a.result.More) + sizeUint(uint64(a.result.Count))
	if !a.noHeader {
		n += sizeMessage(a.header.size())
	}
	return n
}

func (a *rangeAnswer) append(b []byte) []byte {
	if !a.noHeader {
		b = a.header.append(b)
	}
	b = appendKVs(b, 2, a.result.KVs)
	b = appendBool(b, 3, a.result.More)
	return appendUint(b, 4, uint64(a.result.Count))
}

// rangeStreamAnswer is a RangeStreamResponse: a RangeResponse in field 1.
type rangeStreamAnswer struct {
	rangeAnswer
	room *room // nil: it needs none, or its handler holds it
}

func (a *rangeStreamAnswer) size() int { return sizeMessage(a.rangeAnswer.size()) }

func (a *rangeStreamAnswer) append(b []byte) []byte {
	return a.rangeAnswer.append(appendLen(b, 1, a.rangeAnswer.size()))
}

// deleteAnswer is a DeleteRangeResponse.
type deleteAnswer struct {
	header
	result *kvpart.DeleteResult
}

func (a *deleteAnswer) size() int {
	n := sizeMessage(a.header.size()) + sizeUint(uint64(a.result.Deleted))
	return n + sizeKVs(a.result.Prevs)
}

func (a *deleteAnswer) append(b []byte) []byte {
	b = a.header.append(b)
	b = appendUint(b, 2, uint64(a.result.Deleted))
	return appendKVs(b, 3, a.result.Prevs)
}

// txnAnswer is a TxnResponse. etcd fills only the outermost header; those of the operations inside carry a revision
// alone, and those of nested transactions nothing.
type txnAnswer struct {
	header
	succeeded bool
	ops       []message // one of the answers above or a *txnAnswer each
	kinds     []byte    // field number of each in ResponseOp
	opSizes   []int     // filled by size
	room      *room
}

func (a *txnAnswer) size() int {
	n := sizeMessage(a.header.size()) + sizeBool(a.succeeded)
	a.opSizes = a.opSizes[:0]
	for _, op := range a.ops {
		s := op.size()
		a.opSizes = append(a.opSizes, s)
		n += sizeMessage(sizeMessage(s))
	}
	return n
}

func (a *txnAnswer) append(b []byte) []byte {
	b = a.header.append(b)
	b = appendBool(b, 2, a.succeeded)
	for i, op := range a.ops {
		b = appendLen(b, 3, sizeMessage(a.opSizes[i]))
		b = appendLen(b, a.kinds[i], a.opSizes[i])
		b = op.append(b)
	}
	return b
}

// answerTxn arranges res for encoding.
func answerTxn(h header, res *kvpart.TxnResult) *txnAnswer {
	a := &txnAnswer{header: h, succeeded: res.Succeeded}
	a.ops = make([]message, 0, len(res.Ops))
	a.kinds = make([]byte, 0, len(res.Ops))
	for i := range res.Ops {
		switch op := &res.Ops[i]; {
		case op.Range != nil:
			a.add(1, &rangeAnswer{header: header{revision: op.Range.Revision}, result: op.Range})
		case op.Put != nil:
			a.add(2, &putAnswer{header: header{revision: op.Put.Revision}, prev: op.Put.Prev})
		case op.Delete != nil:
			a.add(3, &deleteAnswer{header: header{revision: op.Delete.Revision}, result: op.Delete})
		case op.Txn != nil:
			a.add(4, answerTxn(header{}, op.Txn))
		}
	}
	return a
}

func (a *txnAnswer) add(kind byte, m message) {
	a.kinds = append(a.kinds, kind)
	a.ops = append(a.ops, m)
}

// sizeEvent and appendEvent write one mvccpb.Event as field 11 of a WatchResponse.
func sizeEvent(e *kvmachine.Event, prev *kvpart.KeyValue) int {
	n := sizeUint(uint64(e.Type)) + sizeMessage(sizeKV(&e.KV))
	if prev != nil {
		n += sizeMessage(sizeKV(prev))
	}
	return n
}

func appendEvent(b []byte, e *kvmachine.Event, prev *kvpart.KeyValue) []byte {
	b = appendLen(b, 11, sizeEvent(e, prev))
	b = appendUint(b, 1, uint64(e.Type))
	b = appendKV(b, 2, &e.KV)
	if prev != nil {
		b = appendKV(b, 3, prev)
	}
	return b
}
