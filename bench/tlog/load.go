package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// load is the requests to a server.
type load struct {
	Tool    string `json:"load"` // withHammer, withOurs
	Writers int    `json:"writers"`
	Rate    int    `json:"offered_adds_per_second"` // 0: as many as the writers can
	// Published: with the flags of the published report and no others. Of the entries it sends then, the hammer repeats one in
	// ten, and conformance-posix drops those.
	Published bool `json:"published_flags,omitempty"`
}

// The tools.
const (
	withHammer = "hammer"
	withOurs   = "holdfast bench tlog"
)

// entryBytes is the length of an entry of ours. The hammer's have between one and ten or so.
const entryBytes = 64

// args is the command line of the load.
func (b *bench) args(l load, s *server, during time.Duration) []string {
	if l.Tool == withOurs {
		return []string{b.bin, "bench", "tlog", s.url, "--vkey", s.key, "--writers", fmt.Sprint(l.Writers), "--rate", fmt.Sprint(l.Rate),
			"--size", fmt.Sprint(entryBytes), "--duration", during.String(), "--verify", "none", "--json"}
	}
	most := l.Rate
	if most == 0 {
		most = 100000 // more than any server here takes: the hammer has no other way to express it
	}
	args := []string{filepath.Join(b.tools, "hammer"), "--log_public_key=" + s.key, "--log_url=" + s.url, "--max_read_ops=0",
		fmt.Sprintf("--num_writers=%d", l.Writers), fmt.Sprintf("--max_write_ops=%d", most), "--show_ui=false"}
	if !l.Published {
		args = append(args, "--dup_chance=0")
	}
	return args
}

// loaded is what a load said when it was over.
type loaded struct {
	warnings         int
	cpu              time.Duration // of the tool
	queue, integrate *Spread
}

// running is a load under way.
type running struct {
	tool         string
	cmd          *exec.Cmd
	said, figure bytes.Buffer // stderr and stdout; not read before done is closed
	done         chan struct{}
	err          error // how it ended; read after done
}

// begin starts a load that ends by itself or by end. The words of before stand before its command line.
func (b *bench) begin(ctx context.Context, l load, s *server, during time.Duration, before []string) (*running, error) {
	line := slices.Concat(before, b.args(l, s, during))
	r := &running{tool: l.Tool, cmd: exec.CommandContext(ctx, line[0], line[1:]...), done: make(chan struct{})}
	r.cmd.Stderr, r.cmd.Stdout = &r.said, &r.figure
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.done)
	}()
	return r, nil
}

// end sees the load out. The hammer is killed: it has no other end without a goal than one after which its status is 1.
func (r *running) end() (*loaded, error) {
	if r.tool == withHammer {
		select {
		case <-r.done:
			return nil, fmt.Errorf("the hammer ended before its time: %w: %s", r.err, lastLines(r.said.String()))
		default:
			_ = r.cmd.Process.Kill() // if it cannot be killed it has ended, and says so below
		}
	}
	<-r.done
	l := &loaded{cpu: r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime()}
	if r.tool == withHammer {
		l.warnings = hammerWarnings(r.said.String())
		return l, nil
	}
	return l, ourReport(l, r.err, r.said.String(), r.figure.Bytes())
}

// hammerWarnings counts the lines that say that something is wrong.
func hammerWarnings(said string) (n int) {
	for line := range strings.Lines(said) {
		if strings.ContainsRune("WEF", rune(line[0])) {
			n++
		}
	}
	return n
}

// ourReport reads the times and failures.
func ourReport(l *loaded, failed error, said string, figures []byte) error {
	var r struct {
		PushedBack int     `json:"pushed_back"`
		Failed     int     `json:"failed"`
		Queue      *Spread `json:"time_in_queue"`
		Integrate  *Spread `json:"time_to_integrate"`
	}
	if failed != nil {
		return fmt.Errorf("%s: %w: %s", withOurs, failed, lastLines(said))
	}
	if err := json.Unmarshal(figures, &r); err != nil {
		return fmt.Errorf("%s: %w in %q", withOurs, err, figures)
	}
	if r.Queue == nil || r.Integrate == nil {
		return errors.New(withOurs + ": no times in its report")
	}
	l.queue, l.integrate = r.Queue, r.Integrate
	l.warnings += r.PushedBack + r.Failed
	return nil
}

// lastLines of a program's output.
func lastLines(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return strings.Join(lines[max(len(lines)-5, 0):], "\n")
}
