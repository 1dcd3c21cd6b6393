package machine

import (
	"testing"

	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// TestClientsPartsAreKnownAsSuch: while authentication is on, clients' parts need a Pass and workers' do not. The machine's Spec tells the
// gate of all commands which is which.
func TestClientsPartsAreKnownAsSuch(t *testing.T) {
	if Spec.FromClient == nil || !Spec.FromClient(v2part.Append(nil, &v2part.Part{Kind: v2part.Set, Path: []byte("/k")})) {
		t.Error("a client's write goes through without a Pass")
	}
	if Spec.FromClient == nil || Spec.FromClient(v2part.Append(nil, &v2part.Part{Kind: v2part.Expire, Limit: 1})) {
		t.Error("what a worker does by itself is refused")
	}
}
