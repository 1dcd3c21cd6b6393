// Command week has three members live an operator's week in minutes, with TLS between members and towards clients. It has an upgrade,
// restarts, and members that move, freeze, are replaced and get expired certificates. Beside it 64 writers, a hundred transactions a
// second, etcdctl and jetcd do their work. No acknowledged write may be missing in the end, and no request may fail except at an absent
// member or while no leader could be. Each fault must be named in status, metrics and log within five seconds.
//
//	week [-calm 10s] [-only PATTERN]
//
// The load is the same at every machine; nothing here measures speed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

const resultsHead = `# A week of a cluster

Written by ` + "`make conformance DOOR=week`" + ` (conformance/week): three members with TLS live an operator's week in minutes, beside 64 writers, 100
transactions a second, etcdctl 3.7.3 and jetcd 0.8.5. A fault must be named in status, metrics and log within five seconds. A request may fail
only at a member that the script has stopped, frozen or shut out, or while no leader could be.

`

// week is a run of the script. It belongs to one goroutine.
type week struct {
	house   *house
	members *certtest.Authority // of what members show each other
	roster  *roster
	writers *writers
	sagas   *sagas
	foreign *foreign
	calm    time.Duration
	only    *regexp.Regexp
	steps   steps
	earlier string // a build before this one, "": no upgrade
}

func main() {
	bin := flag.String("holdfast", "bin/holdfast", "the server")
	etcdctl := flag.String("etcdctl", "build/peers/etcd-3.7.3/etcdctl", "where scripts/peers.sh put it")
	calm := flag.Duration("calm", 10*time.Second, "how long nothing happens between two days")
	only := flag.String("only", "", "a pattern for the names of days; no table is written")
	upgrade := flag.Bool("upgrade", true, "begin with an earlier build, which is built first")
	table := flag.String("results", "conformance/RESULTS-week.md", "where a whole run writes its table")
	flag.Parse()
	w := &week{calm: *calm, roster: newRoster()}
	if *only != "" {
		w.only, *table = regexp.MustCompile(*only), ""
	}
	if err := w.run(*bin, *etcdctl, *table, *upgrade); err != nil {
		fmt.Fprintln(os.Stderr, "week:", err)
		os.Exit(1)
	}
}

// buildBefore is the build that the week begins with: members of it know TLS and everything that the load does.
const buildBefore = "ee25253"

func (w *week) run(bin, etcdctl, table string, upgrade bool) error {
	root, err := proctest.Root()
	if err != nil {
		return err
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if upgrade && w.only == nil {
		fmt.Println("build", buildBefore)
		if w.earlier, err = proctest.Earlier(buildBefore); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "week")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	if err := w.open(dir, bin); err != nil {
		return err
	}
	defer w.house.close()
	w.foreign = newForeign(w.house, etcdctl, javaWriter(root))
	if err := w.foreign.begin(w.house.members); err != nil {
		return err
	}
	w.writers.begin(w.roster)
	w.sagas.begin(w.roster)
	time.Sleep(w.calm)

	w.live()

	w.foreign.end()
	w.writers.end()
	w.sagas.end()
	w.steps.Do("requests that failed", w.house.journal.judge)
	w.steps.Do("what was acknowledged: puts", func() (string, error) { return w.writers.check(w.house.members) })
	w.steps.Do("what was acknowledged: transactions", func() (string, error) { return w.sagas.check(w.house.members) })
	w.steps.Do("what was acknowledged: etcdctl and jetcd", func() (string, error) { return w.foreign.check(w.house.members[0]) })
	fmt.Printf("the week took %s\n", time.Since(began).Round(time.Second))
	if table != "" {
		if err := w.steps.Write(table, resultsHead); err != nil {
			return err
		}
	}
	if passed, failed := w.steps.Count(); failed > 0 {
		return fmt.Errorf("%d of %d days failed", failed, passed+failed)
	}
	return nil
}

// open starts the members and tells clients of them.
func (w *week) open(dir, bin string) error {
	var err error
	if w.house, err = newHouse(dir, bin); err != nil {
		return err
	}
	w.members = certtest.NewAuthority("members of the first authority")
	w.writers, w.sagas = newWriters(w.house), newSagas(w.house)
	for _, n := range w.house.cluster.Nodes {
		m, err := w.house.take(n, w.members)
		if err != nil {
			return err
		}
		if w.earlier != "" {
			m.bin = w.earlier
		}
	}
	for _, m := range w.house.members {
		m.peers = []string{"--peers", w.house.peerList()}
		if err := w.house.start(m); err != nil {
			return err
		}
	}
	if err := w.house.ready(w.house.members...); err != nil {
		w.house.close()
		return err
	}
	return errors.Join(w.welcome(w.house.members...), w.house.ids())
}

// welcome tells clients of members.
func (w *week) welcome(members ...*member) error {
	if err := w.writers.connect(members...); err != nil {
		return err
	}
	for _, m := range members {
		w.roster.enter(m, w.writers.clients[m.Name])
	}
	return nil
}
