package txn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

func keyOf(table, index uint64, key string) []byte {
	return append(sqlmachine.AppendPrefix(nil, table, index), key...)
}

// rowsOf are rows of a table in the store.
func rowsOf(t testing.TB, rows map[string]string) *store.Mem {
	t.Helper()
	st := store.NewMem()
	b := st.NewBatch()
	for key, value := range rows { // any order: a batch of different keys
		if sqlmachine.HasHead([]byte(key)) {
			value = string(binary.AppendUvarint(nil, 300)) + value
		}
		b.Set([]byte(key), []byte(value))
	}
	if err := st.Commit(b, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

// over returns an iterator over index 0 of table 1, as the transaction sees it.
func over(t testing.TB, b *Buffer, st *store.Mem) store.Iter {
	t.Helper()
	lower, upper := keyOf(1, 0, ""), sqlmachine.AppendEnd(nil, 1, 0)
	base, err := st.NewIter(lower, upper)
	if err != nil {
		t.Fatal(err)
	}
	return b.NewIter(base, lower, upper, nil)
}

// TestBuffer: what is written is laid over what is there, and is proposed as what it comes to.
func TestBuffer(t *testing.T) {
	t.Parallel()
	key := func(k string) []byte { return keyOf(1, 0, k) }
	st := rowsOf(t, map[string]string{string(key("b")): "old", string(key("d")): "gone", string(keyOf(1, 1, "x")): ""})
	b := NewBuffer(1 << 20)
	for _, err := range []error{
		b.Put(key("a"), []byte("1"), -1), b.Put(key("b"), []byte("new"), 3), b.Delete(key("d"), 4), b.Put(key("e"), []byte("5"), -1),
		b.Delete(key("e"), -1), b.Put(keyOf(2, 0, "z"), []byte("9"), -1), b.Delete(keyOf(1, 1, "x"), 0), b.Put(keyOf(1, 1, "y"), nil, -1),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	it := over(t, b, st)
	defer it.Close()
	var got []string
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s=%s", it.Key()[sqlmachine.PrefixBytes:], v))
	}
	if s := strings.Join(got, " "); s != "a=1 b=new" {
		t.Errorf("the transaction sees %s", s)
	}
	p := &sqlpart.Part{Kind: sqlpart.Commit, Tables: b.Writes()}
	const want = "table.commit table 1@0: 1 inserted, 1 updated, 1 deleted, 2 of indexes, 9 bytes over 34, table 2@0: 1 inserted, 0 updated, " +
		"0 deleted, 0 of indexes, 2 bytes over 0, +1 rows"
	if p.String() != want {
		t.Errorf("it proposes %s", p)
	}
	if v, deleted, known := b.Get(key("d")); !known || !deleted || v != nil {
		t.Errorf("a row that was deleted: %q %v %v", v, deleted, known)
	}
	if _, _, known := b.Get(key("c")); known {
		t.Error("a row that was not written is known")
	}
}

// TestTooLarge: a write beyond the bound leaves nothing, and there is room again after a rollback.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	b := NewBuffer(100)
	mark := b.Mark()
	if err := b.Put(keyOf(1, 0, "a"), make([]byte, 70), -1); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(keyOf(1, 0, "b"), make([]byte, 20), -1); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := b.Put(keyOf(1, 0, "a"), make([]byte, 90), -1); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := b.Put(keyOf(1, 0, "a"), make([]byte, 80), -1); err != nil {
		t.Errorf("a row that grows within the bound: %v", err)
	}
	b.Rollback(mark)
	if b.Bytes() != 0 || len(b.Writes()) != 0 {
		t.Errorf("%d bytes are left, %v", b.Bytes(), b.Writes())
	}
	if err := b.Put(keyOf(1, 0, "b"), make([]byte, 80), -1); err != nil {
		t.Error(err)
	}
}

// TestAgainstAModel: reads, walks in both directions, savepoints and what is proposed, beside a map.
func TestAgainstAModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		name := func() string { return fmt.Sprintf("%03d", r.IntN(1+int(seed)*4)) }
		base := map[string]string{}
		for range r.IntN(100) {
			base[string(keyOf(1, 0, name()))] = fmt.Sprint("stored", r.IntN(100))
		}
		st := rowsOf(t, base)
		b := NewBuffer(1 << 20)
		now := maps.Clone(base)
		type mark struct {
			at  int
			was map[string]string
		}
		var marks []mark
		it := over(t, b, st)
		at := "" // where the iterator stands
		for step := range 600 {
			key := string(keyOf(1, 0, name()))
			stored := -1
			if v, ok := base[key]; ok {
				stored = len(v)
			}
			keys := slices.Sorted(maps.Keys(now))
			var ok, want bool
			var wantKey string
			moved := true
			switch n := r.IntN(14); {
			case n < 3:
				value := fmt.Sprint("own", step)
				if err := b.Put([]byte(key), []byte(value), stored); err != nil {
					t.Fatal(err)
				}
				now[key] = value
				moved = false
			case n < 5:
				if err := b.Delete([]byte(key), stored); err != nil {
					t.Fatal(err)
				}
				delete(now, key)
				moved = false
			case n == 5:
				marks = append(marks, mark{b.Mark(), maps.Clone(now)})
				moved = false
			case n == 6 && len(marks) > 0:
				m := marks[len(marks)-1]
				marks = marks[:len(marks)-1]
				b.Rollback(m.at)
				now = m.was
				moved = false
			case n == 7:
				ok = it.First()
				if want = len(keys) > 0; want {
					wantKey = keys[0]
				}
			case n == 8:
				ok = it.Last()
				if want = len(keys) > 0; want {
					wantKey = keys[len(keys)-1]
				}
			case n == 9:
				ok = it.SeekGE([]byte(key))
				i, _ := slices.BinarySearch(keys, key)
				if want = i < len(keys); want {
					wantKey = keys[i]
				}
			case n == 10:
				ok = it.SeekLT([]byte(key))
				i, _ := slices.BinarySearch(keys, key)
				if want = i > 0; want {
					wantKey = keys[i-1]
				}
			case n == 11 && at != "":
				ok = it.Next()
				i, there := slices.BinarySearch(keys, at)
				if there {
					i++
				}
				if want = i < len(keys); want {
					wantKey = keys[i]
				}
			case n == 12 && at != "":
				ok = it.Prev()
				i, _ := slices.BinarySearch(keys, at)
				if want = i > 0; want {
					wantKey = keys[i-1]
				}
			default:
				moved = false
			}
			if !moved {
				continue
			}
			if ok != want || it.Valid() != want || want && string(it.Key()) != wantKey {
				t.Fatalf("seed %d step %d: %v at %q, want %v at %q", seed, step, ok, it.Key(), want, wantKey)
			}
			at = wantKey
			if want {
				if v, err := it.Value(); err != nil || string(v) != now[wantKey] {
					t.Fatalf("seed %d step %d: %q is %q %v, want %q", seed, step, wantKey, v, err, now[wantKey])
				}
			}
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		after := maps.Clone(base)
		rows := int64(0)
		for _, w := range b.Writes() {
			rows += w.Rows
			for rest := w.Ops; len(rest) > 0; {
				var op sqlpart.Op
				var err error
				if op, rest, err = sqlpart.NextOp(rest); err != nil {
					t.Fatal(err)
				}
				key := string(keyOf(w.Table, op.Index, string(op.Key)))
				if _, there := after[key]; there == (op.Action == sqlpart.Insert) {
					t.Fatalf("seed %d: action %d of %q", seed, op.Action, key)
				}
				if op.Action == sqlpart.Delete {
					delete(after, key)
				} else {
					after[key] = string(op.Value)
				}
			}
		}
		if !maps.Equal(after, now) || rows != int64(len(after)-len(base)) {
			t.Fatalf("seed %d: the writes leave %v, want %v; %d rows more", seed, after, now, rows)
		}
	}
}

// TestSortedBlocks: rows in order fill blocks, and blocks that are emptied go.
func TestSortedBlocks(t *testing.T) {
	t.Parallel()
	var s sorted
	const n = 10 * blockRows
	for i := range n {
		s.add(&row{key: binary.BigEndian.AppendUint32(nil, uint32(i))})
	}
	if len(s.blocks) > 11 {
		t.Errorf("%d rows in order are in %d blocks", n, len(s.blocks))
	}
	count := 0
	for r := s.from(nil); r != nil; r = s.from(append(bytes.Clone(r.key), 0)) {
		count++
	}
	if count != n || s.rows != n {
		t.Errorf("%d rows are found, %d counted, of %d", count, s.rows, n)
	}
	for i := range n {
		s.remove(binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	if len(s.blocks) != 0 || s.rows != 0 || s.from(nil) != nil || s.before(nil) != nil {
		t.Errorf("%d blocks and %d rows are left", len(s.blocks), s.rows)
	}
}

// BenchmarkPut is a row that is written, in order and out of it.
func BenchmarkPut(b *testing.B) {
	for _, inOrder := range []bool{true, false} {
		b.Run(fmt.Sprint("inOrder=", inOrder), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			buffer, value := NewBuffer(1<<30), make([]byte, 100)
			i := uint32(0)
			for b.Loop() {
				if i++; i%100_000 == 0 {
					buffer = NewBuffer(1 << 30)
				}
				n := i
				if !inOrder {
					n = r.Uint32()
				}
				if err := buffer.Put(binary.BigEndian.AppendUint32(keyOf(1, 0, ""), n), value, -1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
