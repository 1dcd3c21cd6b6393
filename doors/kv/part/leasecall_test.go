package part

import (
	"bytes"
	"testing"
)

func TestLeaseCallGolden(t *testing.T) {
	if got, want := AppendLeaseID(nil, 0x0102030405060708), []byte{1, 2, 3, 4, 5, 6, 7, 8}; !bytes.Equal(got, want) {
		t.Errorf("lease id: %x, want %x", got, want)
	}
	want := []byte{0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 42}
	if got := AppendLeaseTime(nil, LeaseTime{Granted: 60, Remaining: 42}); !bytes.Equal(got, want) {
		t.Errorf("lease time: %x, want %x", got, want)
	}
}

func FuzzLeaseCall(f *testing.F) {
	f.Add(AppendLeaseID(nil, -1))
	f.Add(AppendLeaseTime(nil, LeaseTime{Granted: 5, Remaining: 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := DecodeLeaseID(b); err == nil && !bytes.Equal(AppendLeaseID(nil, id), b) {
			t.Errorf("lease id %d does not encode back to %x", id, b)
		}
		if lt, err := DecodeLeaseTime(b); err == nil && !bytes.Equal(AppendLeaseTime(nil, lt), b) {
			t.Errorf("lease time %+v does not encode back to %x", lt, b)
		}
	})
}
