package part

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// ops are the ops that have a number in encodings, their place here. Numbers are never reused. 0 stands before any other word.
var ops = [...]string{"", OpAction, OpCompensate, OpConfirm, OpCancel, OpCommit, OpRollback}

// opNumber is a word's number, 0 if it has none.
func opNumber(word string) byte {
	for i := 1; i < len(ops); i++ {
		if ops[i] == word {
			return byte(i)
		}
	}
	return 0
}

// AppendBranches appends the encoding of branches, the same in a part and in the store. It has the branches, and behind them the payloads,
// each once and in the order of their first use. There is no number of payloads: it is the highest that a branch names.
func AppendBranches(dst []byte, all []Branch) []byte {
	t := table{of: all}
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for i := range all {
		b := &all[i]
		op := opNumber(b.Op)
		dst = append(dst, byte(max(b.Status, Prepared)), op)
		if op == 0 {
			dst = wire.AppendBytes(dst, b.Op)
		}
		dst = wire.AppendBytes(dst, b.ID)
		dst = wire.AppendBytes(dst, b.URL)
		dst = binary.AppendUvarint(dst, uint64(t.place(i)))
	}
	for _, i := range t.first {
		dst = wire.AppendBytes(dst, all[i].Payload)
	}
	return dst
}

// table finds payloads that were there before.
type table struct {
	of     []Branch
	first  []int              // the branch that had the n-th payload first
	hashes map[uint64][]int32 // places from 1, by hash; nil while there are few
}

// fewPayloads are compared one by one.
const fewPayloads = 8

var seed = maphash.MakeSeed() // any: only payloads that are equal get one place

// place returns which payload, from 1, the i-th branch has; 0: none.
func (t *table) place(i int) int {
	payload := t.of[i].Payload
	if len(payload) == 0 {
		return 0
	}
	if t.hashes == nil {
		for n, j := range t.first {
			if bytes.Equal(t.of[j].Payload, payload) {
				return n + 1
			}
		}
		t.first = append(t.first, i)
		if len(t.first) > fewPayloads {
			t.hashes = map[uint64][]int32{}
			for n, j := range t.first {
				h := maphash.Bytes(seed, t.of[j].Payload)
				t.hashes[h] = append(t.hashes[h], int32(n+1))
			}
		}
		return len(t.first)
	}
	h := maphash.Bytes(seed, payload)
	for _, n := range t.hashes[h] {
		if bytes.Equal(t.of[t.first[n-1]].Payload, payload) {
			return int(n)
		}
	}
	t.first = append(t.first, i)
	t.hashes[h] = append(t.hashes[h], int32(len(t.first)))
	return len(t.first)
}

// TakeBranches decodes branches from the front of b, appends them to dst and returns what is left. Payloads alias b; texts do not.
func TakeBranches(dst []Branch, b []byte) (all []Branch, rest []byte, err error) {
	r := newReader(b)
	all = r.branches(dst)
	if err := r.Err(); err != nil {
		return nil, nil, fmt.Errorf("decode branches: %w", err)
	}
	return all, r.Rest(), nil
}

func (r *reader) branches(dst []Branch) []Branch {
	n := r.Count(MaxBranches, 5)
	if n == 0 {
		return dst
	}
	if dst == nil {
		dst = make([]Branch, 0, n)
	}
	from, most := len(dst), 0
	places := make([]uint16, n)
	for i := range n {
		var b Branch
		b.Status = r.branchStatus()
		switch op := r.Byte(); {
		case int(op) >= len(ops):
			r.Fail(ErrWord)
		case op > 0:
			b.Op = ops[op]
		default:
			if b.Op = r.name(1, MaxGidBytes); opNumber(b.Op) != 0 {
				r.Fail(fmt.Errorf("op %s as a word: %w", b.Op, ErrForm))
			}
		}
		b.ID, b.URL = r.name(0, MaxGidBytes), r.name(0, MaxURLBytes)
		place := r.Uvarint()
		if place > uint64(most)+1 {
			r.Fail(fmt.Errorf("payload %d after %d: %w", place, most, ErrForm))
			return dst
		}
		most = max(most, int(place))
		places[i] = uint16(place)
		dst = append(dst, b)
	}
	payloads := make([][]byte, most)
	for i := range payloads {
		payloads[i] = r.Bytes()
		if len(payloads[i]) == 0 || len(payloads[i]) > MaxPayload {
			r.Fail(fmt.Errorf("payload of %d bytes: %w", len(payloads[i]), ErrForm))
		}
	}
	for i, place := range places {
		if place > 0 {
			dst[from+i].Payload = payloads[place-1]
		}
	}
	return dst
}
