package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// jetcd is a process with one client of jetcd and its watches (Jetcd.java).
type jetcd struct {
	cmd *exec.Cmd
	in  io.Closer
	out bytes.Buffer
	log string // file of its complaints
}

// jetcdKey is what the i-th watch watches.
func jetcdKey(i int) string { return fmt.Sprintf("/jetcd/%d", i) }

const jars = "build/suites/jetcd"

// startJetcd starts it with so many watches from a revision on. It does not wait for them.
func startJetcd(log, address string, watches int, revision int64) (*jetcd, error) {
	if _, err := os.Stat(jars); err != nil {
		return nil, fmt.Errorf("%w; run scripts/jetcd.sh", err)
	}
	said, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	j := &jetcd{log: log, cmd: exec.Command("java", "-cp", jars+"/*", "conformance/kube/Jetcd.java", address, strconv.Itoa(watches), strconv.FormatInt(revision, 10))}
	j.cmd.Stdout, j.cmd.Stderr = &j.out, said
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return j, j.cmd.Start()
}

// said is what it has complained about.
func (j *jetcd) said() string {
	b, err := os.ReadFile(j.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-2000):]))
}

func (j *jetcd) kill() {
	_ = j.cmd.Process.Kill() // it may have ended
	_ = j.cmd.Wait()
}

// finish gives the last events a moment, ends the process, and compares what its watches have told with how often their keys were put.
func (j *jetcd) finish(put int) (string, error) {
	time.Sleep(2 * time.Second)
	if err := errors.Join(j.in.Close(), j.cmd.Wait()); err != nil {
		return "", fmt.Errorf("%w; it wrote %s", err, j.said())
	}
	var events, wrong, ended int
	if _, err := fmt.Sscan(j.out.String(), &events, &wrong, &ended); err != nil {
		return "", fmt.Errorf("it said %q: %w", j.out.String(), err)
	}
	if events != put || wrong > 0 || ended > 0 {
		return "", fmt.Errorf("%d of %d events, %d out of order, %d watches ended; it wrote %s", events, put, wrong, ended, j.said())
	}
	return fmt.Sprintf("all %d puts were told of once, in order, and none of its watches has ended", put), nil
}
