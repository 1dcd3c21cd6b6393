package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// abClients is the published number.
const abClients = 20

// applied is what a run of ApacheBench said.
type applied struct {
	answered      int // all with status 2xx
	perSecond     float64
	p50, p99, max float64       // ms
	cpu           time.Duration // of the tool
}

// ab runs ApacheBench as the report does, a connection for each request. -t alone would end it after 50,000 requests.
func ab(ctx context.Context, during time.Duration, url, percentiles string) (*applied, error) {
	ctx, cancel := context.WithTimeout(ctx, during+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ab", "-q", "-t", strconv.Itoa(int(during.Seconds())), "-n", "1000000", "-c", strconv.Itoa(abClients),
		"-e", percentiles, url)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ab: %w\n%s", err, errs.String())
	}
	a, err := parseAB(out.String())
	if err != nil {
		return nil, fmt.Errorf("ab: %w:\n%s", err, out.String())
	}
	table, err := os.ReadFile(percentiles)
	if err != nil {
		return nil, err
	}
	if err := a.times(string(table)); err != nil {
		return nil, err
	}
	a.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return a, nil
}

var errVoid = errors.New("a request failed: the run is void")

// parseAB reads the summary. ApacheBench counts a refused or failed request as one like all others: a dead coordinator is its fastest.
func parseAB(out string) (*applied, error) {
	a := &applied{}
	failed := -1
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "100%" {
			a.max, _ = strconv.ParseFloat(f[1], 64) // whole milliseconds; 0 is refused below
		}
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if !ok || len(f) == 0 {
			continue
		}
		var err error
		switch name {
		case "Complete requests":
			a.answered, err = strconv.Atoi(f[0])
		case "Failed requests":
			failed, err = strconv.Atoi(f[0])
		case "Requests per second":
			a.perSecond, err = strconv.ParseFloat(f[0], 64)
		case "Non-2xx responses", "Write errors":
			return nil, errVoid
		}
		if err != nil {
			return nil, fmt.Errorf("%w in %q", err, line)
		}
	}
	if failed > 0 {
		return nil, errVoid
	}
	if failed < 0 || a.answered == 0 || a.perSecond <= 0 || a.max == 0 {
		return nil, errors.New("the summary is not complete")
	}
	return a, nil
}

// times reads the table of -e: in how many milliseconds so many of a hundred requests were answered.
func (a *applied) times(table string) error {
	for line := range strings.Lines(table) {
		percent, ms, ok := strings.Cut(strings.TrimSpace(line), ",")
		into := map[string]*float64{"50": &a.p50, "99": &a.p99}[percent]
		if !ok || into == nil {
			continue
		}
		var err error
		if *into, err = strconv.ParseFloat(ms, 64); err != nil {
			return fmt.Errorf("ab's percentiles: %w in %q", err, line)
		}
	}
	if a.p50 == 0 || a.p99 == 0 {
		return errors.New("ab's percentiles are not complete")
	}
	return nil
}
