package machine

import (
	"strings"
	"testing"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// submitOf is a submit of a gid that gives options and a header.
func submitOf(gid string) *sagapart.Part {
	return &sagapart.Part{Kind: sagapart.Submit, Begin: &sagapart.BeginPart{Status: sagapart.Submitted, IntervalMs: 10_000,
		Definition: sagapart.Definition{Gid: gid, Mode: sagapart.Msg, Protocol: "http", CustomData: `{"delay":1}`,
			Options: sagapart.Options{Concurrent: true, RequestTimeoutMs: 9000}, Headers: []sagapart.Header{{Name: "X-Tenant", Value: "t1"}}}}}
}

// TestASubmitGivesOptions: the prepared transaction came with the same entry, an earlier one or before a restart. Its branches are in its
// definition's row or in rows of their own. It has the options of its submit, and its branches are unchanged.
func TestASubmitGivesOptions(t *testing.T) {
	for name, steps := range map[string]string{"small": "steps=2 payload=10", "large": "steps=2 payload=4000", "none": ""} {
		prepare := "begin g msg prepared interval=7 data={\"delay\":0} " + steps
		for _, when := range []string{"one entry", "two entries", "after a restart"} {
			r := newRig(t)
			switch when {
			case "one entry":
				r.apply(parse(t, prepare), submitOf("g"))
			case "two entries":
				r.must(prepare)
				r.apply(submitOf("g"))
			default:
				r.must(prepare)
				r.reopen(Options{})
				r.apply(submitOf("g"))
			}
			other := newRig(t)
			other.must(prepare, "begin g msg submitted interval=10000")
			got, want := r.find("g"), other.find("g")
			if len(got.Branches) != len(want.Branches) || got.Status != sagapart.Submitted {
				t.Errorf("%s, %s: %d branches, %s", name, when, len(got.Branches), got.Status)
			}
			want.Options = sagapart.Options{Concurrent: true, RequestTimeoutMs: 9000}
			want.Headers, want.CustomData = []sagapart.Header{{Name: "X-Tenant", Value: "t1"}}, `{"delay":1}`
			if want.Created, want.Updated = got.Created, got.Updated; showTransaction(got) == "" || got.Definition.String() != want.Definition.String() ||
				got.CustomData != want.CustomData || got.Headers[0] != want.Headers[0] {
				t.Errorf("%s, %s:\n got %s\nwant %s", name, when, showTransaction(got), showTransaction(want))
			}
			r.reopen(Options{})
			if again := r.find("g"); showTransaction(again) != showTransaction(got) {
				t.Errorf("%s, %s, after a restart:\n got %s\nwant %s", name, when, showTransaction(again), showTransaction(got))
			}
			// A second submit, with others, changes nothing.
			second := submitOf("g")
			second.Begin.Options.RequestTimeoutMs = 1
			r.apply(second)
			if again := r.find("g"); again.Options.RequestTimeoutMs != 9000 {
				t.Errorf("%s, %s: a second submit gave %v", name, when, again.Options)
			}
		}
	}
}

// TestASubmitOfNothing begins a transaction, as a Begin does.
func TestASubmitOfNothing(t *testing.T) {
	r := newRig(t)
	r.apply(submitOf("g"))
	if got := r.find("g"); got == nil || got.Status != sagapart.Submitted || !got.Options.Concurrent || got.IntervalMs != 10_000 {
		t.Errorf("%+v", got)
	}
	r.must("change g to=succeed")
	if res := show(r.apply(submitOf("g"))[0]); !strings.HasPrefix(res, "702 succeed") {
		t.Errorf("a submit of what has ended: %s", res)
	}
}
