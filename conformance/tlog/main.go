// Command tlog runs Tessera's own tools, unmodified, against a Holdfast server and its publications of a log. They are a directory, a
// bucket and the tables of a database. They are the hammer with the flags of the published report over HTTP/1.1 and HTTP/2, the integration
// test, fsck, and conformance-mysql as a reader. A verifier in another language runs too (verify.py). scripts/tessera.sh and
// scripts/mariadb.sh install them. It judges by their output: the hammer's exit status does not tell errors, and fsck's tells nothing.
//
// It measures nothing: bench/tlog does.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

const resultsHead = `# Conformance of the tlog door

Written by ` + "`make conformance DOOR=tlog`" + ` (conformance/tlog). Tessera's own tools at v1.0.4, unchanged, against one server and the four
places its log can be read at: the door, static files, a bucket of S3, and a MariaDB read through Tessera's conformance-mysql
v1.0.2 by a user who may only SELECT. A hammer passed if it reached its goal without a line of warnings or errors (those about requests
it cancels itself once it is there do not count), fsck if it names the size of the checkpoint that was fetched before.

`

func main() {
	quick := flag.Bool("quick", false, "a tenth of the leaves, nothing is killed, no database unless MariaDB is installed, no table")
	tools := flag.String("tools", "build/peers/tessera", "where scripts/tessera.sh put the tools")
	bin := flag.String("holdfast", "bin/holdfast", "the server")
	table := flag.String("results", "conformance/RESULTS-tlog.md", "where a run that is not quick writes its table")
	flag.Parse()
	if err := run(*tools, *bin, *table, *quick); err != nil {
		fmt.Fprintln(os.Stderr, "tlog conformance:", err)
		os.Exit(1)
	}
}

func run(tools, bin, table string, quick bool) error {
	dir, err := os.MkdirTemp("", "tlog-conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bucket, err := newBucket()
	if err != nil {
		return err
	}
	defer bucket.close()
	s := &suite{tools: tools, bin: bin, dir: dir, leaves: 30000}
	if quick {
		s.leaves = 3000
	}
	db, err := newDatabase(s)
	switch {
	case err != nil && quick:
		fmt.Printf("left out: everything over MySQL: %v\n", err)
	case err != nil:
		return err
	default:
		defer db.close()
	}
	if err := s.serve(bucket, db); err != nil {
		return err
	}
	defer s.cluster.Close()

	s.load()
	for _, p := range s.places {
		s.steps.Do("integration test, "+p.name, func() (string, error) { return s.integration(p) })
	}
	for _, p := range s.places {
		s.steps.Do("fsck, "+p.name, func() (string, error) { return s.fsck(p) })
	}
	for _, p := range s.places {
		s.steps.Do("holdfast tlog verify, "+p.name, func() (string, error) { return s.verify(p) })
	}
	s.steps.Do("verifier in Python", func() (string, error) { return s.python(s.places[0]) })
	s.steps.Do("the bucket beside the files", func() (string, error) {
		return s.compare(bucket, "live", filepath.Join(dir, "live"), false)
	})
	s.steps.Do("a public log by the runbook", s.public)
	s.steps.Do("both published anew", func() (string, error) { return s.anew(bucket) })
	if db != nil && !quick {
		s.steps.Do("MariaDB killed under load", func() (string, error) { return db.underLoad() })
		for _, victim := range []string{"Holdfast", "MariaDB"} {
			s.steps.Do(victim+" killed in a transaction", func() (string, error) { return db.inTransaction(victim == "Holdfast") })
		}
	}
	if !quick {
		if err := s.steps.Write(table, resultsHead); err != nil {
			return err
		}
	}
	passed, failed := s.steps.Count()
	if failed > 0 {
		return fmt.Errorf("%d of %d failed", failed, passed+failed)
	}
	fmt.Printf("%d passed\n", passed)
	return nil
}

// load has the hammer write to the door, in three ways.
func (s *suite) load() {
	s.steps.Do("hammer, 512 writers, 512 adds/s", func() (string, error) { return s.hammer("--max_write_ops=512") })
	s.steps.Do("hammer over HTTP/2", func() (string, error) { return s.hammer("--max_write_ops=5120", "--force_http2") })
	s.steps.Do("hammer with readers, large leaves", func() (string, error) {
		return s.hammer("--max_write_ops=5120", "--max_read_ops=500", "--num_readers_random=4", "--num_readers_full=4", "--leaf_min_size=1000")
	})
}

// anew publishes the whole log at once into an empty directory and an empty bucket, which must then be the same, path by path.
func (s *suite) anew(b *bucket) (string, error) {
	if err := s.restart("--tlog-publish", "file://"+filepath.Join(s.dir, "anew"), "--tlog-publish", b.place("anew").target); err != nil {
		return "", err
	}
	for _, p := range []place{{name: "files", url: "file://" + filepath.Join(s.dir, "anew")}, b.place("anew")} {
		if _, err := s.caughtUp(p); err != nil {
			return "", errors.Join(fmt.Errorf("%s: %w", p.name, err), errors.New(s.node().LogTail(5)))
		}
	}
	return s.compare(b, "anew", filepath.Join(s.dir, "anew"), true)
}
