package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

// outcome is what the rounds of one size have come to.
type outcome struct {
	members, rounds int
	seed            uint64
	took            time.Duration

	leaders, others, services, clients int // killed, of members with three or more: leaders and others
	asked, succeeded, failed, unknown  int // transfers, by how they ended
	calls, repeated, empty             int // of services; repeated calls for one thing; compensations without an action
	sum                                int // of all accounts
	violations                         int
	slowest                            time.Duration // from when all was running again to the end of the last transfer
}

func (o *outcome) kills() int { return o.leaders + o.others + o.services + o.clients }

// String says how it goes.
func (o *outcome) String() string {
	return fmt.Sprintf("%d kills (%d leaders, %d other members, %d services, %d clients); %d transfers: %d succeeded, %d failed, %d never came; "+
		"%d calls, %d of them repeated, %d compensations of nothing; sum %d; slowest end %.1f s; %d violations", o.kills(), o.leaders, o.others, o.services, o.clients, o.asked,
		o.succeeded, o.failed, o.unknown, o.calls, o.repeated, o.empty, o.sum, o.slowest.Seconds(), o.violations)
}

const head = `# Money transfers while everything is killed

Written by ` + "`make conformance DOOR=saga`" + ` with ROUNDS=200 (conformance/saga/transfer). Sagas of DTM's Go client v1.17.3 move money between ten
accounts in a MariaDB, behind DTM's barrier, with retry_interval 1. In each round members of the coordinator, the two services or the clients
are killed with SIGKILL and started again, and every transfer has to end. Violations are: a sum of all accounts that is not what it was, a
transfer without an end or with another than its client was told, a booking twice, half or not taken back, a compensation without a
call of its action before, a compensation in a transfer that succeeded. Of a saga whose steps run beside each other the call of an action may be
lost with its service, which then gets a compensation of nothing, and must book nothing. The slowest end is the longest time from when
everything was running again to when the last transfer of a round had ended.

`

// write puts the row of this size into the table, unless there is one of more rounds and this one is as good.
func write(file string, o *outcome) error {
	var headings []results.Heading
	for _, text := range []string{"members", "rounds", "killed: leaders", "other members", "services", "clients", "transfers", "succeeded", "failed", "never came",
		"calls", "repeated", "compensations of nothing", "sum", "violations", "seconds a round", "slowest end", "seed"} {
		headings = append(headings, results.Heading{Text: text, Right: true})
	}
	t := results.NewTable(1, append(headings, results.Heading{Text: "day"})...)
	if _, err := t.Load(file); err != nil {
		return err
	}
	members := strconv.Itoa(o.members)
	for _, row := range t.Rows() {
		if before, err := strconv.Atoi(row[1]); row[0] == members && err == nil && before > o.rounds && o.violations == 0 {
			return nil
		}
	}
	cells := []string{members}
	for _, n := range []int{o.rounds, o.leaders, o.others, o.services, o.clients, o.asked, o.succeeded, o.failed, o.unknown, o.calls, o.repeated, o.empty, o.sum,
		o.violations} {
		cells = append(cells, strconv.Itoa(n))
	}
	t.Put(append(cells, fmt.Sprintf("%.1f", o.took.Seconds()/float64(o.rounds)), fmt.Sprintf("%.1f s", o.slowest.Seconds()),
		strconv.FormatUint(o.seed, 10), time.Now().UTC().Format(time.DateOnly))...)
	t.Sort(func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return os.WriteFile(file, []byte(head+t.String()), 0o644)
}
