package part

import (
	"fmt"
	"strings"
	"time"
)

// shownBytes bounds how much of a value one line prints: it is for people.
const shownBytes = 64

// Describe prints an encoded part on one line: "etcd2.set /a=v ttl=5s", "etcd2.swap /a=w if index=7", "etcd2.delete /a recursive". A part
// that does not decode is printed as such.
func Describe(body []byte) string {
	var p Part
	if err := p.Decode(body); err != nil {
		return fmt.Sprintf("etcd2.? (%d bytes: %v)", len(body), err)
	}
	return p.String()
}

// String prints the part as Describe does.
func (p *Part) String() string {
	if p.Kind == Expire {
		return fmt.Sprintf("etcd2.expire at most %d", p.Limit)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "etcd2.%s %s", p.Kind, text(p.Path))
	if len(p.Value) > 0 {
		b.WriteString("=" + text(p.Value))
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{p.Dir, " dir"}, {p.Recursive, " recursive"}, {p.Refresh, " refresh"}} {
		if f.on {
			b.WriteString(f.name)
		}
	}
	if p.HasTTL {
		fmt.Fprintf(&b, " ttl=%s", time.Duration(p.TTL))
	}
	if p.PrevIndex != 0 {
		fmt.Fprintf(&b, " if index=%d", p.PrevIndex)
	}
	if len(p.PrevValue) > 0 {
		fmt.Fprintf(&b, " if value=%s", text(p.PrevValue))
	}
	return b.String()
}

// text prints bytes as they are if they are plain, else quoted; long ones are cut.
func text(b []byte) string {
	s, cut := string(b[:min(len(b), shownBytes)]), ""
	if len(b) > shownBytes {
		cut = fmt.Sprintf("… (%d bytes)", len(b))
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '"' {
			return fmt.Sprintf("%q", s) + cut
		}
	}
	return s + cut
}
