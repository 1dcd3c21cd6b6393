package part

import (
	"bytes"
	"fmt"
	"testing"
)

// TestPutInPlaceIsAppend: for any places in the buffer, with room around it or without, the bytes are those of Append.
func TestPutInPlaceIsAppend(t *testing.T) {
	for _, keyLen := range []int{1, 12, 127, 128, 256, 257, 1000} {
		for _, valueLen := range []int{0, 1, 127, 128, 20_000} {
			for _, front := range []int{0, 1, 3, keyLen + 6, keyLen + 7, keyLen + 8, keyLen + 9, keyLen + 20} {
				for _, behind := range []int{0, putBehind - 1, putBehind, 40} {
					for _, keyFirst := range []bool{true, false} {
						for _, p := range []Put{{}, {Lease: 7}, {Lease: -1, PrevKV: true}, {IgnoreLease: true}} {
							name := fmt.Sprint(keyLen, valueLen, front, behind, keyFirst, p)
							p.Key, p.Value = bytes.Repeat([]byte{'k'}, keyLen), bytes.Repeat([]byte{'v'}, valueLen)
							want := Append(nil, &Part{Put: &p})
							// The key before the value, as clients write it, or behind it, where a lease goes.
							buf := make([]byte, 0, front+keyLen+valueLen+keyLen+behind)
							buf = append(buf, make([]byte, front)...)
							if keyFirst && front >= keyLen {
								copy(buf[front-keyLen:], p.Key)
								p.Key = buf[front-keyLen : front]
							}
							buf = append(buf, p.Value...)
							p.Value = buf[front:]
							if !keyFirst {
								buf = append(buf, p.Key...)
								p.Key = buf[len(buf)-keyLen:]
							}
							if got := PutInPlace(buf, &p); !bytes.Equal(got, want) {
								t.Fatalf("%s: %.60q instead of %.60q", name, got, want)
							}
						}
					}
				}
			}
		}
	}
}

// TestPutInPlaceCopiesNoValue: nor does it believe a capacity that says nothing of where the value lies.
func TestPutInPlaceCopiesNoValue(t *testing.T) {
	buf := append(make([]byte, 0, 200), bytes.Repeat([]byte{'x'}, 100)...)
	if got := PutInPlace(buf, &Put{Key: []byte("k"), Value: buf[20:100]}); &got[len(got)-1] != &buf[99] {
		t.Error("the value was copied")
	}
	short := bytes.Repeat([]byte{'v'}, 50)
	p := Put{Key: []byte("k"), Value: short[:40:45]}
	if got, want := PutInPlace(buf, &p), Append(nil, &Part{Put: &p}); !bytes.Equal(got, want) {
		t.Errorf("%q instead of %q", got, want)
	}
}
