package v2

import (
	"strconv"
	"time"
	"unicode/utf8"

	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
)

// The answers' JSON is written by hand, byte for byte as etcd 3.4 writes it: clients exist that compare text.

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. Characters that could end a script in a web page are escaped, and invalid UTF-8 becomes U+FFFD, as in
// the original.
func appendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				dst = append(append(dst, s[start:i]...), `\ufffd`...)
				start = i + n
			case r == '\u2028' || r == '\u2029':
				dst = append(append(dst, s[start:i]...), `\u202`...)
				dst = append(dst, hexDigits[r&0xf])
				start = i + n
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// appendEvent appends an event and a newline; quiet leaves the nodes out.
func appendEvent(dst []byte, e *v2machine.Event, quiet bool) []byte {
	dst = append(append(dst, `{"action":"`...), e.Action.String()...)
	dst = append(dst, '"')
	if !quiet {
		gone := e.Action == v2machine.Delete || e.Action == v2machine.CompareAndDelete || e.Action == v2machine.Expire
		dst = append(dst, `,"node":`...)
		dst = appendNode(dst, &e.Node, !gone)
		if e.HasPrev {
			dst = append(dst, `,"prevNode":`...)
			dst = appendNode(dst, &e.Prev, true)
		}
	}
	return append(dst, '}', '\n')
}

// appendNode appends a node that is no listing. A key that is gone has no value.
func appendNode(dst []byte, n *v2machine.Node, value bool) []byte {
	dst = appendHead(dst, n, value)
	return append(appendIndexes(dst, n.Modified, n.Created), '}')
}

// appendHead appends what stands before a node's children.
func appendHead(dst []byte, n *v2machine.Node, value bool) []byte {
	dst = append(dst, '{')
	if len(n.Path) > 1 { // the root has no name
		dst = appendString(append(dst, `"key":`...), n.Path)
		dst = append(dst, ',')
	}
	switch {
	case n.Dir:
		dst = append(dst, `"dir":true,`...)
	case value:
		dst = appendString(append(dst, `"value":`...), n.Value)
		dst = append(dst, ',')
	}
	if n.Expiration != 0 {
		dst = append(dst, `"expiration":"`...)
		dst = time.Unix(0, n.Expiration).UTC().AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, '"', ',')
		if n.TTL != 0 {
			dst = strconv.AppendInt(append(dst, `"ttl":`...), n.TTL, 10)
			dst = append(dst, ',')
		}
	}
	return dst
}

// appendIndexes appends what stands after a node's children; the root has none, then the comma before goes.
func appendIndexes(dst []byte, modified, created uint64) []byte {
	if modified != 0 {
		dst = strconv.AppendUint(append(dst, `"modifiedIndex":`...), modified, 10)
		dst = append(dst, ',')
	}
	if created != 0 {
		dst = strconv.AppendUint(append(dst, `"createdIndex":`...), created, 10)
		dst = append(dst, ',')
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// openDir is a directory whose children are being written.
type openDir struct {
	modified, created uint64
	children          bool
}

// listing writes nodes in the order in which etcd2.Machine.List visits them as nested JSON.
type listing struct {
	body []byte
	open []openDir // from the top down; the last one is where the next node belongs or above it
}

// begin starts the answer.
func (l *listing) begin() { l.body = append(l.body, `{"action":"get","node":`...) }

// visit writes one node; depth counts from the top.
func (l *listing) visit(depth int, n *v2machine.Node) {
	l.closeTo(depth)
	if depth > 0 {
		if parent := &l.open[depth-1]; parent.children {
			l.body = append(l.body, ',')
		} else {
			parent.children = true
			l.body = append(l.body, `"nodes":[`...)
		}
	}
	l.body = appendHead(l.body, n, true)
	if n.Dir {
		l.open = append(l.open, openDir{modified: n.Modified, created: n.Created})
		return
	}
	l.body = append(appendIndexes(l.body, n.Modified, n.Created), '}')
}

// closeTo ends the directories at depth and below.
func (l *listing) closeTo(depth int) {
	for len(l.open) > depth {
		d := l.open[len(l.open)-1]
		l.open = l.open[:len(l.open)-1]
		if d.children {
			l.body = append(l.body, ']', ',')
		}
		l.body = append(appendIndexes(l.body, d.modified, d.created), '}')
	}
}

// end finishes the answer.
func (l *listing) end() {
	l.closeTo(0)
	l.body = append(l.body, '}', '\n')
}

// appendError appends etcd's error object and a newline.
func appendError(dst []byte, code int, cause string, index uint64) []byte {
	dst = strconv.AppendInt(append(dst, `{"errorCode":`...), int64(code), 10)
	dst = appendString(append(dst, `,"message":`...), []byte(messages[code]))
	if cause != "" {
		dst = appendString(append(dst, `,"cause":`...), []byte(cause))
	}
	dst = strconv.AppendUint(append(dst, `,"index":`...), index, 10)
	return append(dst, '}', '\n')
}

// appendMessage appends the error object of everything but keys, and a newline.
func appendMessage(dst []byte, text string) []byte {
	dst = appendString(append(dst, `{"message":`...), []byte(text))
	return append(dst, '}', '\n')
}
