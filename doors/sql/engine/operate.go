package engine

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/internal/like"
)

// Operate is what statements of operators ask of the door: who is connected and what is counted. Its functions may be called from any goroutine.
type Operate struct {
	// Clients returns the clients that a session may see.
	Clients func(s *Session) []Process
	// Kill interrupts the statement of a client, or ends its connection too. Errors are *wire.Error.
	Kill func(s *Session, id uint32, whole bool) error
	// Transactions, Locks and Digests are the rows of the tables of the database holdfast that a session may see, in any order. more: there are more locks.
	Transactions func(s *Session) []Transaction
	Locks        func(s *Session) (all []Lock, more bool)
	Digests      func(s *Session) []Digest
	// Counters are the variables of SHOW STATUS, in any order.
	Counters func() []Counter
}

// Process is a connection, as SHOW PROCESSLIST has it.
type Process struct {
	ID        uint32
	User      string
	Host      string
	Database  string
	Statement string        // that runs; "": none
	Since     time.Duration // it began, or the last one ended
	State     string        // how far it is; "": it says nothing of that
}

// Counter is a variable of SHOW STATUS.
type Counter struct {
	Name  string
	Value int64
}

// Hidden stands for a statement that may have a password in it.
const Hidden = "<hidden: it may have a password in it>"

var secret = regexp.MustCompile(`(?i)\b(identified|password)\b`)

// shown is the client's statement without passwords.
func (c *Process) shown() string {
	if secret.MatchString(c.Statement) {
		return Hidden
	}
	return c.Statement
}

// processes are the clients as information_schema.processlist has them.
type processes struct {
	sql.EmptyProcessList
	s *Session
}

func (p *processes) Processes() (all []sql.Process) {
	for _, x := range p.s.e.opt.Operate.Clients(p.s) {
		command := sql.ProcessCommandQuery
		if x.Statement == "" {
			command = sql.ProcessCommandSleep
		}
		all = append(all, sql.Process{Connection: x.ID, User: x.User, Host: x.Host, Database: x.Database, Command: command, Query: x.shown(),
			StartedAt: time.Now().Add(-x.Since)})
	}
	return all
}

// killing is a statement of the form KILL [QUERY | CONNECTION] id.
type killing struct {
	id    uint32
	query bool
}

var killForm = regexp.MustCompile(`(?is)^kill\s+(?:(query|connection)\s+)?(\d+)\s*(?:;(.*))?$`)

// parseKill parses KILL, which the parser takes for something else. ok false: the text is another statement.
func parseKill(text string) (s *Statement, rest string, ok bool) {
	m := killForm.FindStringSubmatch(text)
	if m == nil {
		return nil, "", false
	}
	id, err := strconv.ParseUint(m[2], 10, 32)
	if err != nil {
		id = 0 // no client has it
	}
	return &Statement{Kind: KindOther, Text: text, kill: &killing{id: uint32(id), query: strings.EqualFold(m[1], "query")}}, strings.TrimLeft(m[3], " \t\r\n;"), true
}

// operate answers SHOW PROCESSLIST, SHOW STATUS, KILL, and lists that are always empty. ok false: the statement is another one.
func (s *Session) operate(c *sql.Context, st *Statement, to *wire.Answer, out *Outcome) (ok bool, err error) {
	if st.kill != nil {
		return true, s.e.opt.Operate.Kill(s, st.kill.id, !st.kill.query)
	}
	if st.none != "" {
		showNone(st.none, to)
		out.Rows = true
		return true, nil
	}
	show, isShow := st.ast.(*sqlparser.Show)
	if !isShow {
		return false, nil
	}
	switch strings.ToLower(show.Type) {
	case "processlist":
		s.clients(show.Full, to)
	case "status":
		s.counters(show.Filter, to)
	default:
		return false, nil
	}
	out.Rows = true
	return true, nil
}

// statementShown bounds the text of a statement in SHOW PROCESSLIST, in bytes. FULL shows all of it.
const statementShown = 100

func (s *Session) clients(full bool, to *wire.Answer) {
	text := func(name string) wire.Column {
		return wire.Column{Name: name, Type: wire.VarString, Collation: uint16(textCollation), Length: 1024}
	}
	number := func(name string) wire.Column {
		return wire.Column{Name: name, Type: wire.LongLong, Collation: 63, Length: 20, Flags: wire.NotNull}
	}
	to.Columns([]wire.Column{number("Id"), text("User"), text("Host"), text("db"), text("Command"), number("Time"), text("State"), text("Info")})
	all := s.e.opt.Operate.Clients(s)
	slices.SortFunc(all, func(a, b Process) int { return int(int64(a.ID) - int64(b.ID)) })
	for _, x := range all {
		to.Int(int64(x.ID))
		to.Text(x.User)
		to.Text(x.Host)
		if x.Database == "" {
			to.Null()
		} else {
			to.Text(x.Database)
		}
		command, state := "Query", cmp.Or(x.State, "running")
		if x.Statement == "" {
			command, state = "Sleep", ""
		}
		to.Text(command)
		to.Int(int64(x.Since / time.Second))
		to.Text(state)
		switch text := x.shown(); {
		case text == "":
			to.Null()
		case !full && len(text) > statementShown:
			to.Text(strings.ToValidUTF8(text[:statementShown], ""))
		default:
			to.Text(text)
		}
	}
}

// counters adds to those of the server what this session has read: entries of indexes, and rows.
func (s *Session) counters(filter *sqlparser.ShowFilter, to *wire.Answer) {
	pattern := "%"
	if filter != nil && filter.Like != "" {
		pattern = strings.ToLower(filter.Like)
	}
	columns := make([]wire.Column, 2)
	for i, n := range []string{"Variable_name", "Value"} {
		columns[i] = wire.Column{Name: n, Type: wire.VarString, Collation: uint16(textCollation), Length: 1024}
	}
	to.Columns(columns)
	all := [][2]string{{"Ssl_cipher", s.tlsCipher}, {"Ssl_version", s.tlsVersion}}
	for _, x := range append(s.e.opt.Operate.Counters(), Counter{"Handler_read_next", int64(s.read.entries)}, Counter{"Handler_read_rnd_next", int64(s.read.rows)}) {
		all = append(all, [2]string{x.Name, strconv.FormatInt(x.Value, 10)})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	for _, x := range all {
		if like.Match(strings.ToLower(x[0]), pattern) {
			to.Text(x[0])
			to.Text(x[1])
		}
	}
}
