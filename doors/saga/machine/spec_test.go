package machine

import (
	"strings"
	"testing"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestClientsPartsAreKnownAsSuch: while authentication is on, clients' parts need a Pass and workers' do not. The machine's Spec tells the
// gate of all commands which is which.
func TestClientsPartsAreKnownAsSuch(t *testing.T) {
	if Spec.FromClient == nil || !Spec.FromClient(sagapart.Append(nil, parse(t, "begin g saga submitted"))) {
		t.Error("a client's submit goes through without a Pass")
	}
	if Spec.FromClient == nil || !Spec.FromClient(sagapart.Append(nil, parse(t, "change g to=aborting"))) {
		t.Error("a client's abort goes through without a Pass")
	}
	if Spec.FromClient == nil || Spec.FromClient(sagapart.Append(nil, parse(t, "change g results=0:succeed"))) {
		t.Error("what a worker does by itself is refused")
	}
}

// TestNothingOfItIsProposedBelowItsLevel: a member of the build before does not know the machine.
func TestNothingOfItIsProposedBelowItsLevel(t *testing.T) {
	if Spec.Level != sagapart.Level || Spec.Level < 2 {
		t.Errorf("level %d", Spec.Level)
	}
	if Spec.LastLevel != sagapart.RetainLevel || Spec.LastLevel < 8 {
		t.Errorf("last level %d", Spec.LastLevel)
	}
}

// TestRowsAreShownWithoutWhatTheyHide: payloads, custom data and the values of headers are the clients' and not the operator's.
func TestRowsAreShownWithoutWhatTheyHide(t *testing.T) {
	r := newRig(t)
	p := parse(t, "begin g msg submitted data=SECRET branch=01,action,http://u,prepared,SECRET")
	p.Begin.Headers = []sagapart.Header{{Name: "Authorization", Value: "SECRET"}}
	r.apply(p)
	r.must("begin t tcc prepared", "register t branch=01,cancel,http://u,prepared,SECRET", "change t result=SECRET")
	shown := sagapart.Describe(sagapart.Append(nil, p)) + looks["rows"](r, nil)
	if strings.Contains(shown, "SECRET") || !strings.Contains(shown, "Authorization") || !strings.Contains(shown, "http://u") {
		t.Error(shown)
	}
	if got := DescribeRow([]byte{letter, '?'}, nil); !strings.Contains(got, "does not decode") {
		t.Error(got)
	}
}
