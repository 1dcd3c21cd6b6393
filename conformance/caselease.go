package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// leaseID finds the id in "lease ID granted with TTL(…)".
func (e *env) leaseID(out string) string {
	f := strings.Fields(out)
	if len(f) < 2 || f[0] != "lease" {
		e.failf("no lease id in %q", out)
		return "0"
	}
	return f[1]
}

func lease(e *env) {
	id := e.leaseID(e.show("lease", "grant", "60"))
	e.show("put", e.k("b"), "2", "--lease="+id)
	e.show("put", e.k("a"), "1", "--lease="+id)
	e.show("get", e.k("a"), "-w", "json")
	e.show("lease", "timetolive", id, "--keys")
	e.show("lease", "timetolive", id)
	e.show("lease", "keep-alive", "--once", id)
	e.show("put", e.k("c"), "3", "--lease="+id)
	e.show("put", e.k("c"), "4")
	e.show("put", e.k("a"), "5", "--ignore-lease", "-w", "json")
	e.show("lease", "timetolive", id, "--keys")
	e.want("lease list", e.ok("lease", "list"), id)
	e.show("lease", "revoke", id)
	e.show("get", e.k(""), "--prefix", "-w", "json")
	e.show("lease", "revoke", id)
	e.show("lease", "timetolive", id)
	e.show("lease", "keep-alive", "--once", id)
	e.show("put", e.k("a"), "6", "--lease="+id)
	if strings.Contains(e.ok("lease", "list"), id) {
		e.failf("lease list still has the revoked lease")
	}
	e.show("lease", "grant", "10000000000")
}

func leaseExpiry(e *env) {
	granted := time.Now()
	short := e.leaseID(e.show("lease", "grant", "2"))
	kept := e.leaseID(e.show("lease", "grant", "2"))
	e.show("put", e.k("short"), "v", "--lease="+short)
	e.show("put", e.k("kept"), "v", "--lease="+kept)
	keeper := e.background("", "lease", "keep-alive", kept)
	e.until("the lease that nobody keeps expires", 10*time.Second, func() bool {
		return e.ok("get", e.k("short")) == ""
	})
	if age := time.Since(granted); age < 2*time.Second {
		e.failf("a lease of 2 s expired after %s", age)
	}
	time.Sleep(3 * time.Second)
	e.show("get", e.k("kept"))
	if keeper.cmd != nil {
		_ = keeper.cmd.Process.Kill() // how many times it printed is not part of the transcript
		<-keeper.done
	}
	e.show("lease", "timetolive", short)
	e.show("lease", "revoke", kept)
	e.show("get", e.k(""), "--prefix", "-w", "json")
}

func lock(e *env) {
	e.show("lock", e.k("l"), "--", "echo", "held")
	file := filepath.Join(e.dir, "order")
	script := fmt.Sprintf("echo in >>%s; sleep 0.3; echo out >>%s", file, file)
	var holders []*background
	for range 4 {
		holders = append(holders, e.background("", "lock", e.k("l"), "--", "sh", "-c", script))
	}
	for _, h := range holders {
		h.ended(20 * time.Second)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		e.failf("%w", err)
	}
	fmt.Fprintf(&e.text, "%s", b)
	if want := strings.Repeat("in\nout\n", 4); string(b) != want {
		e.failf("four holders of a lock did not take turns: %q", b)
	}
	// A holder that dies leaves the lock to the next one when its lease ends.
	dead := e.background("", "lock", "--ttl=2", e.k("l"))
	dead.lines(1)
	next := e.background("", "lock", e.k("l"), "--", "echo", "next")
	if dead.cmd != nil {
		_ = dead.cmd.Process.Kill() // as a crash does: no revoke is sent
		<-dead.done
	}
	next.ended(15 * time.Second)
	next.stop()
	e.show("get", e.k("l"), "--prefix", "--keys-only")
}

func elect(e *env) {
	first := e.background("", "elect", e.k("e"), "first")
	first.lines(2)
	watcher := e.background("", "elect", "-l", e.k("e"))
	watcher.lines(2)
	second := e.background("", "elect", e.k("e"), "second")
	time.Sleep(300 * time.Millisecond)
	if out := second.output(); out != "" {
		e.failf("the second candidate won while the first holds: %q", out)
	}
	first.stop() // resigns
	second.lines(2)
	watcher.lines(4)
	second.stop()
	watcher.stop()
}
