package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// repr is a batch's operations; a value of nil is a delete.
func repr(pairs ...[2][]byte) (ops []byte) {
	for _, p := range pairs {
		if p[1] == nil {
			ops = append(ops, kindDelete)
		} else {
			ops = append(ops, kindSet)
		}
		ops = append(binary.AppendUvarint(ops, uint64(len(p[0]))), p[0]...)
		if p[1] != nil {
			ops = append(binary.AppendUvarint(ops, uint64(len(p[1]))), p[1]...)
		}
	}
	return ops
}

// keysOf lists an operation's key and value each, in order.
func keysOf(t *testing.T, ops []byte) (keys [][]byte, all []string) {
	t.Helper()
	for at := 0; at < len(ops); {
		op, ok := operationAt(ops, at)
		if !ok {
			t.Fatalf("no operation at %d", at)
		}
		keys = append(keys, op.key(ops))
		all = append(all, string(ops[op.from:op.to]))
		at = op.to
	}
	return keys, all
}

// TestArrangeADelete: what a machine writes for a delete of many keys comes out in order.
func TestArrangeADelete(t *testing.T) {
	var pairs [][2][]byte
	for i := range 100 {
		pairs = append(pairs, [2][]byte{fmt.Appendf(nil, "kk%03d/2", i), []byte("the version before")}, [2][]byte{fmt.Appendf(nil, "kk%03d/1", i), {4}})
	}
	for i := range 100 {
		pairs = append(pairs, [2][]byte{fmt.Appendf(nil, "kr%03d", i), []byte("change")})
	}
	for i := range 100 {
		pairs = append(pairs, [2][]byte{fmt.Appendf(nil, "kc%03d", i), nil})
	}
	pairs = append(pairs, [2][]byte{[]byte("ks"), []byte("sums")}, [2][]byte{[]byte("\x00state"), []byte("s")}, [2][]byte{[]byte("\x00applied"), []byte("a")})
	wantInOrder(t, pairs)

	// Swept, beside commands of other keys on both sides.
	pairs = pairs[:200]
	for i, key := range []string{"kk000/1a", "kk050/1a", "kk9", "kr000a", "kr100", "kc0", "kc05", "ks"} {
		pairs = append(pairs, [2][]byte{[]byte(key), {byte(i)}})
	}
	wantInOrder(t, pairs)
}

func wantInOrder(t *testing.T, pairs [][2][]byte) {
	t.Helper()
	ranged := []byte{opDeleteRange, 2, 'k', 'c', 2, 'k', 'd'} // what a sweep begins with
	all := append(slices.Clone(ranged), repr(pairs...)...)
	ops := all[len(ranged):]
	_, before := keysOf(t, ops)
	arrange(all)
	if !bytes.Equal(all[:len(ranged)], ranged) {
		t.Error("the deleted range is not in front any more")
	}
	keys, after := keysOf(t, ops)
	if !slices.IsSortedFunc(keys, bytes.Compare) {
		t.Errorf("not in order: %q", keys)
	}
	slices.Sort(before)
	slices.Sort(after)
	if !slices.Equal(before, after) {
		t.Error("the operations are not the same")
	}
}

// TestArrangeChangesNothing: for any order of the calls, a huge batch leaves the rows it would leave as a small one.
func TestArrangeChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for round := range 300 {
		plain, huge := NewMem(), openTest(t, vfs.NewMem(), Options{MemtableBytes: 64 << 10})
		for index := range uint64(3) {
			a, b := plain.NewBatch(), huge.NewBatch()
			order := r.IntN(6)
			if round%3 == 0 { // of all that is there, and of what follows nothing
				a.DeleteRange([]byte("kc"), []byte("kr050"))
				b.DeleteRange([]byte("kc"), []byte("kr050"))
			}
			for i := range 100 {
				n := i
				switch order {
				case 0:
					n = i ^ 1
				case 1:
					n = r.IntN(50)
				case 2: // stretches that each begin below their predecessor and reach into it
					n = i%20 + 10 - i/20*2
				case 3: // the same among many
					n = i%25*4 - i/25
				case 4: // with keys that come again
					n = i % 25
				}
				key := fmt.Appendf(nil, "%c%c%03d", 'k', "kcr"[i*3/100], n)
				switch k := r.IntN(100); {
				case k < 30:
					a.Delete(key)
					b.Delete(key)
				case k == 99 && round%2 == 0:
					a.DeleteRange(key, append(key, 'x'))
					b.DeleteRange(key, append(key, 'x'))
				default:
					value := bytes.Repeat([]byte{byte(i)}, 500+r.IntN(500))
					a.Set(key, value)
					b.Set(key, value)
				}
			}
			if !bytes.Equal(a.Repr(), b.Repr()) {
				t.Fatal("the batches differ before they are committed")
			}
			if err := plain.Commit(a, index+1); err != nil {
				t.Fatal(err)
			}
			if err := huge.Commit(b, index+1); err != nil {
				t.Fatal(err)
			}
			if want, got := dump(t, plain), dump(t, huge); !slices.Equal(want, got) {
				t.Fatalf("round %d: rows differ", round)
			}
		}
		if err := huge.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
