package part

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
)

// shown bounds how much of a value and how many operations one line prints: it is for people.
const (
	shownBytes = 64
	shownOps   = 8
)

// Describe prints an encoded part on one line: "kv.put k=v", "kv.delete [a, b)", "kv.txn if mod(k)=3 then {put k=w} else {get k}". Bytes
// that are not plain text are quoted as Go does; long values are cut. A part that does not decode is printed as such.
func Describe(body []byte) string {
	p, err := Decode(body)
	if err != nil {
		return fmt.Sprintf("kv.? (%d bytes: %v)", len(body), err)
	}
	return p.String()
}

// String prints the part as Describe does.
func (p *Part) String() string {
	if p.Must {
		inner := *p
		inner.Must = false
		return inner.String() + " or nothing at all"
	}
	if p.Within != nil {
		inner := *p
		inner.Within = nil
		return fmt.Sprintf("%s within %d spans", inner.String(), len(p.Within.Spans))
	}
	switch {
	case p.Put != nil:
		return "kv." + p.Put.String()
	case p.Delete != nil:
		return "kv." + p.Delete.String()
	case p.Txn != nil:
		return "kv." + p.Txn.String()
	case p.Compact != nil:
		return "kv.compact " + strconv.FormatInt(p.Compact.Revision, 10)
	case p.Grant != nil:
		return fmt.Sprintf("kv.grant %x ttl=%d", uint64(p.Grant.ID), p.Grant.TTL)
	case p.Revoke != nil:
		var b strings.Builder
		b.WriteString("kv.revoke")
		for i, id := range p.Revoke.IDs {
			if i == shownOps {
				fmt.Fprintf(&b, " … (%d ids)", len(p.Revoke.IDs))
				break
			}
			fmt.Fprintf(&b, " %x", uint64(id))
		}
		if p.Revoke.Expired {
			b.WriteString(" expired")
		}
		return b.String()
	case p.Alarm != nil:
		verb := "off"
		if p.Alarm.On {
			verb = "on"
		}
		return fmt.Sprintf("kv.alarm %s %s member=%x", verb, p.Alarm.Type, p.Alarm.Member)
	}
	return "kv.empty"
}

// String prints "put k=v" with the options that are set.
func (p *Put) String() string {
	var b strings.Builder
	b.WriteString("put " + text(p.Key) + "=")
	if p.IgnoreValue {
		b.WriteString("(same)")
	} else {
		b.WriteString(text(p.Value))
	}
	switch {
	case p.IgnoreLease:
		b.WriteString(" lease=(same)")
	case p.Lease != 0:
		fmt.Fprintf(&b, " lease=%x", uint64(p.Lease))
	}
	if p.PrevKV {
		b.WriteString(" prev")
	}
	return b.String()
}

// String prints "delete k" or "delete [a, b)".
func (d *DeleteRange) String() string {
	s := "delete " + interval(d.Key, d.End)
	if d.PrevKV {
		s += " prev"
	}
	if d.ByRange {
		s += " by range"
	}
	return s
}

// String prints "get k" or "get [a, b)" with the options that are set.
func (r *Range) String() string {
	var b strings.Builder
	b.WriteString("get " + interval(r.Key, r.End))
	for _, o := range [...]struct {
		name string
		v    int64
	}{
		{"limit", r.Limit}, {"rev", r.Revision}, {"order", int64(r.Order)}, {"by", int64(r.Target)},
		{"minmod", r.MinMod}, {"maxmod", r.MaxMod}, {"mincreate", r.MinCreate}, {"maxcreate", r.MaxCreate},
	} {
		if o.v != 0 {
			fmt.Fprintf(&b, " %s=%d", o.name, o.v)
		}
	}
	if r.KeysOnly {
		b.WriteString(" keys")
	}
	if r.CountOnly {
		b.WriteString(" count")
	}
	return b.String()
}

// String prints "mod(k)=3".
func (c *Compare) String() string {
	name, sign := "?", "?"
	if names := [...]string{"version", "create", "mod", "value", "lease"}; int(c.Target) < len(names) {
		name = names[c.Target]
	}
	if signs := [...]string{"=", ">", "<", "!="}; int(c.Result) < len(signs) {
		sign = signs[c.Result]
	}
	if c.Target == CompareValue {
		return name + "(" + interval(c.Key, c.End) + ")" + sign + text(c.Value)
	}
	return name + "(" + interval(c.Key, c.End) + ")" + sign + strconv.FormatInt(c.Int, 10)
}

// String prints "txn if … then {…} else {…}", leaving out what is empty.
func (t *Txn) String() string {
	var b strings.Builder
	b.WriteString("txn")
	for i := range t.Compare {
		switch i {
		case 0:
			b.WriteString(" if ")
		case shownOps:
			fmt.Fprintf(&b, " and … (%d)", len(t.Compare))
		default:
			b.WriteString(" and ")
		}
		if i == shownOps {
			break
		}
		b.WriteString(t.Compare[i].String())
	}
	b.WriteString(" then " + opsText(t.Then))
	if len(t.Else) > 0 {
		b.WriteString(" else " + opsText(t.Else))
	}
	return b.String()
}

func opsText(ops []Op) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range ops {
		if i > 0 {
			b.WriteString("; ")
		}
		if i == shownOps {
			fmt.Fprintf(&b, "… (%d)", len(ops))
			break
		}
		switch op := &ops[i]; {
		case op.Put != nil:
			b.WriteString(op.Put.String())
		case op.Range != nil:
			b.WriteString(op.Range.String())
		case op.Delete != nil:
			b.WriteString(op.Delete.String())
		case op.Txn != nil:
			b.WriteString(op.Txn.String())
		default:
			b.WriteString("nothing")
		}
	}
	b.WriteByte('}')
	return b.String()
}

func interval(key, end []byte) string {
	switch {
	case len(end) == 0:
		return text(key)
	case len(end) == 1 && end[0] == 0:
		return "[" + text(key) + ", ∞)"
	}
	return "[" + text(key) + ", " + text(end) + ")"
}

// text prints bytes as they are if that is unambiguous, else quoted.
func text(b []byte) string {
	cut := ""
	if len(b) > shownBytes {
		cut = fmt.Sprintf("…(%d bytes)", len(b))
		b = b[:shownBytes]
	}
	for _, c := range b {
		if c <= ' ' || c > '~' || strings.IndexByte(`"=;{}()[],`, c) >= 0 {
			return strconv.Quote(string(b)) + cut
		}
	}
	if len(b) == 0 {
		return `""`
	}
	return string(b) + cut
}

// String names the alarm as etcd does.
func (t AlarmType) String() string {
	switch t {
	case AlarmNoSpace:
		return "nospace"
	case AlarmCorrupt:
		return "corrupt"
	}
	return strconv.Itoa(int(t))
}

// CodeText is the meaning of a rejection code of this machine.
func CodeText(c entry.Code) string {
	switch c {
	case KeyNotFound:
		return "key not found"
	case LeaseNotFound:
		return "lease not found"
	case LeaseExists:
		return "lease exists"
	case Compacted:
		return "revision has been compacted"
	case FutureRevision:
		return "revision is in the future"
	case Malformed:
		return "malformed part"
	case LeaseDenied:
		return "lease has keys beyond what is permitted"
	case CompareFailed:
		return "a compare is false"
	}
	return "code " + strconv.Itoa(int(c))
}
