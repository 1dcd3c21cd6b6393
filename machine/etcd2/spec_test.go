package etcd2

import (
	"testing"

	eetcd2 "github.com/holdfastdb/holdfast/entry/etcd2"
)

// TestClientsPartsAreKnownAsSuch: while authentication is on, what clients send needs a Pass and what workers send does not; the machine's
// Spec is where the gate of all commands learns which is which.
func TestClientsPartsAreKnownAsSuch(t *testing.T) {
	if Spec.FromClient == nil || !Spec.FromClient(eetcd2.Append(nil, &eetcd2.Part{Kind: eetcd2.Set, Path: []byte("/k")})) {
		t.Error("a client's write goes through without a Pass")
	}
	if Spec.FromClient == nil || Spec.FromClient(eetcd2.Append(nil, &eetcd2.Part{Kind: eetcd2.Expire, Limit: 1})) {
		t.Error("what a worker does by itself is refused")
	}
}
