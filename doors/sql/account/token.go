package account

import (
	"strings"
	"unicode/utf8"
)

// kind is what a token is.
type kind byte

const (
	end     kind = iota // of the statement
	word                // without quotes
	quoted              // a name in backticks
	text                // in single or double quotes
	symbol              // one character
	unended             // a text or a name without its closing quote
)

// token is a piece of a statement.
type token struct {
	kind kind
	s    string // a word in small letters, a text or a name without its quotes
	raw  string // a word as it is written
	at   int    // where it begins
	end  int
}

// scanner takes a text apart. Executable comments are part of the text, and other comments are not.
type scanner struct {
	b    string
	i    int
	mode Mode
	// inside: an executable comment was begun.
	inside bool
}

// Mode is what of sql_mode changes how texts are read.
type Mode struct {
	// NoBackslash: a backslash is a character like others.
	NoBackslash bool
	// AnsiQuotes: double quotes are those of a name.
	AnsiQuotes bool
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= utf8.RuneSelf
}

// skip passes over spaces and comments.
func (s *scanner) skip() {
	for s.i < len(s.b) {
		rest := s.b[s.i:]
		switch {
		case strings.IndexByte(" \t\r\n\v\f", rest[0]) >= 0:
			s.i++
		case rest[0] == '#', rest == "--", strings.HasPrefix(rest, "--") && strings.IndexByte(" \t\r\n", rest[2]) >= 0:
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest) - 1
			}
			s.i += n + 1
		case strings.HasPrefix(rest, "/*!"):
			s.inside = true
			for s.i += 3; s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9'; s.i++ {
			}
		case s.inside && strings.HasPrefix(rest, "*/"):
			s.inside = false
			s.i += 2
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				s.i = len(s.b)
				return
			}
			s.i += n + 4
		default:
			return
		}
	}
}

// next returns the next token. host: it stands behind @, where dots belong to a word.
func (s *scanner) next(host bool) token {
	if !host {
		s.skip()
	}
	t := token{at: s.i, end: s.i}
	if s.i == len(s.b) || s.b[s.i] == ';' {
		return t
	}
	switch c := s.b[s.i]; {
	case c == '\'' || c == '"' || c == '`':
		t.kind, t.s = s.quoted(c)
	case isLetter(c):
		for s.i < len(s.b) && (isLetter(s.b[s.i]) || host && strings.IndexByte(".-:", s.b[s.i]) >= 0) {
			s.i++
		}
		t.kind, t.raw = word, s.b[t.at:s.i]
		t.s = strings.ToLower(t.raw)
	default:
		s.i++
		t.kind, t.s = symbol, s.b[t.at:s.i]
	}
	t.end = s.i
	return t
}

// quoted reads up to the closing quote.
func (s *scanner) quoted(quote byte) (kind, string) {
	var b strings.Builder
	for s.i++; s.i < len(s.b); s.i++ {
		c := s.b[s.i]
		switch {
		case c == '\\' && quote != '`' && !s.mode.NoBackslash && s.i+1 < len(s.b):
			s.i++
			b.WriteString(unescaped(s.b[s.i]))
		case c == quote && s.i+1 < len(s.b) && s.b[s.i+1] == quote:
			s.i++
			b.WriteByte(c)
		case c == quote:
			s.i++
			if quote == '`' || quote == '"' && s.mode.AnsiQuotes {
				return quoted, b.String()
			}
			return text, b.String()
		default:
			b.WriteByte(c)
		}
	}
	return unended, ""
}

// unescaped is what a backslash with a character behind it stands for.
func unescaped(c byte) string {
	switch c {
	case '0':
		return "\x00"
	case 'b':
		return "\b"
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case 'Z':
		return "\x1a"
	case '%', '_':
		return "\\" + string(c)
	}
	return string(c)
}
