package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// cases in the order they run; those that change the cluster come last.
var cases = []testCase{
	{name: "put-get", run: putGet},
	{name: "get-options", run: getOptions},
	{name: "del", run: del},
	{name: "txn", run: txn},
	{name: "txn-errors", run: txnErrors},
	{name: "watch", run: watch},
	{name: "watch-history", run: watchHistory},
	{name: "watch-interactive", run: watchInteractive},
	{name: "lease", run: lease},
	{name: "lease-expiry", run: leaseExpiry},
	{name: "lock", run: lock},
	{name: "elect", run: elect},
	{name: "compaction", run: compaction},
	{name: "member-list", run: memberList},
	{name: "member-errors", run: memberErrors},
	{name: "endpoint-health", run: endpointHealth},
	{name: "endpoint-status", run: endpointStatus, alone: true},
	{name: "endpoint-hashkv", run: endpointHashKV, alone: true},
	{name: "alarm-defrag", run: alarmDefrag},
	{name: "auth-status", run: authStatus, only: "etcdctl-3.7.3"},
	{name: "auth", run: auth, slow: true},
	{name: "gateway", run: gateway, only: "etcdctl-3.7.3"},
	{name: "operators", run: operators, only: "etcdctl-3.7.3"},
	{name: "etcd3gw", run: etcd3gw, only: "etcdctl-3.7.3", slow: true, brief: true},
	{name: "snapshot-save", run: snapshotSave, alone: true},
	{name: "read-your-write", run: readYourWrite, alone: true, minNodes: 3},
	{name: "import-under-load", run: importUnderLoad, alone: true},
	{name: "import-secured", run: importSecured, alone: true, slow: true},
	{name: "check-perf-s", run: func(e *env) { checkPerf(e, "s") }, alone: true, slow: true},
	{name: "check-perf-m", run: func(e *env) { checkPerf(e, "m") }, alone: true, slow: true},
	{name: "move-leader", run: moveLeader, alone: true, minNodes: 3},
	{name: "member-change", run: memberChange, alone: true, minNodes: 3},
}

func putGet(e *env) {
	e.show("put", e.k("a"), "1", "-w", "json")
	e.show("get", e.k("a"))
	e.show("get", e.k("a"), "-w", "json")
	e.show("put", e.k("a"), "2", "--prev-kv")
	e.show("put", e.k("a"), "3", "--prev-kv", "-w", "json")
	e.show("get", e.k("a"), "-w", "json")
	e.show("get", e.k("a"), "--rev="+e.rev(1), "-w", "json")
	e.show("get", e.k("a"), "--rev="+e.rev(2))
	e.show("get", e.k("a"), "--rev="+e.rev(1000))
	e.show("get", e.k("a"), "--consistency=s")
	e.show("get", e.k("missing"), "-w", "json")
	e.feed("from standard input\nsecond line", "put", e.k("b"))
	e.show("get", e.k("b"))
	e.show("put", e.k("empty"), "")
	e.show("get", e.k("empty"), "-w", "json")
	e.show("put", "", "x")
	e.show("put", e.k("new"), "--ignore-value")
	e.show("put", e.k("new"), "v", "--ignore-lease")
	e.show("put", e.k("a"), "--ignore-value", "-w", "json")
	e.show("get", e.k("a"), "-w", "json")
	e.show("put", e.k("a"), "v", "--lease=1234567")
	e.show("put", e.k("large"), strings.Repeat("x", 100<<10))
	e.show("get", e.k("large"), "--print-value-only")
}

func getOptions(e *env) {
	for i, name := range []string{"c", "a", "e", "b", "d"} {
		e.show("put", e.k(name), strconv.Itoa(9-i))
	}
	e.show("put", e.k("a"), "again")
	e.show("get", e.k(""), "--prefix")
	e.show("get", e.k(""), "--prefix", "-w", "json")
	e.show("get", e.k(""), "--prefix", "--keys-only")
	e.show("get", e.k(""), "--prefix", "--keys-only", "-w", "json")
	e.show("get", e.k(""), "--prefix", "--print-value-only")
	e.show("get", e.k(""), "--prefix", "--limit=2", "-w", "json")
	e.show("get", e.k(""), "--prefix", "--limit=5", "-w", "json")
	e.show("get", e.k("b"), e.k("d"))
	e.show("get", e.k("d"), e.k("b"), "-w", "json")
	e.show("get", e.k("b"), "--from-key", "--limit=3")
	for _, target := range []string{"CREATE", "KEY", "MODIFY", "VALUE", "VERSION"} {
		for _, order := range []string{"ASCEND", "DESCEND"} {
			e.show("get", e.k(""), "--prefix", "--sort-by="+target, "--order="+order, "--keys-only")
			e.show("get", e.k(""), "--prefix", "--sort-by="+target, "--order="+order, "--keys-only", "--limit=2", "-w", "json")
		}
	}
	e.show("get", e.k(""), "--prefix", "--rev="+e.rev(3), "-w", "json")
	if e.tool.name != "etcdctl-3.4" {
		e.show("get", e.k(""), "--prefix", "--count-only", "-w", "json")
		e.show("get", e.k(""), "--prefix", "--count-only", "--limit=2", "-w", "json")
		e.show("get", e.k(""), "--prefix", "--min-mod-rev="+e.rev(4), "--keys-only")
		e.show("get", e.k(""), "--prefix", "--max-mod-rev="+e.rev(4), "--keys-only", "-w", "json")
		e.show("get", e.k(""), "--prefix", "--min-create-rev="+e.rev(3), "--max-create-rev="+e.rev(4), "--keys-only")
	}
}

func del(e *env) {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		e.show("put", e.k(name), "v"+name)
	}
	e.show("del", e.k("a"), "-w", "json")
	e.show("get", e.k("a"), "-w", "json")
	e.show("get", e.k("a"), "--rev="+e.rev(5))
	e.show("del", e.k("a"), "-w", "json")
	e.show("del", e.k("b"), "--prev-kv", "-w", "json")
	e.show("del", e.k("c"), e.k("e"), "--prev-kv")
	e.show("get", e.k(""), "--prefix", "-w", "json")
	e.show("put", e.k("a"), "back", "-w", "json")
	e.show("get", e.k("a"), "-w", "json")
	e.show("del", e.k(""), "--prefix", "-w", "json")
	e.show("del", "", "-w", "json")
}

func txn(e *env) {
	run := func(script string) { e.feed(script, "txn", "-w", "json") }
	a, b := e.k("a"), e.k("b")
	run(fmt.Sprintf("create(%q) = \"0\"\n\nput %s 1\nput %s 2\n\nget %s\n\n", a, a, b, a))
	run(fmt.Sprintf("create(%q) = \"0\"\n\nput %s 1\n\nget %s\nget %s\n\n", a, a, a, b))
	run(fmt.Sprintf("value(%q) = \"1\"\nversion(%q) = \"1\"\nmod(%q) > \"0\"\n\nput %s 3\nget %s\ndel %s\nget %s\n\n\n", a, a, a, a, a, b, b))
	run(fmt.Sprintf("value(%q) < \"3\"\n\n\nget %s\n\n", a, a))
	run(fmt.Sprintf("value(%q) != \"x\"\n\nget %s\n\n\n", e.k("missing"), a))
	run(fmt.Sprintf("version(%q) = \"0\"\n\nget %s\n\n\n", e.k("missing"), a))
	run("\nget " + e.k("") + " --prefix\ndel " + e.k("") + " --prefix --prev-kv\nget " + e.k("") + " --prefix\n\n\n")
	run("\n\n\n")
	e.feed(fmt.Sprintf("\nput %s \"two words\" --prev-kv\n\n\n", a), "txn")
	e.feed(fmt.Sprintf("value(%q) = \"two words\"\n\nget %s\n\n\n", a, a), "txn")
	e.feed(fmt.Sprintf("mod(%q) = \"0\"\n\nput %s 9\n\nput %s 8\n\n", a, a, b), "txn", "-i")
	e.show("get", e.k(""), "--prefix", "-w", "json")
}

func txnErrors(e *env) {
	a := e.k("a")
	e.feed(fmt.Sprintf("\nput %s 1\nput %s 2\n\n\n", a, a), "txn")
	e.feed(fmt.Sprintf("\nput %s 1\ndel %s\n\n\n", a, a), "txn")
	e.feed(fmt.Sprintf("\ndel %s --prefix\nput %s 1\n\n\n", e.k(""), a), "txn")
	e.feed(fmt.Sprintf("\ndel %s\ndel %s\n\n\n", a, a), "txn", "-w", "json")
	e.feed(fmt.Sprintf("\nput %s 1\n\nput %s 2\n\n", a, a), "txn")
	e.feed(fmt.Sprintf("\nput %s --ignore-value\n\n\n", e.k("missing")), "txn")
	e.feed(fmt.Sprintf("\nput %s 1 --lease=1234567\n\n\n", a), "txn")
	e.feed(fmt.Sprintf("\nget %s --rev=%s\n\n\n", a, e.rev(1000)), "txn")
	var many strings.Builder
	many.WriteString("\n")
	for i := range 129 {
		fmt.Fprintf(&many, "put %s%d x\n", a, i)
	}
	e.feed(many.String()+"\n\n", "txn")
	e.show("get", e.k(""), "--prefix", "-w", "json")
}

func watch(e *env) {
	next := "--rev=" + e.rev(1)
	one := e.background("", "watch", e.k("a"), next)
	all := e.background("", "watch", e.k(""), "--prefix", "--prev-kv", next)
	some := e.background("", "watch", e.k("b"), e.k("d"), next, "-w", "json")
	e.show("put", e.k("a"), "1")
	e.show("put", e.k("b"), "2")
	e.show("put", e.k("a"), "3")
	e.show("put", e.k("c"), "4")
	e.show("put", e.k("d"), "5")
	e.show("del", e.k(""), "--prefix")
	e.feed(fmt.Sprintf("\nput %s x\nput %s y\n\n\n", e.k("a"), e.k("b")), "txn")
	one.lines(12)
	all.lines(43)
	// The original may put several revisions into one message or each into its own; the events are what counts.
	e.until("5 events from the watch of a range", 15*time.Second, func() bool { return strings.Count(some.output(), `"kv":`) >= 5 })
	one.stop()
	all.stop()
	out := some.output()
	some.e.want("watch of a range", out, `"kv"`)
	if n := strings.Count(out, `"kv":`); n != 5 && e.err == nil {
		e.failf("watch of a range: %d events, not 5: %s", n, out)
	}
	var quiet strings.Builder
	quiet.WriteString(e.text.String())
	some.stop()
	e.text.Reset()
	e.text.WriteString(quiet.String())
}

func watchHistory(e *env) {
	for i := range 5 {
		e.show("put", e.k("a"), strconv.Itoa(i))
	}
	e.show("del", e.k("a"))
	w := e.background("", "watch", e.k("a"), "--rev="+e.rev(2), "--prev-kv")
	w.lines(5 * 5)
	w.stop()
	e.show("compaction", e.rev(4))
	gone := e.background("", "watch", e.k("a"), "--rev="+e.rev(2))
	gone.ended(10 * time.Second)
	gone.stop()
	kept := e.background("", "watch", e.k("a"), "--rev="+e.rev(5))
	kept.lines(6)
	kept.stop()
	e.show("get", e.k("a"), "--rev="+e.rev(2))
	e.show("get", e.k("a"), "--rev="+e.rev(5))
}

func watchInteractive(e *env) {
	e.show("put", e.k("a"), "1")
	e.show("put", e.k("b"), "2")
	// Two watches over one command; the end of its input would end it.
	w := e.background(fmt.Sprintf("watch %s --rev=%s\n", e.k("a"), e.rev(1)), "watch", "-i")
	w.lines(3)
	w.enter(fmt.Sprintf("watch %s --rev=%s\n", e.k("b"), e.rev(1)))
	w.lines(6)
	w.stop()
}

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

func compaction(e *env) {
	for i := range 6 {
		e.show("put", e.k("a"), strconv.Itoa(i))
	}
	e.show("put", e.k("b"), "1")
	e.show("del", e.k("b"))
	e.show("compaction", e.rev(4))
	e.show("get", e.k("a"), "--rev="+e.rev(3))
	e.show("get", e.k("a"), "--rev="+e.rev(4), "-w", "json")
	e.show("get", e.k("a"), "--rev="+e.rev(5), "-w", "json")
	e.show("compaction", e.rev(4))
	e.show("compaction", e.rev(3))
	e.show("compaction", e.rev(1000))
	e.show("compaction", e.rev(8), "--physical")
	e.show("get", e.k(""), "--prefix", "--rev="+e.rev(8), "-w", "json")
	e.show("get", e.k("a"), "-w", "json")
	e.show("get", e.k("b"), "-w", "json")
}

func memberList(e *env) {
	lines := strings.Split(strings.TrimSpace(e.ok("member", "list")), "\n")
	slices.SortFunc(lines, func(a, b string) int { // by name: ids are random
		return strings.Compare(strings.SplitN(a, ", ", 3)[2], strings.SplitN(b, ", ", 3)[2])
	})
	fmt.Fprintln(&e.text, e.normal(strings.Join(lines, "\n")))
	var res struct{ Members []struct{ ID uint64 } }
	e.json(&res, "member", "list", "-w", "json")
	ids := make(map[uint64]bool)
	for _, m := range res.Members {
		ids[m.ID] = m.ID != 0
	}
	if e.err == nil && len(ids) != len(e.cluster.Nodes) {
		e.failf("%d different ids in %d members", len(ids), len(e.cluster.Nodes))
	}
}

func memberErrors(e *env) {
	// A member counts as healthy after five seconds of unbroken connection.
	if age := time.Since(e.cluster.began); age < 6*time.Second {
		time.Sleep(6*time.Second - age)
	}
	e.show("member", "add", "x", "--peer-urls=http://"+e.cluster.Nodes[0].Peer)
	e.show("member", "add", "x", "--peer-urls=")
	e.show("member", "add", "x", "--peer-urls=not-a-url")
	e.show("member", "remove", "123")
	e.show("member", "promote", "123")
	e.show("member", "promote", e.memberID(e.cluster.Nodes[0].Name))
	e.show("member", "update", "123", "--peer-urls=http://127.0.0.1:1")
	e.show("move-leader", "123")
	if len(e.cluster.Nodes) == 1 {
		e.show("member", "remove", e.memberID(e.cluster.Nodes[0].Name))
	}
}

// memberID finds a member's id, in hexadecimal, by its name.
func (e *env) memberID(name string) string {
	for line := range strings.Lines(e.ok("member", "list")) {
		if f := strings.Split(strings.TrimSpace(line), ", "); len(f) > 2 && f[2] == name {
			return f[0]
		}
	}
	e.failf("no member named %s", name)
	return "0"
}

func endpointHealth(e *env) {
	lines := strings.Split(strings.TrimSpace(e.ok("endpoint", "health")), "\n")
	for i := range lines {
		lines[i] = e.normal(lines[i])
	}
	slices.Sort(lines) // the answers come in any order
	fmt.Fprintln(&e.text, strings.Join(lines, "\n"))
	out := e.ok("endpoint", "health", "--cluster")
	fmt.Fprintln(&e.text, strings.Count(out, "is healthy"), "healthy members")
}

type endpointStatusJSON []struct {
	Endpoint string
	Status   struct {
		Header struct {
			ClusterID uint64 `json:"cluster_id"`
			MemberID  uint64 `json:"member_id"`
			Revision  int64
		}
		Version          string
		DBSize           int64 `json:"dbSize"`
		Leader           uint64
		RaftIndex        uint64
		RaftTerm         uint64
		RaftAppliedIndex uint64
	}
}

func (e *env) status() endpointStatusJSON {
	var all endpointStatusJSON
	e.json(&all, "endpoint", "status", "-w", "json")
	if e.err == nil && len(all) != len(e.cluster.Endpoints()) {
		e.failf("%d of %d endpoints answered", len(all), len(e.cluster.Endpoints()))
	}
	return all
}

func endpointStatus(e *env) {
	e.ok("put", e.k("a"), strings.Repeat("x", 1000))
	var members, leaders []uint64
	for _, s := range e.status() {
		if s.Status.Version == "" || s.Status.DBSize < 1000 || s.Status.RaftTerm == 0 || s.Status.RaftIndex < s.Status.RaftAppliedIndex {
			e.failf("%s: implausible status %+v", s.Endpoint, s.Status)
		}
		members, leaders = append(members, s.Status.Header.MemberID), append(leaders, s.Status.Leader)
	}
	if e.err == nil && (len(slices.Compact(slices.Sorted(slices.Values(members)))) != len(members) || len(slices.Compact(leaders)) != 1 ||
		!slices.Contains(members, leaders[0])) {
		e.failf("members %x name leaders %x", members, leaders)
	}
	for _, format := range []string{"simple", "table", "fields"} {
		e.want("endpoint status -w "+format, e.ok("endpoint", "status", "-w", format), e.cluster.Nodes[0].KV)
	}
}

func endpointHashKV(e *env) {
	e.ok("put", e.k("a"), "1")
	e.ok("put", e.k("a"), "2")
	type answer []struct {
		Endpoint string
		HashKV   struct {
			Hash            uint32
			CompactRevision int64 `json:"compact_revision"`
			Header          struct{ Revision int64 }
		}
	}
	hash := func(rev int64) uint32 {
		var all answer
		e.json(&all, "endpoint", "hashkv", "--rev", strconv.FormatInt(rev, 10), "-w", "json")
		for _, a := range all {
			if a.HashKV.Hash != all[0].HashKV.Hash || a.HashKV.Hash == 0 {
				e.failf("hashes at revision %d: %+v", rev, all)
			}
		}
		if e.err != nil || len(all) == 0 {
			e.failf("no hash at revision %d", rev)
			return 0
		}
		return all[0].HashKV.Hash
	}
	now := e.revision()
	before, older := hash(now), hash(now-1)
	if before == older {
		e.failf("the hash did not change with a write")
	}
	e.ok("put", e.k("a"), "3")
	if again := hash(now); again != before {
		e.failf("hash at revision %d changed from %d to %d with a later write", now, before, again)
	}
	e.ok("compaction", strconv.FormatInt(now, 10))
	if again := hash(now); again != before {
		e.failf("hash at revision %d changed from %d to %d with a compaction there", now, before, again)
	}
	out, code := e.exec(e.endpoint, "", "endpoint", "hashkv", "--rev", strconv.FormatInt(now-1, 10))
	if e.err == nil && code == 0 && !strings.Contains(out, "compacted") {
		e.failf("hash at a compacted revision: %q", out)
	}
}

func alarmDefrag(e *env) {
	e.show("alarm", "list")
	e.show("alarm", "disarm")
	e.show("defrag")
	e.show("put", e.k("a"), "after")
	e.show("get", e.k("a"))
}

func authStatus(e *env) { e.show("auth", "status") }

func snapshotSave(e *env) {
	for i := range 50 {
		e.ok("put", e.k(strconv.Itoa(i)), strings.Repeat("x", 500))
	}
	file := filepath.Join(e.dir, "snapshot")
	// One endpoint: the original refuses several here.
	out := e.okAt(e.cluster.Nodes[0].KV, "snapshot", "save", file)
	e.want("snapshot save", out, "Snapshot saved at "+file)
	st, err := os.Stat(file)
	if err != nil {
		e.failf("%w", err)
	} else if st.Size() < 20_000 || st.Size()%512 != 32 {
		e.failf("a snapshot of 50 keys with 500 bytes each has %d bytes", st.Size())
	}
	if e.holdfast == "" || e.err != nil {
		return
	}
	if out, err := exec.Command(e.holdfast, "snapshot", "restore", file, "--data", filepath.Join(e.dir, "never")).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "holdfast import --from") {
		e.failf("holdfast snapshot restore of etcd's file: %v\n%s", err, out)
		return
	}
	restored, err := proctest.New(e.dir, proctest.Holdfast(e.holdfast), 1)
	if err != nil {
		e.failf("%w", err)
		return
	}
	defer restored.Close()
	node := restored.Nodes[0]
	if out, err := exec.Command(e.holdfast, "import", "--from", file, "--data", node.Dir, "--name", node.Name).CombinedOutput(); err != nil {
		e.failf("holdfast import: %w\n%s", err, out)
		return
	}
	if err := restored.Run(); err != nil {
		e.failf("start from the imported snapshot: %w", err)
		return
	}
	if out := e.okAt(node.KV, "get", e.k(""), "--prefix", "--keys-only"); strings.Count(out, e.prefix) != 50 {
		e.failf("the restored server has other keys: %q", out)
	}
}

func readYourWrite(e *env) {
	for i := range 30 {
		from, to := e.cluster.Nodes[i%len(e.cluster.Nodes)], e.cluster.Nodes[(i+1)%len(e.cluster.Nodes)]
		value := strconv.Itoa(i)
		e.okAt(from.KV, "put", e.k("a"), value)
		if out := e.okAt(to.KV, "get", e.k("a"), "--print-value-only"); strings.TrimSpace(out) != value {
			e.failf("%s wrote %s, then %s read %q", from.Name, value, to.Name, out)
		}
	}
}

// verdicts are check perf's own; between them it draws a progress bar a thousand times.
var verdicts = regexp.MustCompile(`(PASS|FAIL|Slowest request|Stddev too)[^\r\n]*`)

func checkPerf(e *env, load string) {
	out, code := e.exec(e.endpoint, "", "check", "perf", "--load="+load, "--prefix="+e.k(""))
	said := verdicts.FindAllString(out, -1)
	if code != 0 || len(said) == 0 || slices.ContainsFunc(said, func(v string) bool { return strings.HasPrefix(v, "FAIL") }) {
		e.failf("check perf --load=%s: exit status %d: %s", load, code, strings.Join(said, "; "))
	}
}

func moveLeader(e *env) {
	for range 3 {
		var from, to string
		var target uint64
		for _, s := range e.status() {
			if s.Status.Header.MemberID == s.Status.Leader {
				from = s.Endpoint
			} else if to == "" {
				to, target = s.Endpoint, s.Status.Header.MemberID
			}
		}
		if e.err != nil {
			return
		}
		id := strconv.FormatUint(target, 16)
		out, code := e.exec(to, "", "move-leader", id)
		if code == 0 {
			e.failf("move-leader at a follower succeeded: %s", out)
		}
		e.want("move-leader", e.okAt(from, "move-leader", id), "Leadership transferred from")
		e.until("the new leader is known to all", 10*time.Second, func() bool {
			for _, s := range e.status() {
				if s.Status.Leader != target {
					return false
				}
			}
			return true
		})
		e.ok("put", e.k("a"), to)
	}
}

func memberChange(e *env) {
	e.ok("put", e.k("before"), "v")
	added, err := e.cluster.Join()
	if err != nil {
		e.failf("%w", err)
		return
	}
	defer func() {
		if err := e.cluster.Drop(added); err != nil {
			e.failf("%w", err)
		}
	}()
	url := "--peer-urls=http://" + added.Peer
	e.until("the members count as healthy", 20*time.Second, func() bool {
		out, code := e.exec(e.endpoint, "", "member", "add", added.Name, "--learner", url)
		if code != 0 && !strings.Contains(out, "unhealthy cluster") {
			e.failf("member add: %s", out)
		}
		return code == 0
	})
	id := ""
	for line := range strings.Lines(e.ok("member", "list")) {
		if strings.Contains(line, added.Peer) {
			id, _, _ = strings.Cut(line, ",")
			e.want("member list of one not started", line, "unstarted")
		}
	}
	out, code := e.exec(e.endpoint, "", "member", "promote", id)
	if code == 0 || !strings.Contains(out, "in sync with leader") {
		e.failf("promote of a learner that was never started: %q", out)
	}
	if e.err != nil {
		return
	}
	if err := added.Start(); err != nil {
		e.failf("%w", err)
		return
	}
	if err := e.cluster.WaitNode(added, 30*time.Second); err != nil {
		e.failf("%w", err)
		return
	}
	// A node started with --join is promoted by itself once it has caught up; by hand is no error until then.
	e.until("the learner is a voter", 20*time.Second, func() bool {
		e.exec(e.endpoint, "", "member", "promote", id)
		for line := range strings.Lines(e.ok("member", "list")) {
			if strings.HasPrefix(line, id) {
				return strings.HasSuffix(strings.TrimSpace(line), "false") && strings.Contains(line, "started")
			}
		}
		return false
	})
	if out := e.okAt(added.KV, "get", e.k("before"), "--print-value-only"); strings.TrimSpace(out) != "v" {
		e.failf("the new member reads %q", out)
	}
	e.okAt(added.KV, "put", e.k("after"), "w")
	e.want("member remove", e.ok("member", "remove", id), "removed from cluster")
	if strings.Contains(e.ok("member", "list"), id) {
		e.failf("the removed member is still listed")
	}
	if out := e.ok("get", e.k("after"), "--print-value-only"); strings.TrimSpace(out) != "w" {
		e.failf("after the removal the cluster reads %q", out)
	}
}
