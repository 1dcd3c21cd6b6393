package machine

import (
	"testing"

	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// TestClientsPartsAreKnownAsSuch: while authentication is on, what clients send needs a Pass and what workers send does not; the machine's
// Spec is where the gate of all commands learns which is which.
func TestClientsPartsAreKnownAsSuch(t *testing.T) {
	if Spec.FromClient == nil || !Spec.FromClient(v2part.Append(nil, &v2part.Part{Kind: v2part.Set, Path: []byte("/k")})) {
		t.Error("a client's write goes through without a Pass")
	}
	if Spec.FromClient == nil || Spec.FromClient(v2part.Append(nil, &v2part.Part{Kind: v2part.Expire, Limit: 1})) {
		t.Error("what a worker does by itself is refused")
	}
}
