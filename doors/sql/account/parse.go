package account

import (
	"slices"
	"strings"
	"unicode/utf8"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Parse parses the first statement of a text if it is one about accounts. ok false: it is none. rest is what follows it. Errors: 1064, 1235,
// 1470 and 1524 as *wire.Error.
func Parse(of string, mode Mode) (st *Statement, rest string, ok bool, err error) {
	p := &parser{scanner: scanner{b: of, mode: mode}}
	p.advance()
	start := startOf(p)
	if start == nil {
		return nil, "", false, nil
	}
	p.advance()
	st = start(p)
	if p.t.kind != end {
		p.wrong()
	}
	if p.err != nil {
		return nil, "", true, p.err
	}
	return st, strings.TrimLeft(of[p.t.at:], " \t\r\n;"), true, nil
}

// parser reads one statement. t is the token that was not taken yet. After the first mistake err is set and the statement is at its end, so the
// functions below need not look at err.
type parser struct {
	scanner
	t   token
	err error
}

func (p *parser) fail(err *wire.Error) {
	if p.err == nil {
		p.err = err
	}
	p.i = len(p.b)
	p.t = token{at: p.i, end: p.i}
}

func (p *parser) advance() { p.t = p.next(false) }

// startOf knows statements about accounts by their first words, and takes all of those but the last.
func startOf(p *parser) func(*parser) *Statement {
	if p.t.kind != word {
		return nil
	}
	first := p.t.s
	second := func(all ...string) bool {
		saved := *p
		p.advance()
		for _, w := range all {
			if p.t.kind == word && p.t.s == w {
				return true
			}
		}
		*p = saved
		return false
	}
	switch first {
	case "create":
		if second("user") {
			return (*parser).create
		}
	case "alter":
		if second("user") {
			return (*parser).alter
		}
	case "drop":
		if second("user") {
			return (*parser).drop
		}
	case "set":
		if second("password") {
			return (*parser).password
		}
	case "show":
		if second("grants") {
			return (*parser).show
		}
	case "grant":
		return (*parser).grant
	case "revoke":
		return (*parser).revoke
	case "flush":
		saved := *p
		if second("local", "no_write_to_binlog"); second("privileges") {
			return func(*parser) *Statement { return &Statement{Verb: Flush} }
		}
		*p = saved
	}
	return nil
}

// wrong is MySQL's syntax error at the token.
func (p *parser) wrong() {
	near := p.b[p.t.at:]
	if runes := []rune(near); len(runes) > 80 {
		near = string(runes[:80])
	}
	p.fail(wire.Errorf(1064, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version "+
		"for the right syntax to use near '%s' at line %d", near, 1+strings.Count(p.b[:p.t.at], "\n")))
}

// refuse is 1235: MySQL has it, and this build has not.
func (p *parser) refuse(what string) {
	p.fail(wire.Errorf(1235, "This version of Holdfast doesn't yet support '%s'", what))
}

// is reports whether the token is a word of the language.
func (p *parser) is(w string) bool { return p.t.kind == word && p.t.s == w }

// took takes words if they come.
func (p *parser) took(words ...string) bool {
	saved := *p
	for _, w := range words {
		if !p.is(w) {
			*p = saved
			return false
		}
		p.advance()
	}
	return true
}

func (p *parser) expect(words ...string) {
	for _, w := range words {
		if !p.took(w) {
			p.wrong()
		}
	}
}

// tookSymbol takes a symbol if it comes.
func (p *parser) tookSymbol(s string) bool {
	if p.t.kind != symbol || p.t.s != s {
		return false
	}
	p.advance()
	return true
}

// text takes a text in quotes. With AnsiQuotes, those of a name count too: no statement about accounts has a name where a text may stand.
func (p *parser) text() string {
	if p.t.kind != text && (p.t.kind != quoted || p.b[p.t.at] != '"') {
		p.wrong()
	}
	s := p.t.s
	p.advance()
	return s
}

const mostUserName = 32 // characters

// user takes a name with its host, or CURRENT_USER.
func (p *parser) user() User {
	if p.is("current_user") || p.is("user") {
		function := p.is("user")
		p.advance()
		if brackets := p.tookSymbol("("); brackets && !p.tookSymbol(")") || !brackets && function {
			p.wrong()
		}
		return User{Self: true}
	}
	if p.t.kind == end || p.t.kind == symbol || p.t.kind == unended {
		p.wrong()
	}
	u := User{Name: p.t.s}
	if p.t.kind == word {
		u.Name = p.t.raw
	}
	after := p.t.end
	p.advance()
	if p.t.kind == symbol && p.t.s == "@" {
		if p.t.at != after {
			p.wrong()
		}
		if p.t = p.next(true); p.t.kind == end || p.t.kind == symbol || p.t.kind == unended {
			p.wrong()
		}
		u.Host = strings.ToLower(p.t.s)
		p.advance()
		if u.Host == "" {
			u.Host = eident.AnyHost // so MySQL reads it
		}
	}
	switch {
	case u.Name == "":
		p.refuse("an account without a name")
	case utf8.RuneCountInString(u.Name) > mostUserName || len(u.Name) > eident.MaxAccountUser:
		p.fail(wire.Errorf(1470, "String '%s' is too long for user name (should be no longer than %d)", u.Name, mostUserName))
	case strings.ContainsRune(u.Name, 0) || !utf8.ValidString(u.Name):
		p.wrong()
	case u.Host != "" && u.Host != eident.AnyHost && u.Host != eident.Localhost:
		p.refuse("the host '" + u.Host + "' of an account; there are '%' and 'localhost'")
	}
	return u
}

// users takes names with commas between.
func (p *parser) users(each func(*User)) (all []User) {
	for {
		u := p.user()
		if each != nil {
			each(&u)
		}
		if all = append(all, u); len(all) > eident.MaxAccounts {
			p.refuse("so many accounts in one statement")
		}
		if !p.tookSymbol(",") {
			return all
		}
	}
}

// mostPassword is what a client of caching_sha2_password may send.
const mostPassword = 256

// identified takes IDENTIFIED … if it comes, and reports whether it sets a password.
func (p *parser) identified(u *User) bool {
	if !p.took("identified") {
		return false
	}
	u.Identified = true
	if p.took("with") {
		if p.t.kind != word && p.t.kind != text && p.t.kind != quoted {
			p.wrong()
		}
		u.Plugin = strings.ToLower(p.t.s)
		p.advance()
		if u.Plugin != wire.NativePassword && u.Plugin != wire.CachingSHA2 {
			p.fail(wire.Errorf(1524, "Plugin '%s' is not loaded", u.Plugin))
		}
		if p.is("as") || p.is("using") {
			p.over("IDENTIFIED WITH")
		}
		if !p.is("by") {
			return false
		}
	}
	if !p.took("by") {
		p.over("IDENTIFIED")
		p.wrong()
	}
	p.over("IDENTIFIED BY")
	u.Password = p.newPassword()
	return true
}

func (p *parser) newPassword() string {
	s := p.text()
	if len(s) > mostPassword {
		p.refuse("a password of more than 256 bytes")
	}
	if strings.ContainsRune(s, 0) {
		p.refuse("a password with a zero byte")
	}
	return s
}

// more are words that MySQL lets follow what this build knows of a statement.
var more = []string{"account", "and", "as", "attribute", "comment", "default", "discard", "failed_login_attempts", "identified", "ignore", "initial",
	"max_connections_per_hour", "max_queries_per_hour", "max_updates_per_hour", "max_user_connections", "old_password", "password",
	"password_lock_time", "random", "replace", "require", "retain", "using", "via", "with"}

// over refuses a word of those.
func (p *parser) over(statement string) {
	if p.t.kind == word && slices.Contains(more, p.t.s) {
		p.refuse(statement + " … " + strings.ToUpper(p.t.s))
	}
}
