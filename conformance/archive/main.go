// Command archive has a Holdfast ship its log to third-party object stores, takes its disk away, and brings everything back from there. The
// stores are plain files, gofakes3, and versitygw, a server of S3 on files (scripts/versitygw.sh). Each store is asked first whether it
// keeps the conditions that an archive stands on. An unmodified etcdctl reads the restored server.
//
//	archive [-quick]
//
// A quick run does without versitygw. One that is not writes RESULTS-archive.md. The behaviour of failing disks and stores is in
// conformance/crash.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

const head = `# The log in an object store

Written by ` + "`make conformance DOOR=archive`" + ` (conformance/archive): a server ships what four doors commit, its disk goes, and everything is
restored from the store alone. versitygw is v1.8.0, gofakes3 the version in go.mod.

`

func main() {
	quick := flag.Bool("quick", false, "without versitygw, no table")
	bin := flag.String("holdfast", "bin/holdfast", "the server")
	gateway := flag.String("versitygw", "build/peers/versitygw", "where scripts/versitygw.sh put it")
	etcdctl := flag.String("etcdctl", "build/peers/etcd-3.7.3/etcdctl", "the client that reads what is restored")
	table := flag.String("results", "conformance/RESULTS-archive.md", "where the table is")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	r := &run{bin: *bin, etcdctl: *etcdctl}
	if err := r.all(ctx, *quick, *gateway); err != nil {
		fatal(err)
	}
	if !*quick {
		if err := r.steps.Write(*table, head); err != nil {
			fatal(err)
		}
	}
	if _, failed := r.steps.Count(); failed > 0 {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "archive:", err)
	os.Exit(1)
}

// run is one call of this program.
type run struct {
	bin, etcdctl string
	dir          string
	steps        results.Steps
}

// all goes through every store.
func (r *run) all(ctx context.Context, quick bool, gateway string) (err error) {
	if r.dir, err = os.MkdirTemp("", "holdfast-archive-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	kinds := []func() (*place, error){r.files, r.fake}
	if !quick {
		kinds = append(kinds, func() (*place, error) { return r.gateway(ctx, gateway) })
	}
	for _, open := range kinds {
		p, err := open()
		if err != nil {
			return err
		}
		r.steps.Do(p.name+": conditions, names in order", func() (string, error) { return conditions(ctx, p) })
		r.steps.Do(p.name+": a disk goes, everything comes back", func() (string, error) { return r.comesBack(ctx, p) })
		if err := p.end(); err != nil {
			return err
		}
	}
	return nil
}
