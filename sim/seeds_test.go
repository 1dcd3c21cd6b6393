package sim

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this seed and print its trace")
	firstFlag = flag.Uint64("first", 1, "first seed of a series")
	countFlag = flag.Int("n", 30, "how many seeds")
	shardFlag = flag.String("shard", "", "internal: the part i/k of the series this process runs")
)

// outcome is what a process that runs a part of the seeds tells the one that started it.
type outcome struct {
	Report *Report
	Kind   string
	Text   string
	Took   time.Duration
}

// TestSeeds runs a series of seeds, on every processor one process, or replays one seed (make sim SEED=n).
func TestSeeds(t *testing.T) {
	switch {
	case *shardFlag != "":
		runShard(t)
	case *seedFlag != 0:
		replay(t, Options{Seed: *seedFlag})
	default:
		runSeries(t)
	}
}

func replay(t *testing.T, opt Options) {
	start, seed := time.Now(), opt.Seed
	whole := opt
	whole.TraceAll = true
	rep := Run(whole)
	for _, line := range rep.Trace {
		fmt.Println(line)
	}
	fmt.Println(summary(rep), "in", time.Since(start).Round(time.Millisecond))
	if again := Run(opt); again.TraceHash != rep.TraceHash {
		t.Errorf("seed %d gave trace %016x and then %016x: something depends on more than the seed", seed, rep.TraceHash, again.TraceHash)
	}
	if rep.Failure != nil {
		t.Errorf("seed %d: %v", seed, rep.Failure)
	}
}

func runSeries(t *testing.T) {
	n := *countFlag
	if testing.Short() {
		n = min(n, 6)
	}
	procs := runtime.GOMAXPROCS(0)
	start := time.Now()
	var mu sync.Mutex
	var all []*outcome
	var wg sync.WaitGroup
	for i := range procs {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestSeeds$", "-test.timeout=0", "-first", fmt.Sprint(*firstFlag), "-n", fmt.Sprint(n),
				"-shard", fmt.Sprintf("%d/%d", i, procs))
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Errorf("start part %d: %v", i, err)
				return
			}
			sc := bufio.NewScanner(out)
			sc.Buffer(nil, 16<<20)
			for sc.Scan() {
				line, ok := strings.CutPrefix(sc.Text(), "outcome ")
				if !ok {
					continue
				}
				var o outcome
				if err := json.Unmarshal([]byte(line), &o); err != nil {
					t.Errorf("part %d: %v", i, err)
					continue
				}
				mu.Lock()
				all = append(all, &o)
				if o.Kind != "" {
					t.Errorf("seed %d: %s: %s\n%s\nreplay: make sim SEED=%d", o.Report.Seed, o.Kind, o.Text, strings.Join(o.Report.Trace, "\n"), o.Report.Seed)
				} else if testing.Verbose() {
					fmt.Println(summary(o.Report), "in", o.Took.Round(time.Millisecond))
				}
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil && !t.Failed() {
				t.Errorf("part %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if len(all) != n {
		t.Errorf("%d of %d seeds came to an end", len(all), n)
	}
	totals(t, all, time.Since(start))
}

// totals prints what the series consisted of, so that a run that tested little shows.
func totals(t *testing.T, all []*outcome, took time.Duration) {
	var sum Report
	var simulated, slowest time.Duration
	failed := 0
	for _, o := range all {
		r := o.Report
		sum.Add(r)
		simulated += r.Simulated
		slowest = max(slowest, o.Took)
		if o.Kind != "" {
			failed++
		}
	}
	t.Logf("%d seeds, %d with a violation: %s, %v simulated in %v, slowest seed %v", len(all), failed, sum.Counts(),
		simulated.Round(time.Second), took.Round(100*time.Millisecond), slowest.Round(time.Millisecond))
}

// add sums up what happened.
func runShard(t *testing.T) {
	var i, k int
	if _, err := fmt.Sscanf(*shardFlag, "%d/%d", &i, &k); err != nil {
		t.Fatal(err)
	}
	for j := i; j < *countFlag; j += k {
		start := time.Now()
		rep := Run(Options{Seed: *firstFlag + uint64(j)})
		o := outcome{Report: rep, Took: time.Since(start)}
		if rep.Failure == nil && rep.Seed%5 == 0 {
			if again := Run(Options{Seed: rep.Seed}); again.TraceHash != rep.TraceHash {
				o.Kind, o.Text = "not repeatable", fmt.Sprintf("trace %016x and then %016x", rep.TraceHash, again.TraceHash)
			}
		}
		if v := rep.Failure; v != nil {
			o.Kind, o.Text, rep.Failure = v.Kind, v.Text, nil
		} else {
			rep.Trace = nil
		}
		b, err := json.Marshal(&o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("outcome %s\n", b)
	}
}

func summary(r *Report) string {
	return fmt.Sprintf("seed %d: %d nodes, %d faults of %d kinds, %d crashes, %d answered, %d unknown, %d leaders, index %d, revision %d, "+
		"%d snapshots, %v, trace %016x", r.Seed, r.Nodes, r.FaultCount, len(r.Faults), r.Crashes, r.Answered, r.Unknown, r.Leaders, r.Applied,
		r.Revision, r.Snapshots, r.Simulated.Round(time.Millisecond), r.TraceHash)
}

// TestSameSeedSameTrace is what replaying rests on.
func TestSameSeedSameTrace(t *testing.T) {
	for _, seed := range []uint64{3, 8, 21} {
		a, b := Run(Options{Seed: seed, TraceAll: true}), Run(Options{Seed: seed, TraceAll: true})
		if a.TraceHash == b.TraceHash {
			continue
		}
		i := 0
		for i < min(len(a.Trace), len(b.Trace)) && a.Trace[i] == b.Trace[i] {
			i++
		}
		from := max(i-10, 0)
		t.Errorf("seed %d: two runs part at line %d:\n%s\n--\n%s", seed, i, strings.Join(a.Trace[from:min(i+3, len(a.Trace))], "\n"),
			strings.Join(b.Trace[from:min(i+3, len(b.Trace))], "\n"))
	}
	if a, b := Run(Options{Seed: 3}), Run(Options{Seed: 4}); a.TraceHash == b.TraceHash {
		t.Error("two seeds gave one trace")
	}
}

// caught runs seeds of a broken build until one is caught with one of the given kinds.
func caught(t *testing.T, opt Options, kinds ...string) {
	t.Helper()
	found, err := Catch(opt, kinds...)
	t.Log(found)
	if err != nil {
		t.Error(err)
	}
}

// TestAckBeforeSyncIsCaught: a member that reports a write as durable before it is. When all lose power, what clients were
// told is gone.
func TestAckBeforeSyncIsCaught(t *testing.T) {
	caught(t, Options{Outside: true, Break: node.Break{AckBeforeSync: true}, Faults: []Fault{Blackout, PowerLoss}}, LostWrite, Revisions, Linearizability, Stopped)
}

// TestReadWithoutReadIsCaught: a member answers reads from its own state. A paused leader would do so if it did not ask the others whether
// it still leads.
func TestReadWithoutReadIsCaught(t *testing.T) {
	caught(t, Options{Break: node.Break{ReadWithoutRead: true}, Faults: []Fault{Pause}}, Linearizability, Revisions, LeaseLost)
}

// TestNoTermFenceIsCaught: a lease runs out on a leader that is paused and deposed. When it wakes, its revocation is stamped with the term
// of the new leader, under which the lease was renewed.
func TestNoTermFenceIsCaught(t *testing.T) {
	caught(t, Options{Break: node.Break{NoTermFence: true}, Faults: []Fault{Pause}}, LeaseLost)
}

// TestUsersHold: users, roles and tokens over crashes, power cuts and partitions. They also hold on members that learn them by snapshot or
// by a log they have not seen.
func TestUsersHold(t *testing.T) {
	n := uint64(24)
	if testing.Short() {
		n = 4
	}
	var changes, tokens, passes, outdated, snapshots int
	for seed := uint64(1); seed <= n; seed++ {
		rep := Run(Options{Seed: seed, Nodes: 3, Users: true, Faults: []Fault{Members, Kill, PowerLoss, Blackout, Partition, SmallLog, Flush}})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		changes, tokens, passes, outdated, snapshots = changes+rep.Changes, tokens+rep.Tokens, passes+rep.Passes, outdated+rep.Outdated, snapshots+rep.Snapshots
	}
	t.Logf("%d seeds: %d changes of users, %d tokens held, %d writes under authentication, %d judged anew, %d snapshots", n, changes, tokens, passes,
		outdated, snapshots)
	if changes == 0 || tokens == 0 || passes == 0 || outdated == 0 || snapshots == 0 && !testing.Short() {
		t.Error("that tested nothing")
	}
}
