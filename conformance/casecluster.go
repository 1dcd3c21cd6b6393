package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

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
