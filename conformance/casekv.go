package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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
