package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// foreign are clients that are not ours, unmodified: etcdctl, a process for each request, and jetcd in one process for the whole week. Both know
// every member that was there at their start.
type foreign struct {
	h        *house
	etcdctl  string
	java     []string // the command of the Java client without its arguments, nil: none
	stop     chan struct{}
	wg       sync.WaitGroup
	requests atomic.Int64

	mu    sync.Mutex
	acked []string // guarded by mu: keys
}

func newForeign(h *house, etcdctl string, java []string) *foreign {
	return &foreign{h: h, etcdctl: etcdctl, java: java, stop: make(chan struct{})}
}

func (f *foreign) begin(members []*member) error {
	var at []string
	for _, m := range members {
		at = append(at, "https://"+m.KV)
	}
	f.wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-f.stop:
				return
			case <-time.After(time.Second):
			}
			f.once(strings.Join(at, ","), fmt.Sprintf("week/etcdctl/%06d", n))
		}
	})
	if f.java == nil {
		return nil
	}
	return f.beginJava(strings.Join(at, ","))
}

func (f *foreign) ack(key string) {
	f.requests.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acked = append(f.acked, key)
}

func (f *foreign) once(at, key string) {
	bad := failure{client: "etcdctl", began: time.Now()}
	out, err := exec.Command(f.etcdctl, "--endpoints", at, "--cacert", f.h.frontCA, "put", key, "written").CombinedOutput()
	if err != nil {
		bad.text = fmt.Sprintf("%v: %s", err, lastLine(string(out)))
		f.h.journal.fail(bad)
		return
	}
	f.ack(key)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// beginJava runs the Java client, which prints a line for each put: ok or failed, how many milliseconds it took, the key, the error.
func (f *foreign) beginJava(at string) error {
	cmd := exec.Command(f.java[0], append(f.java[1:len(f.java):len(f.java)], at, f.h.frontCA)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.wg.Go(func() {
		<-f.stop
		_ = cmd.Process.Signal(syscall.SIGTERM)
	})
	f.wg.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			cells := strings.SplitN(lines.Text(), "\t", 4)
			if len(cells) < 3 {
				continue
			}
			if cells[0] == "ok" {
				f.ack(cells[2])
				continue
			}
			took, _ := time.ParseDuration(cells[1] + "ms") // a line that is not ours has no time
			f.h.journal.fail(failure{client: "jetcd", began: time.Now().Add(-took), text: cells[len(cells)-1]})
		}
		_ = cmd.Wait() // ended by our signal
	})
	return nil
}

func (f *foreign) end() {
	close(f.stop)
	f.wg.Wait()
}

// check reads what was acknowledged to them.
func (f *foreign) check(m *member) (note string, err error) {
	err = f.h.ask(func(ctx context.Context, c *clientv3.Client) error {
		found := map[string]bool{}
		for _, prefix := range []string{"week/etcdctl/", "week/jetcd/"} {
			res, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				return err
			}
			for _, kv := range res.Kvs {
				found[string(kv.Key)] = true
			}
		}
		for _, key := range f.acked {
			if !found[key] {
				return fmt.Errorf("%s was acknowledged and is missing", key)
			}
		}
		return nil
	}, m)
	return fmt.Sprintf("%d puts of etcdctl and jetcd acknowledged", len(f.acked)), err
}

// javaWriter is the command of Writer.java, nil where scripts/jetcd.sh has not brought its libraries.
func javaWriter(root string) []string {
	libraries := filepath.Join(root, "build/suites/jetcd")
	if all, _ := filepath.Glob(libraries + "/*.jar"); len(all) == 0 {
		return nil
	}
	return []string{"java", "-Xmx128m", "-cp", libraries + "/*", filepath.Join(root, "conformance/week/Writer.java")}
}
