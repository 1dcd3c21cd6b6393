package kv

import (
	"testing"

	ekv "github.com/holdfastdb/holdfast/entry/kv"
)

func TestPutAndGet(t *testing.T) {
	r := newRig(t, Options{})
	res := r.must(putPart("k", "v")).(*ekv.PutResult)
	if res.Revision != 2 || res.Prev != nil {
		t.Fatalf("%+v", res)
	}
	got, rev, err := r.m.Range(&ekv.Range{Key: []byte("k")}, 0)
	if err != nil || rev != 2 || got.Count != 1 || string(got.KVs[0].Value) != "v" || got.KVs[0].Version != 1 {
		t.Fatalf("%+v %d %v", got, rev, err)
	}
}
