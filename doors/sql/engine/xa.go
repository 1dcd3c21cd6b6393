package engine

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// XAVerb is what a statement of a distributed transaction does.
type XAVerb byte

// The verbs.
const (
	XAStart XAVerb = 1 + iota
	XAEnd
	XAPrepare
	XACommit
	XARollback
	XARecover
)

// XA is a statement about a distributed transaction, which the parser does not know.
type XA struct {
	Verb XAVerb
	// Name is the transaction's, as AppendXID has it; none for XARecover.
	Name string
	// OnePhase: XA COMMIT … ONE PHASE.
	OnePhase bool
	// Convert: XA RECOVER CONVERT XID.
	Convert bool
}

// XID is the name of a distributed transaction.
type XID struct {
	Format         uint64
	Global, Branch []byte // at most 64 bytes each
}

const (
	mostXIDPart = 64
	xidFormat   = 1 // where a statement names none
)

// Append appends the name as a key: two names are the same if their bytes are.
func (x *XID) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, x.Format)
	dst = append(dst, byte(len(x.Global)))
	return append(append(dst, x.Global...), x.Branch...)
}

// DecodeXID is the inverse of Append. ok false: the bytes are no such name.
func DecodeXID(name []byte) (x XID, ok bool) {
	format, n := binary.Uvarint(name)
	if n <= 0 || len(name) <= n || int(name[n]) > len(name)-n-1 {
		return x, false
	}
	rest := name[n+1:]
	return XID{Format: format, Global: rest[:name[n]], Branch: rest[name[n]:]}, true
}

// nameOfXID is a name as a statement may have it.
func nameOfXID(name []byte) string {
	x, ok := DecodeXID(name)
	if !ok {
		return fmt.Sprintf("X'%X'", name) // no statement of this door has prepared it
	}
	return fmt.Sprintf("X'%X',X'%X',%d", x.Global, x.Branch, x.Format)
}

var (
	xaStart = regexp.MustCompile(`(?is)^xa\s+(start|begin|end|prepare|commit|rollback|recover)\b`)
	xaPart  = regexp.MustCompile(`(?s)^\s*('(?:[^'\\]|'')*'|"(?:[^"\\]|"")*"|[xX]'[0-9a-fA-F]*'|0x[0-9a-fA-F]+)`)
)

var xaVerbs = map[string]XAVerb{"start": XAStart, "begin": XAStart, "end": XAEnd, "prepare": XAPrepare, "commit": XACommit, "rollback": XARollback,
	"recover": XARecover}

// parseXA parses a statement about a distributed transaction. ok false: the text is another statement. rest is what follows the statement.
func parseXA(text string) (s *Statement, rest string, ok bool, err error) {
	begin := xaStart.FindStringSubmatch(text)
	if begin == nil {
		return nil, "", false, nil
	}
	if end := statementEnd(text); end < len(text) {
		text, rest = text[:end], strings.TrimLeft(text[end:], " \t\r\n;")
	}
	text = strings.TrimRight(text, " \t\r\n")
	xa := &XA{Verb: xaVerbs[strings.ToLower(begin[1])]}
	tail := text[len(begin[0]):]
	if xa.Verb != XARecover {
		if xa.Name, tail, err = parseXID(tail); err != nil {
			return nil, "", true, err
		}
	}
	switch words := strings.Join(strings.Fields(strings.ToLower(tail)), " "); {
	case words == "":
	case words == "one phase" && xa.Verb == XACommit:
		xa.OnePhase = true
	case words == "convert xid" && xa.Verb == XARecover:
		xa.Convert = true
	case (words == "join" || words == "resume") && xa.Verb == XAStart, (words == "suspend" || words == "suspend for migrate") && xa.Verb == XAEnd:
		return nil, "", true, refused("XA … " + strings.ToUpper(words))
	default:
		return nil, "", true, nearXA(tail)
	}
	return &Statement{Kind: KindXA, Text: text, XA: xa}, rest, true, nil
}

func nearXA(at string) error {
	return wire.Errorf(errParse, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '%s' at line 1",
		strings.TrimSpace(at))
}

// parseXID parses a name: a global part, and perhaps a branch and a format.
func parseXID(tail string) (name, rest string, err error) {
	x := XID{Format: xidFormat}
	if x.Global, tail, err = parseXIDPart(tail); err != nil {
		return "", "", err
	}
	if next, more := strings.CutPrefix(strings.TrimLeft(tail, " \t\r\n"), ","); more {
		if x.Branch, tail, err = parseXIDPart(next); err != nil {
			return "", "", err
		}
		if next, more := strings.CutPrefix(strings.TrimLeft(tail, " \t\r\n"), ","); more {
			next = strings.TrimLeft(next, " \t\r\n")
			digits := len(next) - len(strings.TrimLeft(next, "0123456789"))
			if x.Format, err = strconv.ParseUint(next[:digits], 10, 32); err != nil {
				return "", "", nearXA(next)
			}
			tail = next[digits:]
		}
	}
	return string(x.Append(nil)), tail, nil
}

func parseXIDPart(text string) (part []byte, rest string, err error) {
	found := xaPart.FindStringSubmatch(text)
	if found == nil {
		return nil, "", nearXA(text)
	}
	rest = text[len(found[0]):]
	switch lit := found[1]; {
	case lit[0] == '0':
		part, err = hex.DecodeString(lit[2:])
	case lit[0] == 'x' || lit[0] == 'X':
		part, err = hex.DecodeString(lit[2 : len(lit)-1])
	default:
		quote := lit[:1]
		part = []byte(strings.ReplaceAll(lit[1:len(lit)-1], quote+quote, quote))
	}
	if err != nil || len(part) > mostXIDPart {
		return nil, "", nearXA(text)
	}
	return part, rest, nil
}
