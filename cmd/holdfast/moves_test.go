package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/doors/kv/etcd"
	"github.com/holdfastdb/holdfast/doors/kv/etcd/flags"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/server"
)

// trio is three members in this process, under `holdfast serve` or under the name etcd.
type trio struct {
	t     *testing.T
	etcd  bool
	more  []string            // flags of each start
	peers map[string]string   // name → where it is dialled
	dirs  map[string]string   // name → data directory
	ports map[string]string   // name → kv
	admin map[string]string   // name → operators
	logs  map[string]*heard   // name → log
	nodes map[string]*running // name → those that run
	// override is HOLDFAST_PEER_OVERRIDE of the next start.
	override map[uint64]string
}

var trioNames = []string{"n1", "n2", "n3"}

// newTrio starts three members with flags in addition.
func newTrio(t *testing.T, etcd bool, more ...string) *trio {
	t.Helper()
	c := &trio{t: t, etcd: etcd, more: more, peers: map[string]string{}, dirs: map[string]string{}, ports: map[string]string{}, admin: map[string]string{},
		logs: map[string]*heard{}, nodes: map[string]*running{}}
	for _, name := range trioNames {
		c.peers[name], c.ports[name], c.admin[name], c.dirs[name], c.logs[name] = freeAddr(t), freeAddr(t), freeAddr(t), t.TempDir(), &heard{}
	}
	c.begin(func(name string) []string { return c.args(name, c.list()) })
	return c
}

// begin starts all at once with these flags, and waits until they are ready.
func (c *trio) begin(args func(name string) []string) {
	c.t.Helper()
	type started struct {
		name string
		r    *running
		err  error
	}
	all := make(chan started)
	for _, name := range trioNames {
		given := args(name)
		go func() {
			r, err := c.start(name, given...)
			all <- started{name, r, err}
		}()
	}
	for range trioNames {
		s := <-all
		if s.err != nil {
			c.t.Fatalf("%s: %v", s.name, s.err)
		}
		c.nodes[s.name] = s.r
	}
}

// list is the members as --peers or --initial-cluster has them.
func (c *trio) list() string {
	var parts []string
	for _, name := range trioNames {
		at := c.peers[name]
		if c.etcd {
			at = c.scheme() + at
		}
		parts = append(parts, name+"="+at)
	}
	return strings.Join(parts, ",")
}

func (c *trio) scheme() string {
	if slices.ContainsFunc(c.more, func(f string) bool { return strings.Contains(f, "-ca") || strings.Contains(f, "trusted-ca") }) {
		return "https://"
	}
	return "http://"
}

// args are the flags of a member where it is now; list "" leaves the list of members away.
func (c *trio) args(name, list string) []string {
	var args []string
	if c.etcd {
		at := c.scheme() + c.peers[name]
		args = []string{"--name=" + name, "--data-dir=" + c.dirs[name], "--listen-client-urls=http://" + c.ports[name], "--advertise-client-urls=http://" + c.ports[name],
			"--listen-peer-urls=" + at, "--initial-advertise-peer-urls=" + at}
		if list != "" {
			args = append(args, "--initial-cluster="+list)
		}
	} else {
		args = []string{"--name", name, "--data", c.dirs[name], "--kv", c.ports[name], "--admin", c.admin[name]}
		if list != "" {
			args = append(args, "--peers", list)
		}
	}
	return append(args, c.more...)
}

// start starts one member and returns when it is ready.
func (c *trio) start(name string, args ...string) (*running, error) {
	log := slog.New(slog.NewTextHandler(c.logs[name], nil))
	var su *server.Setup
	if c.etcd {
		s, err := flags.Parse(args, nil, os.ReadFile)
		if err != nil {
			return nil, err
		}
		if su, err = etcd.Setup(all, s, server.Memory{Bytes: 128 << 20}, log); err != nil {
			return nil, err
		}
		su.Join.PeerOverride = c.override
	} else {
		cfg, err := load(args...)
		if err != nil {
			return nil, err
		}
		if su, err = cfg.Setup(log); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(c.t))
	defer cancel()
	r := &running{kvAddr: c.ports[name], adminAddr: c.admin[name], data: c.dirs[name], setup: su}
	var err error
	if r.Server, err = server.Start(ctx, su, log); err == nil {
		c.t.Cleanup(r.stop)
	}
	return r, err
}

func (c *trio) restart(name string, args ...string) {
	c.t.Helper()
	c.nodes[name].stop()
	r, err := c.start(name, args...)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	c.nodes[name] = r
}

// stop ends all.
func (c *trio) stop() {
	for _, name := range trioNames {
		c.nodes[name].stop()
	}
}

// serves writes and reads through every member.
func (c *trio) serves(value string) {
	c.t.Helper()
	for _, name := range trioNames {
		client := c.nodes[name].client(c.t, nil)
		if _, err := client.Put(timely(c.t), name, value); err != nil {
			c.t.Fatalf("put through %s: %v", name, err)
		}
		if got, err := client.Get(timely(c.t), name); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value {
			c.t.Fatalf("%s: %v, %v", name, got, err)
		}
	}
}

// idOf is a member's id.
func (c *trio) idOf(name string) uint64 {
	_, id := c.nodes[name].Node().IDs()
	return id
}

// inTheLog waits until every member has the present addresses of all.
func (c *trio) inTheLog() {
	c.t.Helper()
	for _, name := range trioNames {
		wait.Until(c.t, name+" knows all addresses", func() bool {
			for _, m := range c.nodes[name].Node().Members() {
				if strings.Join(m.PeerURLs, ",") != c.scheme()+c.peers[m.Name] {
					return false
				}
			}
			return true
		})
	}
}

// secured are flags for TLS between members.
func secured(t *testing.T, etcd bool) []string {
	a := newAuthority(t)
	cert, key := a.issue(t, "member", 2)
	ca := filepath.Join(a.dir, "ca.pem")
	if etcd {
		return []string{"--peer-cert-file=" + cert, "--peer-key-file=" + key, "--peer-trusted-ca-file=" + ca, "--peer-client-cert-auth"}
	}
	return []string{"--peer-tls-cert", cert, "--peer-tls-key", key, "--peer-tls-ca", ca}
}

// step is a line of the runbook, which must stand in docs/operations/cluster.md as it is here, with words replaced.
func step(t *testing.T, line string, words map[string]string) []string {
	t.Helper()
	b, err := os.ReadFile("../../docs/operations/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(strings.Split(string(b), "\n"), func(l string) bool { return strings.TrimSpace(l) == line }) {
		t.Fatalf("the runbook has no line %q", line)
	}
	for _, word := range slices.Sorted(maps.Keys(words)) {
		line = strings.ReplaceAll(line, word, words[word])
	}
	return strings.Fields(line)[2:] // without "holdfast serve"
}

// The runbook "Move a member, renumber the cluster" is carried out as it is written, with TLS between members. One moves, all move one
// after the other, and all at once, with the log's addresses or without any.
func TestTheRunbookMovesMembers(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false, secured(t, false)...)
	c.serves("begun")
	c.inTheLog()
	rest := func(name string) []string {
		return slices.Concat([]string{"--kv", c.ports[name], "--admin", c.admin[name]}, c.more)
	}
	move := func(name string) {
		c.peers[name] = freeAddr(t)
		c.restart(name, append(step(t, "holdfast serve --data DIR --name n3 --peer NEW", map[string]string{"DIR": c.dirs[name], "n3": name, "NEW": c.peers[name]}), rest(name)...)...)
		c.inTheLog()
		c.serves("moved " + name)
	}
	move("n3")
	move("n1")
	atOnce := func(what string, args func(name string) []string) {
		c.stop()
		c.begin(args)
		c.inTheLog()
		c.serves(what)
	}
	anew := func() {
		for _, name := range trioNames {
			c.peers[name] = freeAddr(t)
		}
	}
	atOnce("given", func(name string) []string {
		if name == "n1" {
			anew()
		}
		return append(step(t, "holdfast serve --data DIR --name n1 --peers n1=NEW1,n2=NEW2,n3=NEW3", map[string]string{"DIR": c.dirs[name], "--name n1": "--name " + name,
			"n1=NEW1,n2=NEW2,n3=NEW3": c.list()}), rest(name)...)
	})
	ids := map[string]string{}
	for i, name := range trioNames {
		ids[fmt.Sprintf("ID%d", i+1)] = fmt.Sprintf("%x", c.idOf(name))
	}
	atOnce("overridden", func(name string) []string {
		if name == "n1" {
			anew()
		}
		words := map[string]string{"DIR": c.dirs[name], "--name n1 --peer NEW1": "--name " + name + " --peer " + c.peers[name],
			"ID2=NEW2,ID3=NEW3": fmt.Sprintf("%s=%s,%s=%s,%s=%s", ids["ID1"], c.peers["n1"], ids["ID2"], c.peers["n2"], ids["ID3"], c.peers["n3"])}
		return append(step(t, "holdfast serve --data DIR --name n1 --peer NEW1 --peer-override ID2=NEW2,ID3=NEW3", words), rest(name)...)
	})
}

// Under the name etcd an address changes by `etcdctl member update` alone; the member is started there afterwards. Where all were started
// elsewhere without a word to the log, --initial-cluster or HOLDFAST_PEER_OVERRIDE says where.
func TestMembersMoveUnderTheNameEtcd(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"cleartext": nil, "TLS": secured(t, true)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, true, more...)
			update := func(name, through string) {
				if _, err := c.nodes[through].client(t, nil).MemberUpdate(timely(t), c.idOf(name), []string{c.scheme() + c.peers[name]}); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range trioNames { // one by one
				c.peers[name] = freeAddr(t)
				update(name, "n2")
				c.restart(name, c.args(name, "")...)
				c.serves("moved " + name)
			}
			c.inTheLog()
			for _, name := range trioNames { // the log first, then all at once
				c.peers[name] = freeAddr(t)
				update(name, "n1")
			}
			c.stop()
			c.begin(func(name string) []string { return c.args(name, "") })
			c.serves("updated")
			c.stop()
			for _, name := range trioNames { // without the log
				c.peers[name] = freeAddr(t)
			}
			c.begin(func(name string) []string { return c.args(name, c.list()) })
			for _, name := range trioNames {
				update(name, "n3")
			}
			c.inTheLog()
			c.override = map[uint64]string{}
			for _, name := range trioNames {
				c.peers[name] = freeAddr(t)
				c.override[c.idOf(name)] = c.peers[name]
			}
			c.stop()
			c.begin(func(name string) []string { return c.args(name, "") })
			c.serves("overridden")
		})
	}
}

// A member of three that is started with its data directory alone listens where the log has it. With --peer off it ends with a line.
func TestAMemberThatIsNotToldToListen(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	bare := func(more ...string) []string {
		return append([]string{"--data", c.dirs["n3"], "--kv", c.ports["n3"], "--admin", c.admin["n3"]}, more...)
	}
	c.restart("n3", bare()...)
	c.serves("heard")
	if text := c.logs["n3"].String(); !strings.Contains(text, "it listens for the others at its address in the log") || !strings.Contains(text, c.peers["n3"]) {
		t.Error(text)
	}
	c.nodes["n3"].stop()
	if _, err := c.start("n3", bare("--peer", "off")...); err == nil || !strings.Contains(err.Error(), "is one of 3 members, and --peer is off") ||
		!strings.Contains(err.Error(), "give --peer "+c.peers["n3"]) {
		t.Errorf("--peer off: %v", err)
	}
	c.restart("n3", bare("--peer", c.peers["n3"])...)
}

// A data directory that is another member's is refused, by name and by address, in one line that says whose it is. An unknown name is a
// warning.
func TestSwappedDirectoriesAreRefused(t *testing.T) {
	t.Parallel()
	for _, etcd := range []bool{false, true} {
		t.Run(fmt.Sprintf("etcd %t", etcd), func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, etcd)
			c.serves("begun")
			c.stop()
			c.dirs["n1"], c.dirs["n2"] = c.dirs["n2"], c.dirs["n1"]
			_, err := c.start("n1", c.args("n1", c.list())...)
			if err == nil || !strings.Contains(err.Error(), "data directory of member n2") || !strings.Contains(err.Error(), "names member n1") ||
				!strings.Contains(err.Error(), "the directories are swapped; start each member with its own") {
				t.Errorf("swapped: %v", err)
			}
			if !etcd {
				_, err = c.start("n1", "--data", c.dirs["n1"], "--kv", c.ports["n1"], "--admin", c.admin["n1"], "--peer", c.peers["n1"])
				if err == nil || !strings.Contains(err.Error(), "data directory of member n2") || !strings.Contains(err.Error(), "is the address of member n1") {
					t.Errorf("swapped, without a name: %v", err)
				}
			}
			c.dirs["n1"], c.dirs["n2"] = c.dirs["n2"], c.dirs["n1"]
			c.begin(func(name string) []string {
				args := c.args(name, "")
				if !etcd {
					args = append(args, "--peer", c.peers[name])
				}
				if name == "n3" {
					args = append(args, "--name", "other")
				}
				return args
			})
			c.serves("back")
			if text := c.logs["n3"].String(); strings.Count(text, "data directory is of a member with another name") != 1 {
				t.Error(text)
			}
		})
	}
}
