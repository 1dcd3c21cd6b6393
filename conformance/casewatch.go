package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
