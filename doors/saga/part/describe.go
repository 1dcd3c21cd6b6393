package part

import (
	"fmt"
	"strings"
	"time"
)

// shownBytes bounds how much of a text one line prints: it is for people.
const shownBytes = 64

// Describe prints an encoded part on one line, payloads and custom data as their lengths: "saga.begin saga order-1 submitted: 01 action
// http://a/b 7 bytes, …", "saga.change order-1 submitted → succeed, 0 succeed, 1 succeed". A part that does not decode is printed as such.
func Describe(body []byte) string {
	var p Part
	if err := p.Decode(body); err != nil {
		return fmt.Sprintf("saga.? (%d bytes: %v)", len(body), err)
	}
	return p.String()
}

// String prints the part as Describe does.
func (p *Part) String() string {
	switch p.Kind {
	case Begin, Submit:
		g := p.Begin
		s := fmt.Sprintf("saga.begin %s %s", text(g.Gid), g.Status)
		if p.Kind == Submit {
			s = "saga.submit " + text(g.Gid)
		}
		if g.Exists {
			s += " or as it is"
		}
		if g.Fresh {
			s += " anew"
		}
		s += ", due in " + ms(g.FirstMs) + ", interval " + ms(g.IntervalMs) + ", " + g.Definition.String()
		return s + showBranches(g.Branches)
	case Change:
		return p.Change.String()
	case Register:
		return "saga.register " + text(p.Register.Gid) + showBranches(p.Register.Branches)
	case Subscribe:
		return fmt.Sprintf("saga.subscribe %s to %s %s", text(p.Topic.URL), text(p.Topic.Topic), text(p.Topic.Remark))
	case Unsubscribe:
		return fmt.Sprintf("saga.unsubscribe %s from %s", text(p.Topic.URL), text(p.Topic.Topic))
	case Drop:
		return "saga.drop " + text(p.Topic.Topic)
	case Resume:
		return "saga.resume"
	case Elapse:
		return "saga.elapse " + ms(p.ElapseMs)
	case Retain:
		return "saga.retain " + ms(p.RetainMs)
	}
	return fmt.Sprintf("saga.? of kind %d", p.Kind)
}

// String prints the change on one line.
func (c *ChangePart) String() string {
	var b strings.Builder
	b.WriteString("saga.change " + text(c.Gid))
	if c.Number != 0 {
		fmt.Fprintf(&b, " %d", c.Number)
	}
	b.WriteString(" " + c.From.String())
	if c.To != 0 {
		b.WriteString(" → " + c.To.String())
	}
	for _, r := range c.Results {
		fmt.Fprintf(&b, ", %d %s", r.Branch, r.Status)
	}
	if c.Timer {
		b.WriteString(", due in " + ms(c.NextMs) + ", interval " + ms(c.IntervalMs))
	}
	if c.Retries != 0 {
		fmt.Fprintf(&b, ", retries %d", c.Retries)
	}
	if c.Reason != "" {
		b.WriteString(", because " + text(c.Reason))
	}
	if c.Result != "" {
		fmt.Fprintf(&b, ", result of %d bytes", len(c.Result))
	}
	if c.Pass {
		b.WriteString(", end of a pass")
	}
	if c.Worker {
		b.WriteString(", by the worker")
	}
	return b.String()
}

// String prints the definition without the gid on one line; headers as their names, custom data as its length.
func (d *Definition) String() string {
	s := d.Mode.String()
	if d.Protocol != "" {
		s += " over " + text(d.Protocol)
	}
	if d.QueryPrepared != "" {
		s += ", asks " + text(d.QueryPrepared)
	}
	if d.CustomData != "" {
		s += fmt.Sprintf(", custom data of %d bytes", len(d.CustomData))
	}
	if o := d.Options; o != (Options{}) {
		s += fmt.Sprintf(", wait=%t concurrent=%t timeout=%s request=%s retry=%s limit=%d", o.WaitResult, o.Concurrent, ms(o.TimeoutMs),
			ms(o.RequestTimeoutMs), ms(o.RetryIntervalMs), o.RetryLimit)
	}
	for _, h := range d.Headers {
		s += ", header " + text(h.Name)
	}
	return s
}

// String lists the statuses: "prepared|submitted".
func (set Statuses) String() string {
	var words []string
	for s := Prepared; s <= lastStatus; s++ {
		if set.Has(s) {
			words = append(words, s.String())
		}
	}
	return strings.Join(words, "|")
}

// shownBranches is how many branches one line prints.
const shownBranches = 16

func showBranches(all []Branch) string {
	var b strings.Builder
	for i := range all {
		if i == shownBranches {
			fmt.Fprintf(&b, ", and %d more", len(all)-i)
			break
		}
		fmt.Fprintf(&b, ", %s %s %s", text(all[i].ID), text(all[i].Op), text(all[i].URL))
		if all[i].Status != Prepared {
			b.WriteString(" " + all[i].Status.String())
		}
		if n := len(all[i].Payload); n > 0 {
			fmt.Fprintf(&b, " %d bytes", n)
		}
	}
	return b.String()
}

// ms prints milliseconds. Numbers that no duration holds are printed as they are.
func ms(n int64) string {
	if d := time.Duration(n) * time.Millisecond; d.Milliseconds() == n {
		return d.String()
	}
	return fmt.Sprintf("%dms", n)
}

// text prints a text as it is if it is plain, else quoted (an empty one too); a long one is cut.
func text(s string) string {
	if s == "" {
		return `""`
	}
	cut := ""
	if len(s) > shownBytes {
		s, cut = s[:shownBytes], fmt.Sprintf("… (%d bytes)", len(s))
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == ',' {
			return fmt.Sprintf("%q", s) + cut
		}
	}
	return s + cut
}
