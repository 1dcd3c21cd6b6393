package kv

import (
	"testing"

	ekv "github.com/holdfastdb/holdfast/entry/kv"
)

// TestClientsPartsAreKnownAsSuch: while authentication is on, what clients send needs a Pass and what workers send does not; the machine's
// Spec is where the gate of all commands learns which is which.
func TestClientsPartsAreKnownAsSuch(t *testing.T) {
	if Spec.FromClient == nil || !Spec.FromClient(ekv.Append(nil, &ekv.Part{Put: &ekv.Put{Key: []byte("k")}})) {
		t.Error("a client's write goes through without a Pass")
	}
	if Spec.FromClient == nil || Spec.FromClient(ekv.Append(nil, &ekv.Part{Revoke: &ekv.LeaseRevoke{IDs: []int64{1}, Expired: true}})) {
		t.Error("what a worker does by itself is refused")
	}
}
