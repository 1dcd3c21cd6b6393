package main

import (
	"fmt"
	"strings"
	"time"
)

// auth switches authentication on and off again, with its permissions. It must always leave the cluster open: the cases after it know no
// passwords.
func auth(e *env) {
	// One member: a token of the original's may not be known to the next one yet, and a keep-alive is not tried again.
	e.endpoint, _, _ = strings.Cut(e.endpoint, ",")
	defer func() {
		failed := e.err
		e.err = nil
		e.exec(e.endpoint, "", "--user", "root:rootpw", "auth", "disable")
		for _, c := range [][]string{{"user", "delete", "root"}, {"user", "delete", "alice"}, {"user", "delete", "cert"}, {"role", "delete", "root"},
			{"role", "delete", "reader"}} {
			e.exec(e.endpoint, "", c...)
		}
		e.err = failed
	}()
	a, b := e.k("a"), e.k("b")
	status := func() {
		if e.tool.name != "etcdctl-3.4" { // it does not know the word
			e.show("--user", "root:rootpw", "auth", "status")
		}
	}
	e.show("put", a, "1")
	e.show("put", b, "2")

	// Users and roles, before they count.
	e.show("auth", "disable")
	e.show("user", "add", "root:rootpw")
	e.show("user", "add", "root:other")
	e.show("user", "add", "alice:alicepw")
	e.show("user", "add", ":x")
	e.show("user", "add", "cert", "--no-password")
	e.show("user", "list")
	e.show("user", "list", "-w", "json")
	e.show("role", "add", "reader")
	e.show("role", "add", "reader")
	e.show("role", "add", "")
	e.show("role", "grant-permission", "reader", "read", a)
	e.show("role", "grant-permission", "reader", "readwrite", e.k("own/"), "--prefix")
	e.show("role", "grant-permission", "reader", "write", e.k("z"), e.k("b")) // ends before it begins
	e.show("role", "grant-permission", "nobody", "read", a)
	e.show("role", "get", "reader")
	e.show("role", "get", "reader", "-w", "json")
	e.show("role", "get", "nobody")
	e.show("role", "list")
	e.show("user", "grant-role", "alice", "reader")
	e.show("user", "grant-role", "alice", "reader")
	e.show("user", "grant-role", "alice", "nobody")
	e.show("user", "grant-role", "nobody", "reader")
	e.show("user", "get", "alice")
	e.show("user", "get", "alice", "--detail")
	e.show("user", "get", "nobody")
	e.show("user", "revoke-role", "alice", "root")
	e.show("auth", "enable") // the tool makes the role root and gives it to root, then asks again
	status()

	// The permissions of no user, of alice and of root.
	as := func(user string, args ...string) { e.show(append([]string{"--user", user}, args...)...) }
	e.show("get", a)
	e.show("put", a, "x")
	e.show("user", "list")
	e.show("member", "list")
	as("alice:wrong", "get", a)
	as("nobody:x", "get", a)
	as("cert:x", "get", a)
	for _, user := range []string{"alice:alicepw", "root:rootpw"} {
		as(user, "get", a)
		as(user, "put", a, "x")
		as(user, "get", b)
		as(user, "get", e.k(""), "--prefix")
		as(user, "put", e.k("own/1"), "v", "--prev-kv")
		as(user, "del", e.k("own/"), "--prefix")
		as(user, "del", e.k(""), "--prefix", "--prev-kv")
		as(user, "get", e.k("own/"), "--prefix", "-w", "json")
		for _, script := range []string{"value(%q) = \"1\"\n\nput %sown/1 v\n\n\n", "version(%q) = \"0\"\n\nput %sb v\n\n\n", "mod(%q) > \"0\"\n\nget %sown/1\n\nget x\n\n"} {
			e.feed(fmt.Sprintf(script, a, e.prefix), "--user", user, "txn")
		}
		e.feed(fmt.Sprintf("value(%q) = \"1\"\n\nget %s\n\n\n", b, a), "--user", user, "txn")
		as(user, "compaction", "1")
		as(user, "user", "list")
		as(user, "user", "get", "alice")
		as(user, "user", "get", "root")
		as(user, "role", "get", "reader")
		as(user, "role", "get", "root")
		as(user, "role", "list")
		as(user, "alarm", "list")
		as(user, "alarm", "disarm")
		as(user, "user", "add", "bob:x")
		as(user, "user", "delete", "bob")
		lease := e.leaseID(e.show("--user", user, "lease", "grant", "1000"))
		as(user, "put", e.k("own/leased"), "v", "--lease="+lease)
		as(user, "lease", "timetolive", lease, "--keys")
		as(user, "lease", "revoke", lease)
	}
	foreign := e.leaseID(e.show("--user", "root:rootpw", "lease", "grant", "1000"))
	as("root:rootpw", "put", b, "v", "--lease="+foreign)
	as("alice:alicepw", "put", e.k("own/1"), "v", "--lease="+foreign)
	as("alice:alicepw", "lease", "timetolive", foreign, "--keys")
	as("alice:alicepw", "lease", "timetolive", foreign)
	as("alice:alicepw", "lease", "keep-alive", "--once", foreign)
	as("alice:alicepw", "lease", "list")
	as("alice:alicepw", "lease", "revoke", foreign)
	as("root:rootpw", "lease", "revoke", foreign)

	// A watch is judged when it begins and goes on when the permission is gone.
	from := "--rev=" + e.rev(1)
	watching := e.background("", "--user", "alice:alicepw", "watch", e.k("own/"), "--prefix", from)
	as("alice:alicepw", "watch", b)
	as("root:rootpw", "put", e.k("own/watched"), "1")
	e.until("the watch shows the key", 15*time.Second, func() bool { return strings.Contains(watching.output(), "own/watched") })
	as("root:rootpw", "role", "revoke-permission", "reader", e.k("own/"), "--prefix")
	as("root:rootpw", "role", "revoke-permission", "reader", e.k("own/"), "--prefix")
	as("alice:alicepw", "put", e.k("own/1"), "v")
	as("root:rootpw", "put", e.k("own/later"), "1")
	e.until("the watch goes on", 15*time.Second, func() bool { return strings.Contains(watching.output(), "own/later") })
	watching.stop()

	// No command locks root out.
	as("root:rootpw", "user", "delete", "root")
	as("root:rootpw", "role", "delete", "root")
	as("root:rootpw", "user", "revoke-role", "root", "root")
	e.feed("newpw\n", "--user", "root:rootpw", "user", "passwd", "alice", "--interactive=false")
	as("alice:alicepw", "get", a)
	as("alice:newpw", "get", a)
	as("alice:newpw", "auth", "disable")
	as("root:rootpw", "role", "delete", "reader")
	as("root:rootpw", "user", "get", "alice")
	as("alice:newpw", "get", a)
	as("root:rootpw", "user", "delete", "alice")
	as("alice:newpw", "get", a)
	status()
	as("root:rootpw", "auth", "disable")
	e.show("get", b)
	e.show("user", "list")
	e.show("user", "delete", "cert")
	e.show("user", "delete", "root")
	e.show("role", "delete", "root")
	e.show("role", "list")
	if e.tool.name != "etcdctl-3.4" {
		e.show("auth", "status")
	}
}
