package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// order is what the process with the hanging services does.
type order struct {
	Way          way
	Saga         string // address
	Transactions int
}

// report is what it says once everything is submitted.
type report struct {
	Did, Err string
}

// hanging is that process, seen from outside. did is set before submitted is closed, and err as well.
type hanging struct {
	cmd       *exec.Cmd
	stay      io.Closer
	submitted chan struct{}
	did       string
	err       error
}

// begin starts a process of the lowest priority that obeys.
func begin(o *order) (*hanging, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	h := &hanging{cmd: exec.Command("nice", "-n", "19", self, "-hang", string(text)), submitted: make(chan struct{})}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if h.stay, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.submitted)
		line, err := bufio.NewReader(out).ReadString('\n')
		var r report
		if err == nil {
			err = json.Unmarshal([]byte(line), &r)
		}
		if h.did = r.Did; r.Err != "" {
			err = errors.New(r.Err)
		}
		if err != nil {
			h.err = fmt.Errorf("the hanging services: %w", err)
		}
	}()
	return h, nil
}

// failed is why not everything could be submitted, once submitted is closed.
func (h *hanging) failed() error { return h.err }

// end lets the process end: its services are gone then.
func (h *hanging) end() {
	_ = h.stay.Close()
	_ = h.cmd.Process.Kill() // it may have ended at the end of its input already
	_ = h.cmd.Wait()
}

// obey has services hang in this process, submits, says so, and stays until its input ends.
func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	var r report
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	services, err := o.Way.open(ctx)
	if err == nil {
		r.Did, err = submitAll(&o, services)
	}
	if err != nil {
		r.Err = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// submitters is how many transactions are submitted at a time, patient how often one that is refused for want of room is submitted again.
const submitters, patient = 16, 100

// submitAll submits every transaction, each of two steps at one service.
func submitAll(o *order, services []string) (string, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: submitters}, Timeout: time.Minute}
	began := time.Now()
	var next, refused atomic.Int64
	errs := make([]error, submitters)
	var wg sync.WaitGroup
	for w := range submitters {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < o.Transactions && errs[w] == nil; i = int(next.Add(1)) - 1 {
				body := o.Way.transaction(i, services[i%len(services)])
				for try := 0; ; try++ {
					status, text, err := post(client, "http://"+o.Saga+"/api/dtmsvr/submit", body)
					if err == nil && status == http.StatusOK {
						break
					}
					if refused.Add(1); err == nil && status == http.StatusTooManyRequests && try < patient {
						time.Sleep(100 * time.Millisecond)
						continue
					}
					errs[w] = fmt.Errorf("submit %d: %d %s %w", i, status, text, err)
					break
				}
			}
		})
	}
	wg.Wait()
	did := fmt.Sprintf("%d in %.1f s", o.Transactions, time.Since(began).Seconds())
	if n := refused.Load(); n > 0 {
		did += fmt.Sprintf(", %d refused once", n)
	}
	return did, errors.Join(errs...)
}

func post(client *http.Client, url, body string) (status int, text string, err error) {
	res, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}
