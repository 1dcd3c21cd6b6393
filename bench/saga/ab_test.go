package main

import (
	"errors"
	"strings"
	"testing"
)

const abSaid = `This is ApacheBench, Version 2.3 <$Revision$>
Concurrency Level:      20
Time taken for tests:   10.003 seconds
Complete requests:      14242
Failed requests:        0
Requests per second:    1423.77 [#/sec] (mean)
Time per request:       14.047 [ms] (mean)

Percentage of the requests served within a certain time (ms)
  50%     13
  99%     41
 100%     97 (longest request)
`

// TestApacheBenchIsRead: its summary, and the finer times from its table.
func TestApacheBenchIsRead(t *testing.T) {
	a, err := parseAB(abSaid)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.times("Percentage served,Time in ms\n0,1.1\n50,12.875\n99,40.5\n"); err != nil {
		t.Fatal(err)
	}
	if *a != (applied{answered: 14242, perSecond: 1423.77, p50: 12.875, p99: 40.5, max: 97}) {
		t.Errorf("%+v", a)
	}
	for _, bad := range []string{"", "Percentage served,Time in ms\n50,12\n", "50,12\n99,x\n"} {
		if err := new(applied).times(bad); err == nil {
			t.Errorf("%q is read as a table", bad)
		}
	}
}

// TestARunWithOneFailedRequestIsVoid: a coordinator that is dead answers fastest of all.
func TestARunWithOneFailedRequestIsVoid(t *testing.T) {
	for _, said := range []string{
		strings.Replace(abSaid, "Failed requests:        0", "Failed requests:        1", 1),
		strings.Replace(abSaid, "Failed requests:        0\n", "Failed requests:        0\nNon-2xx responses:      3\n", 1),
		strings.Replace(abSaid, "Failed requests:        0\n", "Failed requests:        0\nWrite errors:           1\n", 1),
	} {
		if _, err := parseAB(said); !errors.Is(err, errVoid) {
			t.Errorf("%v:\n%s", err, said)
		}
	}
	for _, line := range []string{"Complete requests", "Failed requests", "Requests per second", " 100%"} {
		said := strings.ReplaceAll(abSaid, line, "Something else")
		if _, err := parseAB(said); err == nil {
			t.Errorf("read without %q", line)
		}
	}
}
