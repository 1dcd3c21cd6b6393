package main

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/results"
)

// mostFailures is how many tests of the suite may stay failing.
const mostFailures = 10

func TestTheListsSayWhy(t *testing.T) {
	failing, out := results.ParseList(knownFailures), results.ParseList(leftOut)
	if len(failing) > mostFailures {
		t.Errorf("%d known failures, at most %d", len(failing), mostFailures)
	}
	for name, why := range failing {
		if !strings.Contains(why, "etcd") {
			t.Errorf("%s: %q does not say what etcd does there", name, why)
		}
		if out[name] != "" {
			t.Errorf("%s is on two lists", name)
		}
	}
	for name, why := range out {
		if why == "" {
			t.Errorf("%s is left out without a reason", name)
		}
	}
	for _, name := range quick {
		if out[name] != "" {
			t.Errorf("%s is left out and among the quick ones", name)
		}
	}
}
