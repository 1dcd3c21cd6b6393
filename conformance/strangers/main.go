// Command strangers attacks every door of a Holdfast server, as strangers on a network may, beside a well-behaved client of every door.
// Each attack has a server of its own with --memory 256MiB. It runs from one address and again from 64, without TLS and again with it. The
// server must stay below 300 MB and alive, and the client's p99 below five times its value without the attack. None of the client's streams
// and connections may end.
//
// Honest crowds come last: a thousand streams, and a thousand connections, that stay open beside writers.
//
// Attacks that need more than a port are held elsewhere. Clients without a token at a saga door with tokens: cmd/holdfast
// (TestAStrangerChangesAndSeesNoTransactions). A bucket whose answers are no end of names, of bytes or of patience, or no S3 at all:
// objstore (s3bound_test.go, s3open_test.go, final_test.go).
//
// The figures are of a shared machine, on which the attackers take their part of the processors: a p99 of less than floor always passes.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

const resultsHead = `# Strangers

Written by ` + "`make conformance DOOR=strangers`" + ` (conformance/strangers): attacks on every door that has such a port, from 127.0.0.77 and from 64
addresses, without TLS and with it, for eight seconds each, against a server of its own with --memory 256MiB. Beside them a client at 127.0.0.2 uses every door. An
attack passed if the server stayed below 300 MB and alive, the client's p99 below five times what it is alone (or below 100 ms: the attackers
have the same two processors), and no stream or connection of the client ended. In the end honest crowds stay beside 64 writers: nothing of them was
cut, and a sample of their watches heard of a put.

`

func main() {
	c := &campaign{alone: 3 * time.Second}
	flag.BoolVar(&c.quick, "quick", false, "eight attacks, on one door each, from one address, without TLS, for three seconds, where a p99 of up to 2 s passes; no table")
	flag.StringVar(&c.bin, "holdfast", "bin/holdfast", "the server")
	flag.DurationVar(&c.lasts, "for", 8*time.Second, "how long an attack lasts")
	flag.DurationVar(&c.stays, "crowd", 10*time.Minute, "how long each of the crowds in cleartext stays; the one over TLS stays a tenth")
	only := flag.String("only", "", "a pattern for the names of attacks, as in the table; no table is written")
	table := flag.String("results", "conformance/RESULTS-strangers.md", "where a run that is not quick writes its table")
	goOn := flag.Bool("go-on", false, "do not do again what passed according to the table of results: a run takes more than an hour")
	orders := flag.String("attack", "", "of this program alone: be the attacker of this order, and say what it came to")
	flag.Parse()
	if *orders != "" {
		obey(*orders)
		return
	}
	var err error
	if c.only, err = regexp.Compile(*only); err == nil {
		if c.quick {
			c.alone, c.lasts = 1500*time.Millisecond, 3*time.Second
		}
		if c.quick || *only != "" {
			*table = ""
		}
		if *goOn && err == nil {
			err = c.steps.Resume(*table)
		}
		if err == nil {
			err = c.run(*table)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "strangers:", err)
		os.Exit(1)
	}
}

// campaign is a run over the attacks. It belongs to one goroutine.
type campaign struct {
	bin   string
	quick bool
	alone time.Duration // how long the neighbour is measured without an attack
	lasts time.Duration // how long an attack lasts
	stays time.Duration // how long a crowd stays
	only  *regexp.Regexp
	steps results.Steps
}

func (c *campaign) run(table string) error {
	ways := []way{{}, {many: true}, {tls: true}, {many: true, tls: true}}
	if c.quick {
		ways = ways[:1]
	}
	for _, a := range attacks {
		if c.quick && !a.quick {
			continue
		}
		for _, w := range ways {
			ports := a.ports
			if c.quick {
				ports = ports[:1]
			}
			for _, port := range ports {
				// Members' certificates are tested elsewhere: without one no client is heard. On loopback operators are answered in the
				// clear.
				if w.tls && (port == "peer" || port == "admin") {
					continue
				}
				name := strings.Join([]string{a.name, port, w.String()}, ", ")
				if c.only.MatchString(name) {
					c.steps.Do(name, func() (string, error) { return c.attack(a, port, w) })
					if err := c.write(table); err != nil {
						return err
					}
				}
			}
		}
	}
	for _, of := range crowds {
		how, lasts := "plain", c.stays
		if of.tls {
			how, lasts = "TLS", c.stays/10
		}
		if name := fmt.Sprintf("a crowd: %s, %s, %s", of.name, lasts, how); !c.quick && c.only.MatchString(name) {
			c.steps.Do(name, func() (string, error) { return c.stay(of, lasts) })
			if err := c.write(table); err != nil {
				return err
			}
		}
	}
	passed, failed := c.steps.Count()
	if failed > 0 {
		return fmt.Errorf("%d of %d failed", failed, passed+failed)
	}
	fmt.Printf("%d passed\n", passed)
	return nil
}

// write writes the table after each step, so that a run that is broken off leaves what it has done; "": none.
func (c *campaign) write(table string) error {
	if table == "" {
		return nil
	}
	return c.steps.Write(table, resultsHead)
}

// way is from where and how an attack comes.
type way struct {
	many bool // from 64 addresses instead of one
	tls  bool
}

func (w way) String() string {
	from, how := "one address", "plain"
	if w.many {
		from = "64 addresses"
	}
	if w.tls {
		how = "TLS"
	}
	return from + ", " + how
}
