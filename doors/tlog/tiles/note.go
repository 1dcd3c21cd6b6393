package tiles

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a note from another program.
const (
	maxNoteBytes  = 64 << 10
	maxSignatures = 100
	maxKeyName    = 1024
)

// ErrNote: the bytes are not a signed note.
var ErrNote = errors.New("not a signed note")

// Signature is one signature line of a note. Only a Verifier can tell its author and whether it is good: a note may carry lines of unknown
// keys and algorithms.
type Signature struct {
	Name  string
	KeyID uint32
	Sig   []byte
}

// Note is a text with signature lines below (C2SP signed-note). Text ends with a newline, which is part of the signed bytes.
type Note struct {
	Text string
	Sigs []Signature
}

// The beginning of a signature line: an em dash and a space.
const sigPrefix = "\u2014 "

// ParseNote reads a signed note. It checks the form and no signature.
func ParseNote(b []byte) (*Note, error) {
	if len(b) > maxNoteBytes || !utf8.Valid(b) {
		return nil, ErrNote
	}
	for _, c := range b {
		if c < 0x20 && c != '\n' {
			return nil, ErrNote
		}
	}
	i := bytes.LastIndex(b, []byte("\n\n"))
	if i < 0 {
		return nil, ErrNote
	}
	n := &Note{Text: string(b[:i+1])}
	rest := string(b[i+2:])
	if !strings.HasSuffix(rest, "\n") {
		return nil, ErrNote
	}
	for rest != "" {
		line, next, _ := strings.Cut(rest, "\n")
		rest = next
		s, ok := parseSignature(line)
		if !ok || len(n.Sigs) == maxSignatures {
			return nil, ErrNote
		}
		n.Sigs = append(n.Sigs, s)
	}
	return n, nil
}

func parseSignature(line string) (s Signature, ok bool) {
	line, ok = strings.CutPrefix(line, sigPrefix)
	if !ok {
		return s, false
	}
	name, text, ok := strings.Cut(line, " ")
	if !ok || !ValidKeyName(name) {
		return s, false
	}
	raw, err := decodeBase64(text)
	if err != nil || len(raw) < 5 {
		return s, false
	}
	return Signature{Name: name, KeyID: binary.BigEndian.Uint32(raw), Sig: raw[4:]}, true
}

// Append appends the note as text.
func (n *Note) Append(dst []byte) []byte {
	dst = append(append(dst, n.Text...), '\n')
	for i := range n.Sigs {
		s := &n.Sigs[i]
		raw := append(binary.BigEndian.AppendUint32(nil, s.KeyID), s.Sig...)
		dst = fmt.Appendf(dst, "%s%s %s\n", sigPrefix, s.Name, base64.StdEncoding.EncodeToString(raw))
	}
	return dst
}

// ValidKeyName reports whether a name can stand in a key and a signature line: not empty, no spaces, no plus sign.
func ValidKeyName(name string) bool {
	return name != "" && len(name) <= maxKeyName && utf8.ValidString(name) && !strings.Contains(name, "+") &&
		strings.IndexFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) < 0
}
