package machine

import (
	"testing"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestClientsPartsAreKnownAsSuch: while authentication is on, clients' parts need a Pass and workers' do not. The machine's Spec tells the
// gate of all commands which is which.
func TestClientsPartsAreKnownAsSuch(t *testing.T) {
	if Spec.FromClient == nil || !Spec.FromClient(kvpart.Append(nil, &kvpart.Part{Put: &kvpart.Put{Key: []byte("k")}})) {
		t.Error("a client's write goes through without a Pass")
	}
	if Spec.FromClient == nil || Spec.FromClient(kvpart.Append(nil, &kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: []int64{1}, Expired: true}})) {
		t.Error("what a worker does by itself is refused")
	}
}
