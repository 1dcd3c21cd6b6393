package main

import (
	"os"

	"github.com/holdfastdb/holdfast/internal/results"
)

const resultsHead = `# Random v2 requests against etcd 3.4

Written by ` + "`make conformance`" + ` (conformance/v2diff): the same random scripts of HTTP requests to Debian's etcd with its v2 API and to
Holdfast, clusters of the same size. Status, headers and body are compared; ids and times are left out, indexes count from the
script's first, and listings that nobody asked to be sorted are sets. A run of one size of cluster replaces its line only.

`

// write puts the run into the table, keeping the rows of other sizes of cluster.
func write(file string, run *results.Scripts) error {
	t, _, err := run.Table(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(resultsHead+t.String()), 0o644)
}
