package machine

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// rig drives one machine.
type rig struct {
	*machinetest.Rig
	m *Machine
}

func newRig(t testing.TB) *rig { return openRig(t, store.NewMem(), Options{}) }

func openRig(t testing.TB, st store.Store, opt Options) *rig {
	t.Helper()
	m := New(opt)
	r := &rig{machinetest.Open(t, st, m), m}
	r.Tick = 1000
	return r
}

// reopen is a restart that lost nothing: a new machine over the same store.
func (r *rig) reopen(opt Options) {
	tick := r.Tick
	*r = *openRig(r.T, r.Store, opt)
	r.Tick = tick
}

// mostRows and mostBytes are what list reads at most.
const (
	mostRows  = 10_000
	mostBytes = 8 << 20
)

// list is List with all that it names.
func (r *rig) list(before uint64, limit int, f Filter) (all []*Transaction, next uint64, err error) {
	listed, next, err := r.m.List(before, limit, math.MaxInt, &Reads{Rows: mostRows, Bytes: mostBytes}, f)
	for _, one := range listed {
		if one.Transaction == nil || one.Transaction.Number != one.Number {
			r.T.Errorf("%d is listed as %+v", one.Number, one.Transaction)
		}
		all = append(all, one.Transaction)
	}
	return all, next, err
}

// apply applies one entry with one command per part.
func (r *rig) apply(parts ...*sagapart.Part) []*entry.Result {
	r.T.Helper()
	var commands [][]entry.Part
	for _, p := range parts {
		commands = append(commands, command(p))
	}
	return r.Apply(commands...)
}

func command(p *sagapart.Part) []entry.Part {
	return machinetest.Command(sagapart.Machine, sagapart.Append(nil, p))
}

// say applies one command, given as its line in a story, and returns its answer on one line.
func (r *rig) say(line string) string {
	r.T.Helper()
	return show(r.apply(parse(r.T, line))[0])
}

// must says commands that may not be rejected.
func (r *rig) must(lines ...string) {
	r.T.Helper()
	for _, line := range lines {
		if res := r.apply(parse(r.T, line))[0]; res.Rejection != nil {
			r.T.Fatalf("%s: %v", line, res.Rejection)
		}
	}
}

// find returns a transaction that is there.
func (r *rig) find(gid string) *Transaction {
	r.T.Helper()
	t, err := r.m.Find(gid)
	if t == nil || err != nil {
		r.T.Fatalf("find %s: %v, %v", gid, t, err)
	}
	return t
}

// due lists every timer.
func (r *rig) due() []Timer {
	r.T.Helper()
	all, err := r.m.Due(Timer{}, math.MaxInt64, 1<<20)
	if err != nil {
		r.T.Fatal(err)
	}
	return all
}

func show(res *entry.Result) string {
	if res.Rejection != nil {
		return fmt.Sprintf("%d %s", res.Rejection.Code, res.Rejection.Detail)
	}
	if s, ok := res.Of(sagapart.Machine).(*sagapart.State); ok {
		was := "new"
		if s.Was != 0 {
			was = s.Was.String()
		}
		return fmt.Sprintf("%d %s → %s", s.Number, was, s.Status)
	}
	return "done"
}

// parse reads a command:
//
//	begin GID MODE STATUS [first=MS] [interval=MS] [exists] [fresh] [query=URL] [data=TEXT] [steps=N] [payload=BYTES] [BRANCH…]
//	change GID [number=N] [from=STATUS|…] [to=STATUS] [results=PLACE:STATUS,…] [next=MS] [interval=MS] [retries=N] [reason=TEXT]
//	       [result=TEXT] [pass] [worker]
//	register GID BRANCH…
//	subscribe TOPIC URL [REMARK], unsubscribe TOPIC URL, drop TOPIC, resume, elapse ms=MS
//
// A branch is branch=ID,OP,URL[,STATUS[,PAYLOAD]]. Without from, a change is of any open status.
func parse(t testing.TB, line string) *sagapart.Part {
	t.Helper()
	w := append(strings.Fields(line), "", "")
	o := options{}
	for _, word := range w[1:] {
		k, v, _ := strings.Cut(word, "=")
		o[k] = append(o[k], v)
	}
	branches := o.branches(t)
	switch w[0] {
	case "begin":
		return &sagapart.Part{Kind: sagapart.Begin, Begin: &sagapart.BeginPart{Status: sagapart.ParseStatus(w[3]), Branches: branches, FirstMs: o.number(t, "first"),
			IntervalMs: o.number(t, "interval"), Exists: o["exists"] != nil, Fresh: o["fresh"] != nil,
			Definition: sagapart.Definition{Gid: w[1], Mode: sagapart.ParseMode(w[2]), Protocol: "http", QueryPrepared: o.text("query"), CustomData: o.text("data")}}}
	case "change":
		c := &sagapart.ChangePart{Gid: w[1], Number: uint64(o.number(t, "number")), From: sagapart.Open, To: sagapart.ParseStatus(o.text("to")),
			Reason: o.text("reason"), Result: o.text("result"), Retries: o.number(t, "retries"), Pass: o["pass"] != nil, Worker: o["worker"] != nil,
			Timer: o["next"] != nil, NextMs: o.number(t, "next"), IntervalMs: o.number(t, "interval")}
		if from := o.text("from"); from != "" {
			c.From = 0
			for _, s := range strings.Split(from, "|") {
				c.From |= sagapart.Of(sagapart.ParseStatus(s))
			}
		}
		if results := o.text("results"); results != "" {
			for _, s := range strings.Split(results, ",") {
				place, status, _ := strings.Cut(s, ":")
				n, _ := strconv.Atoi(place)
				c.Results = append(c.Results, sagapart.BranchResult{Branch: uint32(n), Status: sagapart.ParseStatus(status)})
			}
		}
		return &sagapart.Part{Kind: sagapart.Change, Change: c}
	case "register":
		return &sagapart.Part{Kind: sagapart.Register, Register: &sagapart.RegisterPart{Gid: w[1], Branches: branches}}
	case "subscribe", "unsubscribe", "drop":
		kind := map[string]sagapart.Kind{"subscribe": sagapart.Subscribe, "unsubscribe": sagapart.Unsubscribe, "drop": sagapart.Drop}[w[0]]
		return &sagapart.Part{Kind: kind, Topic: &sagapart.TopicPart{Topic: w[1], URL: w[2], Remark: w[3]}}
	case "resume":
		return &sagapart.Part{Kind: sagapart.Resume}
	case "elapse":
		return &sagapart.Part{Kind: sagapart.Elapse, ElapseMs: o.number(t, "ms")}
	}
	t.Fatalf("what is %q", line)
	return nil
}

// options are the words of a command that have a value.
type options map[string][]string

func (o options) text(k string) string {
	if len(o[k]) == 0 {
		return ""
	}
	return o[k][0]
}

func (o options) number(t testing.TB, k string) int64 {
	t.Helper()
	if len(o[k]) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(o[k][0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// steps are the branches of n steps of a saga, with payloads of some bytes.
func steps(n, payload int) (all []sagapart.Branch) {
	for i := range n {
		b := sagapart.Branch{ID: fmt.Sprintf("%02d", i+1), Op: sagapart.OpCompensate, URL: fmt.Sprintf("http://s/undo%02d", i+1), Status: sagapart.Prepared}
		if payload > 0 {
			b.Payload = bytes.Repeat([]byte{byte('a' + i%26)}, payload)
		}
		all = append(all, b)
		b.Op, b.URL = sagapart.OpAction, fmt.Sprintf("http://s/do%02d", i+1)
		all = append(all, b)
	}
	return all
}

func (o options) branches(t testing.TB) []sagapart.Branch {
	all := steps(int(o.number(t, "steps")), int(o.number(t, "payload")))
	for _, v := range o["branch"] {
		f := append(strings.Split(v, ","), "", "", "")
		b := sagapart.Branch{ID: f[0], Op: f[1], URL: f[2], Status: max(sagapart.ParseStatus(f[3]), sagapart.Prepared)}
		if f[4] != "" {
			b.Payload = []byte(f[4])
		}
		all = append(all, b)
	}
	return all
}

// showTransaction prints a transaction, times as milliseconds of the tick.
func showTransaction(t *Transaction) string {
	if t == nil {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s: %s, created %s at tick %d updated %s", t.Number, t.Gid, &t.Definition, t.Status, at(t.Created), t.CreatedTick, at(t.Updated))
	for _, w := range []struct {
		name string
		ns   int64
	}{{"finished", t.Finished}, {"rolled back", t.RolledBack}} {
		if w.ns != 0 {
			b.WriteString(" " + w.name + " " + at(w.ns))
		}
	}
	if t.DueTick != Never {
		fmt.Fprintf(&b, ", due %d interval %d", t.DueTick, t.IntervalMs)
	}
	fmt.Fprintf(&b, ", passes %d retries %d", t.Passes, t.Retries)
	if t.Reason+t.Result != "" {
		fmt.Fprintf(&b, ", reason %q result %q", t.Reason, t.Result)
	}
	for i := range t.Branches {
		r := &t.Branches[i]
		fmt.Fprintf(&b, "\n%d: %s %s %s %s, created %s updated %s", i, r.ID, r.Op, r.URL, r.Status, at(r.Created), at(r.Updated))
		if r.Finished != 0 {
			b.WriteString(" finished " + at(r.Finished))
		}
		if n := len(r.Payload); n > 0 {
			fmt.Fprintf(&b, ", payload %q", clip(r.Payload))
			if n > len(clip(r.Payload)) {
				fmt.Fprintf(&b, "… of %d bytes", n)
			}
		}
	}
	return b.String()
}

// at prints a wall time as the tick it goes with.
func at(ns int64) string { return strconv.FormatInt((ns-machinetest.Epoch)/1e6, 10) }
