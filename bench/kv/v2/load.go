package v2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// loaded is what a load tool reported, or several that ran at the same time.
type loaded struct {
	count     int64         // answers, all of status 200 or 201
	perSecond float64       // as the tool has it
	p90       float64       // milliseconds; of several runs the mean, weighted by answers
	size      int64         // bytes of an answer's body, 0 if the tool does not tell
	cpu       time.Duration // of the tool itself
}

// load runs the cell's tool against every address at the same time and adds up.
func (cfg *Config) load(ctx context.Context, c Cell, addrs []string) (*loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cfg.Seconds)*time.Second+30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	runs, errs := make([]*loaded, len(addrs)), make([]error, len(addrs))
	for i, addr := range addrs {
		wg.Go(func() { runs[i], errs[i] = cfg.load1(ctx, c, addr) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	sum := &loaded{size: runs[0].size}
	for _, l := range runs {
		sum.count += l.count
		sum.perSecond += l.perSecond
		sum.p90 += l.p90 * float64(l.count)
		sum.cpu += l.cpu
		if c.Op == "read" && l.size != sum.size { // a write's answer has an index in it, a digit longer on one member than on another
			return nil, fmt.Errorf("answers of %d bytes here and of %d there", sum.size, l.size)
		}
	}
	sum.p90 /= float64(sum.count)
	return sum, nil
}

func (cfg *Config) load1(ctx context.Context, c Cell, addr string) (*loaded, error) {
	url, clients, seconds := "http://"+addr+keyPath, strconv.Itoa(c.perMember()), strconv.Itoa(cfg.Seconds)+"s"
	var cmd *exec.Cmd
	parse := parseHey
	switch {
	case c.Tool == "wrk":
		threads := strconv.Itoa(min(2, c.perMember()))
		cmd = exec.CommandContext(ctx, cfg.Wrk, "-t", threads, "-c", clients, "-d", seconds, "--latency", url)
		parse = parseWrk
	case c.Op == "read":
		cmd = exec.CommandContext(ctx, cfg.Hey, "-z", seconds, "-c", clients, url)
	default:
		// Without the content type of a form the value is empty, as it was in the first tables etcd published.
		cmd = exec.CommandContext(ctx, cfg.Hey, "-z", seconds, "-c", clients, "-m", "PUT", "-T", "application/x-www-form-urlencoded",
			"-d", "value="+value(c.Size), url)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", c.Tool, err, out.String()+errs.String())
	}
	l, err := parse(out.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w:\n%s", c.Tool, err, out.String())
	}
	l.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return l, nil
}

// value is what is written: letters, so that a form carries them as they are.
func value(size int) string { return strings.Repeat("v", size) }

var (
	errIncomplete = errors.New("the summary is not complete")
	errStatus     = errors.New("not every answer has status 200 or 201")
)

// parseHey reads hey's summary. hey counts failed requests as requests: what counts is its list of statuses.
func parseHey(out string) (*loaded, error) {
	l := &loaded{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 2 && f[0] == "Requests/sec:":
			l.perSecond, _ = strconv.ParseFloat(f[1], 64) // 0 is refused below
		case len(f) >= 2 && f[0] == "Size/request:":
			l.size, _ = strconv.ParseInt(f[1], 10, 64) // 0 is refused by who knows the size
		case len(f) >= 3 && f[0] == "90%" && f[1] == "in":
			d, err := time.ParseDuration(f[2] + "s")
			if err != nil {
				return nil, errIncomplete
			}
			l.p90 = float64(d) / float64(time.Millisecond)
		case len(f) == 3 && f[2] == "responses":
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil || f[0] != "[200]" && f[0] != "[201]" {
				return nil, errStatus
			}
			l.count += n
		case strings.HasPrefix(line, "Error distribution:"):
			return nil, errStatus
		}
	}
	if l.perSecond <= 0 || l.count <= 0 || !strings.Contains(out, "90% in") {
		return nil, errIncomplete
	}
	return l, nil
}

var wrkCount = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)

// parseWrk reads wrk's summary.
func parseWrk(out string) (*loaded, error) {
	if strings.Contains(out, "Non-2xx") || strings.Contains(out, "Socket errors:") {
		return nil, errStatus
	}
	l := &loaded{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "Requests/sec:":
			l.perSecond, _ = strconv.ParseFloat(f[1], 64) // 0 is refused below
		case len(f) == 2 && f[0] == "90%":
			d, err := time.ParseDuration(f[1])
			if err != nil {
				return nil, errIncomplete
			}
			l.p90 = float64(d) / float64(time.Millisecond)
		}
	}
	if m := wrkCount.FindStringSubmatch(out); m != nil {
		l.count, _ = strconv.ParseInt(m[1], 10, 64) // 0 is refused below
	}
	if l.perSecond <= 0 || l.count <= 0 || l.p90 <= 0 {
		return nil, errIncomplete
	}
	return l, nil
}
