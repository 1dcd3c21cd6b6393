package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// etcd3gwTests is how many tests etcd3gw 2.7.0 has. It skips most of them without a word when it finds no server, so the
// number that passes is the check.
const etcd3gwTests = 39

var pytestLine = regexp.MustCompile(`(?m)^\S*::(\w+::\w+) (PASSED|FAILED|SKIPPED|ERROR)`)

// etcd3gw runs the test suite of a Python client of the gateway against the first node. The transcript is each test's name
// and end, so that Holdfast is compared with the original test by test.
func etcd3gw(e *env) {
	if e.err != nil {
		return
	}
	server, _, _ := strings.Cut(e.endpoint, ",")
	port := server[strings.LastIndexByte(server, ':')+1:]
	python, err := filepath.Abs(filepath.Join(e.suites, "etcd3gw", "bin", "python"))
	if err != nil {
		e.failf("etcd3gw: %w", err)
		return
	}
	cmd := exec.Command(python, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--pyargs", "etcd3gw")
	cmd.Dir = e.dir
	cmd.Env = append(os.Environ(), "TOOZ_TEST_HTTP_URL=http://localhost:"+port, "TOOZ_TEST_ETCD_PORT="+port)
	// A watch that hears nothing waits for ever; the whole suite takes half a minute.
	limit := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() }) // it has ended if that fails
	out, err := cmd.CombinedOutput()
	limit.Stop()
	if cmd.ProcessState == nil {
		e.failf("etcd3gw: %w; run scripts/etcd3gw.sh", err)
		return
	}
	var ends []string
	passed := 0
	for _, m := range pytestLine.FindAllStringSubmatch(string(out), -1) {
		ends = append(ends, m[1]+" "+m[2])
		if m[2] == "PASSED" {
			passed++
		}
	}
	slices.Sort(ends)
	fmt.Fprintf(&e.text, "$ etcd3gw\n%s\n%d passed\n", strings.Join(ends, "\n"), passed)
	if passed != etcd3gwTests { // all pass against the original
		e.failf("etcd3gw: %d of %d tests passed, %d ran:\n%s", passed, etcd3gwTests, len(ends), tailLines(string(out), 30))
	}
}
