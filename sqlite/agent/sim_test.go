package agent_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/agent/agentsim"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this seed of the model and print its trace")
	firstFlag = flag.Uint64("first", 1, "the model's first seed")
	seedsFlag = flag.Int("seeds", 40, "how many seeds of the model")
)

const replay = "replay: go test ./sqlite/agent -run TestSeedsOfTheModel -seed %d"

// TestSeedsOfTheModel runs agents on machines that fail, from seeds. With -seed it replays one.
func TestSeedsOfTheModel(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 {
		rep := agentsim.Run(agentsim.Options{Seed: *seedFlag, All: true})
		for _, line := range rep.Trace {
			fmt.Println(line)
		}
		if rep.Failure != nil {
			t.Errorf("seed %d: %v", rep.Seed, rep.Failure)
		}
		return
	}
	start := time.Now()
	var sum agentsim.Report
	failed := 0
	for seed := *firstFlag; seed < *firstFlag+uint64(*seedsFlag); seed++ {
		rep := agentsim.Run(agentsim.Options{Seed: seed})
		sum.Add(rep)
		if rep.Failure == nil {
			continue
		}
		t.Errorf("seed %d: %v\n"+replay, seed, rep.Failure, seed)
		if failed++; failed == 1 && !testing.Verbose() {
			t.Log(strings.Join(rep.Trace, "\n"))
		}
	}
	t.Logf("%d seeds in %v, %d failed: %s", *seedsFlag, time.Since(start).Round(time.Millisecond), failed, sum.String())
}

// TestTheModelRepeatsItself is what replaying rests on.
func TestTheModelRepeatsItself(t *testing.T) {
	t.Parallel()
	hashes := map[uint64]bool{}
	for seed := uint64(1); seed <= 5; seed++ {
		a, b := agentsim.Run(agentsim.Options{Seed: seed, All: true}), agentsim.Run(agentsim.Options{Seed: seed, All: true})
		if a.Hash != b.Hash {
			i := 0
			for i < min(len(a.Trace), len(b.Trace)) && a.Trace[i] == b.Trace[i] {
				i++
			}
			from := max(i-5, 0)
			t.Errorf("seed %d: two runs part at line %d:\n%s\n--\n%s", seed, i, strings.Join(a.Trace[from:min(i+3, len(a.Trace))], "\n"),
				strings.Join(b.Trace[from:min(i+3, len(b.Trace))], "\n"))
		}
		hashes[a.Hash] = true
	}
	if len(hashes) < 5 {
		t.Error("two seeds gave one trace")
	}
}
