// Command transfer moves money by sagas of DTM's Go client, unchanged, between accounts in a MariaDB behind DTM's barrier. Members of the
// coordinator and the services are killed with SIGKILL meanwhile. conformance/saga/transfer/run.sh builds and installs what it runs.
//
//	transfer [-members 1,3] [-rounds 200]
//
// In a round clients submit transfers, something is killed and started again, and all transfers have to end. Then the calls and bookings of
// every service are judged (judge.go). Everything is read once more at the end, so that a call which comes late is seen too. A run with a
// violation ends with status 1. Without -rounds there are as many as ROUNDS in the environment says, else 30. A size's row of
// RESULTS-saga-transfer.md is replaced by a run of at least as many rounds, and by one with a violation.
//
// It is about correctness, not about speed: bench/saga measures.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// usualRounds are those of a run that says no number: a minute or two a size.
const usualRounds = 30

func main() {
	sizes := flag.String("members", "1,3", "sizes of the coordinator, with commas between")
	rounds := flag.Int("rounds", 0, "of each size")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()%1_000_000), "repeats what is killed and when, not what the machine does")
	bin := flag.String("holdfast", "bin/holdfast", "the server")
	clients := flag.String("clients", "build/peers/dtm/clients", "where scripts/dtm.sh put our programs around DTM's client")
	table := flag.String("results", "conformance/RESULTS-saga-transfer.md", "where the table is")
	flag.Parse()
	err := errors.New("usage: transfer FLAGS")
	if flag.NArg() == 0 {
		err = setRounds(rounds)
	}
	good := true
	for size := range strings.SplitSeq(*sizes, ",") {
		if err != nil {
			break
		}
		var members int
		if members, err = strconv.Atoi(size); err != nil || members < 1 {
			err = fmt.Errorf("-members %s: want numbers", *sizes)
			break
		}
		var o *outcome
		if o, err = run(members, *rounds, *seed, *bin, *clients); err == nil {
			good = good && o.violations == 0
			err = write(*table, o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "transfer:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}

func setRounds(rounds *int) (err error) {
	if env := os.Getenv("ROUNDS"); *rounds == 0 && env != "" {
		if *rounds, err = strconv.Atoi(env); err != nil || *rounds < 1 {
			return fmt.Errorf("ROUNDS=%s: want a number of rounds", env)
		}
	}
	if *rounds == 0 {
		*rounds = usualRounds
	}
	if *rounds < 0 {
		return fmt.Errorf("-rounds %d: want a number of rounds", *rounds)
	}
	return nil
}

// run runs all rounds of one size, with a coordinator, a database and services of its own.
func run(members, rounds int, seed uint64, bin, clients string) (o *outcome, err error) {
	dir, err := os.MkdirTemp("", "saga-transfer")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil && o.violations == 0 {
			err = os.RemoveAll(dir)
		} else {
			fmt.Println("logs are kept in", dir)
		}
	}()
	maria, err := proctest.NewMariaDB()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, maria.Close()) }()
	c, err := newCampaign(dir, maria, members, seed, bin, clients)
	if err != nil {
		return nil, err
	}
	defer c.close()
	began := time.Now()
	for n := range rounds {
		if err := c.round(n); err != nil {
			return nil, fmt.Errorf("round %d: %w", n+1, err)
		}
		if (n+1)%10 == 0 {
			fmt.Printf("%d of %d rounds with %d members in %.0f s: %s\n", n+1, rounds, members, time.Since(began).Seconds(), &c.outcome)
		}
	}
	if err := c.atLast(); err != nil {
		return nil, err
	}
	c.rounds, c.took = rounds, time.Since(began)
	fmt.Printf("%d rounds with %d members in %.0f s: %s\n", rounds, members, c.took.Seconds(), &c.outcome)
	return &c.outcome, nil
}
