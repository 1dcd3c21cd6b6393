// Command gotest is `go test` that names the packages which take longer than docs/TESTS.md allows, and the ten slowest tests.
//
//	go run ./internal/pace/gotest -timeout 60m ./...
//
// Its arguments are those of `go test`; it prints what that prints without -v, and ends with status 1 if a test failed. Time fails no run: a machine
// that is busy or small passes like any other, and -timeout ends what hangs. A result from the cache took no time.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/holdfastdb/holdfast/internal/pace"
)

const allowances = "docs/TESTS.md"

func main() {
	allowed, err := pace.Read(allowances, "Packages")
	if err != nil {
		fatal(err)
	}
	module, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		fatal(fmt.Errorf("go list -m: %w", err))
	}
	tests := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	tests.Stderr = os.Stderr
	out, err := tests.StdoutPipe()
	if err != nil {
		fatal(err)
	}
	if err := tests.Start(); err != nil {
		fatal(err)
	}
	r := newReport(strings.TrimSpace(string(module)), os.Stdout)
	readErr := r.read(out)
	failed := tests.Wait() != nil // it has said what
	r.slowest(10)
	r.judge(allowed)
	switch {
	case readErr != nil:
		fatal(readErr)
	case failed:
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "gotest:", err)
	os.Exit(1)
}
