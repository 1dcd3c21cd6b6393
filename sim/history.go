package sim

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

type opKind uint8

const (
	opPut opKind = iota
	opCAS        // put if the key's mod revision is the expected one (0 = no such key), else read it
	opRead
	opDelete
)

// op is one operation of a client. Values are unique, so a value names the write it came from.
type op struct {
	client, n int
	kind      opKind
	key       string
	value     string
	expect    int64
	host      *host

	call, ret int64 // positions in the order of all calls and answers; ret 0: never answered
	answered  bool
	refused   bool // certainly without effect

	// The answer.
	rev     int64 // revision in the answer's header
	after   keyState
	success bool // of a CAS
	deleted int64
}

// keyState is the state of a key. The zero value is a key that was never written.
type keyState struct {
	value string
	mod   int64 // 0: does not exist
}

func stateOf(res *kvpart.RangeResult) keyState {
	if len(res.KVs) == 0 {
		return keyState{}
	}
	return keyState{string(res.KVs[0].Value), res.KVs[0].ModRevision}
}

// part is the command of a write.
func (o *op) part() *kvpart.Part {
	put := &kvpart.Put{Key: []byte(o.key), Value: []byte(o.value)}
	switch o.kind {
	case opPut:
		return &kvpart.Part{Put: put}
	case opCAS:
		return &kvpart.Part{Txn: &kvpart.Txn{
			Compare: []kvpart.Compare{{Key: []byte(o.key), Target: kvpart.CompareMod, Result: kvpart.CompareEqual, Int: o.expect}},
			Then:    []kvpart.Op{{Put: put}},
			Else:    []kvpart.Op{{Range: &kvpart.Range{Key: []byte(o.key)}}},
		}}
	}
	return &kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte(o.key)}}
}

// take reads the answer of a write.
func (o *op) take(body any) {
	switch b := body.(type) {
	case *kvpart.PutResult:
		o.rev, o.after = b.Revision, keyState{o.value, b.Revision}
	case *kvpart.DeleteResult:
		o.rev, o.deleted = b.Revision, b.Deleted
	case *kvpart.TxnResult:
		o.rev, o.success = b.Revision, b.Succeeded
		if b.Succeeded {
			o.after = keyState{o.value, b.Revision}
		} else {
			o.after = stateOf(b.Ops[0].Range)
		}
	}
}

// wrote reports whether an answered operation changed the key.
func (o *op) wrote() bool {
	return o.kind == opPut || o.kind == opCAS && o.success || o.kind == opDelete && o.deleted > 0
}

func (o *op) String() string {
	var s string
	switch o.kind {
	case opPut:
		s = fmt.Sprintf("kv.put %s=%s", o.key, o.value)
	case opCAS:
		s = fmt.Sprintf("kv.cas %s@%d=%s", o.key, o.expect, o.value)
	case opRead:
		s = "kv.range " + o.key
	case opDelete:
		s = "kv.delete " + o.key
	}
	if !o.answered {
		return s
	}
	switch o.kind {
	case opCAS:
		s += fmt.Sprintf(": %v", o.success)
	case opDelete:
		s += fmt.Sprintf(": %d", o.deleted)
	}
	if o.kind == opRead || o.kind == opCAS && !o.success {
		s += fmt.Sprintf(" = %q mod %d", o.after.value, o.after.mod)
	}
	return fmt.Sprintf("%s, revision %d", s, o.rev)
}

// history is everything the clients did.
type history struct {
	ops   []*op
	order int64
	// acked is the highest revision any client was told; told[i] is its value after the first i calls and answers.
	acked int64
	floor map[*op]int64 // acked when the operation began
}

func (h *history) begin(w *World, o *op) {
	if h.floor == nil {
		h.floor = map[*op]int64{}
	}
	h.order++
	o.call = h.order
	h.ops = append(h.ops, o)
	h.floor[o] = h.acked
}

// end records an answer and checks at once all that needs no search. An operation that began after another was answered may not have a
// smaller revision.
func (h *history) end(w *World, o *op) {
	h.order++
	o.ret, o.answered = h.order, true
	w.rep.Answered++
	if floor := h.floor[o]; o.rev < floor || o.wrote() && o.rev == floor {
		w.fail(Revisions, "c%d was told revision %d by %s (%s), although revision %d had been told before it asked", o.client, o.rev,
			o.host.name, o, floor)
	}
	h.acked = max(h.acked, o.rev)
}

// check looks for lost writes and then for an order that explains the history, key by key. final maps each value in the
// members' common history at the end of the run to its revision.
func (h *history) check(w *World, final map[string]int64) {
	byKey := map[string][]porcupine.Operation{}
	for _, o := range h.ops {
		if o.refused {
			continue
		}
		in := *o
		if !o.answered {
			if o.kind == opRead {
				continue // a read without an answer tells nothing
			}
			if o.kind != opDelete {
				rev, took := final[o.value]
				if !took {
					continue // it never took effect; a read that saw its value would have no explanation
				}
				in.rev, in.success, in.after = rev, true, keyState{o.value, rev}
			}
		} else if o.kind != opDelete && o.wrote() {
			if rev, ok := final[o.value]; !ok || rev != o.rev {
				w.fail(LostWrite, "c%d was told by %s: %s; the final history has revision %d for it (0 = nothing)", o.client, o.host.name, o, rev)
			}
		}
		ret := o.ret
		if !o.answered {
			ret = math.MaxInt64
		}
		byKey[o.key] = append(byKey[o.key], porcupine.Operation{ClientId: o.client, Input: &in, Call: o.call, Output: &in, Return: ret})
	}
	keys := make([]string, 0, len(byKey))
	for k := range byKey {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		switch porcupine.CheckOperationsTimeout(keyModel, byKey[k], checkTime) {
		case porcupine.Unknown:
			w.fail(Undecided, "no order found for the %d operations on %s in %v, and none excluded", len(byKey[k]), k, checkTime)
		case porcupine.Illegal:
			text := ""
			for _, o := range byKey[k] {
				in := o.Input.(*op)
				text += fmt.Sprintf("\n  [%d, %d] c%d %s %s", o.Call, in.ret, in.client, in.host.name, in)
			}
			w.fail(Linearizability, "no order explains the operations on %s:%s", k, text)
		}
	}
}

// checkTime bounds the search in real time. Since revisions are known there is little to search; a run that needs all of it
// fails as Undecided.
const checkTime = 5 * time.Minute

// keyModel is one key as a sequential object. Revisions are part of it: a key's writes have rising revisions, and an
// answer's revision is never below that of the key's last change.
var keyModel = porcupine.Model{
	Init: func() any { return modelState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, o := state.(modelState), input.(*op)
		switch {
		case o.kind == opDelete && !o.answered:
			return true, modelState{last: s.last}
		case o.rev < s.last:
			return false, s
		case o.kind == opRead:
			return o.after == s.keyState, s
		case o.kind == opCAS && !o.success:
			return s.mod != o.expect && o.after == s.keyState, s
		case o.kind == opCAS && s.mod != o.expect:
			return false, s
		case o.kind == opDelete && o.deleted == 0:
			return s.mod == 0, s
		case o.rev == s.last:
			return false, s
		case o.kind == opDelete:
			return s.mod != 0, modelState{last: o.rev}
		}
		return true, modelState{o.after, o.rev}
	},
}

// modelState is a key with the revision of its last known change.
type modelState struct {
	keyState
	last int64
}
