package typetest

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Recorded has the cases and the answers that MariaDB gave. Play takes it, and returns it with the answers of another server.
//
//go:embed testdata/mariadb.txt
var Recorded string

// RecordedFile is where Recorded lies, below the repository.
const RecordedFile = "doors/sql/typetest/testdata/mariadb.txt"

// Server is where the cases are played.
type Server struct {
	Addr, User string
	// Beside: the server is MariaDB. A case may name another type for it.
	Beside bool
}

// given begins the answer in a line.
const given = " => "

// settings are the same on both servers. The sql_mode is MySQL 8.0's default, by which MariaDB goes too.
var settings = []string{"CREATE DATABASE IF NOT EXISTS types_beside", "USE types_beside", "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
	"SET time_zone = '+00:00'",
	"SET sql_mode = 'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"}

// settingsBeside have MariaDB round fractions of a second as MySQL does, and give it a time that is the same in every run.
var settingsBeside = []string{"SET sql_mode = CONCAT(@@sql_mode, ',TIME_ROUND_FRACTIONAL')", "SET timestamp = 1000000000"}

// Play plays the cases of a script and returns it with the answers that came. Its lines are
//
//	= NAME           a type begins
//	column TYPE      the column, as both servers or as Holdfast has it
//	beside TYPE      as MariaDB has it
//	v LITERAL        a value: what is read back in text and in binary form
//	p KIND VALUE     a parameter: the same, and the values to which it is equal
//
// Further lines of a type are made from its values: the duplicates that its keys refuse, the order, and what comparisons with each value find. Values
// are named by their place. An answer follows " => ". Lines that begin with # and empty lines stay.
func Play(script string, s Server) (string, error) {
	c, err := dial(s.Addr, s.User)
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := c.exec(settings...); err != nil {
		return "", err
	}
	if s.Beside {
		if err := c.exec(settingsBeside...); err != nil {
			return "", err
		}
	}
	head, rest, _ := strings.Cut(script, "\n= ")
	var out strings.Builder
	out.WriteString(head)
	for section := range strings.SplitSeq(rest, "\n= ") {
		name, lines, _ := strings.Cut(section, "\n")
		p := &playing{c: c}
		fmt.Fprintf(&out, "\n= %s\n", name)
		if err := p.section(lines, s.Beside); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		out.WriteString(p.out.String())
	}
	return out.String(), nil
}

// playing is one type.
type playing struct {
	c      *client
	out    strings.Builder
	ids    []int    // of the values that the column takes
	values []string // all of them
	keys   bool     // the column can be a key
}

func (p *playing) say(label, format string, args ...any) {
	p.out.WriteString(strings.TrimRight(label+given+fmt.Sprintf(format, args...), " ") + "\n")
}

func (p *playing) section(lines string, beside bool) error {
	typ, prefix, made, refused := "", "", false, false
	p.keys = true
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n")
		label, _, _ := strings.Cut(line, given)
		kind, rest, _ := strings.Cut(label, " ")
		switch kind {
		case "column", "beside", "prefix":
			fmt.Fprintln(&p.out, line)
			switch {
			case kind == "prefix":
				prefix = "(" + rest + ")"
			case kind == "column" || beside:
				typ = rest
			}
		case "nokey":
			fmt.Fprintln(&p.out, line)
			p.keys = false
		case "v", "p":
			if !made {
				made = true
				ok, err := p.tables(typ, prefix)
				if err != nil {
					return err
				}
				refused = !ok
			}
			if refused {
				fmt.Fprintln(&p.out, label)
				continue
			}
			if kind == "v" {
				p.value(label, rest)
				continue
			}
			if err := p.param(label, rest); err != nil {
				return err
			}
		case "", "#":
			if line != "" || !made {
				fmt.Fprintln(&p.out, line)
			}
		}
	}
	if made && !refused && p.keys {
		p.comparisons()
	}
	return nil
}

// tables makes the tables of a type. false: the server does not have the type.
func (p *playing) tables(typ, prefix string) (bool, error) {
	if err := p.c.exec("DROP TABLE IF EXISTS t, k, p, u"); err != nil {
		return false, err
	}
	all := []string{"CREATE TABLE t (id INT PRIMARY KEY, v " + typ + ")"}
	if p.keys {
		all = append(all, "CREATE TABLE k (id INT PRIMARY KEY, v "+typ+", KEY by_v (v"+prefix+"))",
			"CREATE TABLE u (id INT PRIMARY KEY, v "+typ+", UNIQUE KEY by_v (v"+prefix+"))",
			"CREATE TABLE p (id INT, v "+typ+", PRIMARY KEY (v"+prefix+"))")
	}
	for _, text := range all {
		if _, err := p.c.query(text); err != nil {
			var f *failure
			if !errors.As(err, &f) {
				return false, err
			}
			p.say(refusedType, "%s", told(err))
			return false, nil
		}
	}
	return true, nil
}

// value tries a literal.
func (p *playing) value(label, literal string) {
	p.values = append(p.values, literal)
	id := len(p.values)
	if _, err := p.c.query(fmt.Sprintf("INSERT INTO t VALUES (%d, %s)", id, literal)); err != nil {
		p.say(label, "%s", told(err))
		return
	}
	p.ids = append(p.ids, id)
	read := fmt.Sprintf("SELECT v FROM t WHERE id = %d", id)
	p.say(label, "%s", p.both(read))
	if p.keys {
		_, _ = p.c.query(fmt.Sprintf("INSERT INTO k VALUES (%d, %s)", id, literal)) // the comparisons show it
	}
}

// both reads a value in text and in binary form.
func (p *playing) both(read string) string {
	text := answer(p.c.query(read))
	bin := answer(p.c.run(read))
	return text + " / " + bin
}

// param tries a parameter.
func (p *playing) param(label, text string) error {
	v, err := parseParam(text)
	if err != nil {
		return err
	}
	if _, err := p.c.query("DELETE FROM t WHERE id = 0"); err != nil {
		return err
	}
	if _, err := p.c.run("INSERT INTO t VALUES (?, ?)", idParam(0), v); err != nil {
		p.say(label, "%s", told(err)+p.equal(v))
		return nil
	}
	p.say(label, "%s", p.both("SELECT v FROM t WHERE id = 0")+p.equal(v))
	return nil
}

// equal is which values a parameter is equal to.
func (p *playing) equal(v param) string {
	if !p.keys {
		return ""
	}
	by := answer(p.c.run("SELECT id FROM k WHERE v = ? ORDER BY id", v))
	without := answer(p.c.run("SELECT id FROM k IGNORE INDEX (by_v) WHERE v = ? ORDER BY id", v))
	if by != without {
		return "; = " + without + ", by index " + by
	}
	return "; = " + by
}

// comparisons tries the values as keys.
func (p *playing) comparisons() {
	for _, table := range []struct{ label, name string }{{"primary", "p"}, {"unique", "u"}} {
		var refused []string
		for _, id := range p.ids {
			if _, err := p.c.query(fmt.Sprintf("INSERT INTO %s VALUES (%d, %s)", table.name, id, p.values[id-1])); err != nil {
				refused = append(refused, fmt.Sprintf("%d: %s", id, told(err)))
			}
		}
		p.say(table.label, "%s", strings.Join(refused, ", "))
		p.say(table.label+" rows", "%s", answer(p.c.query("SELECT v FROM "+table.name+" ORDER BY v, id")))
	}
	p.say("order", "%s", p.indexed("SELECT id FROM k %s ORDER BY v, id"))
	p.say("back", "%s", p.indexed("SELECT id FROM k %s ORDER BY v DESC, id"))
	p.say("groups", "%s", p.indexed("SELECT MIN(id) FROM k %s GROUP BY v ORDER BY MIN(id)"))
	for i, v := range p.values {
		next := p.values[(i+1)%len(p.values)]
		p.say(fmt.Sprintf("%d =", i+1), "%s", p.indexed("SELECT id FROM k %s WHERE v = "+v+" ORDER BY id"))
		p.say(fmt.Sprintf("%d <", i+1), "%s", p.indexed("SELECT id FROM k %s WHERE v < "+v+" ORDER BY id"))
		p.say(fmt.Sprintf("%d to next", i+1), "%s", p.indexed("SELECT id FROM k %s WHERE v BETWEEN "+v+" AND "+next+" ORDER BY id"))
	}
}

// indexed runs a statement with and without the index. The answers should not differ.
func (p *playing) indexed(text string) string {
	by := answer(p.c.query(fmt.Sprintf(text, "FORCE INDEX (by_v)")))
	without := answer(p.c.query(fmt.Sprintf(text, "IGNORE INDEX (by_v)")))
	if by != without {
		return without + ", by index " + by
	}
	return by
}

// answer prints the rows of a result on one line. Of an error only its number counts: the texts are each server's own.
func answer(all rows, err error) string {
	if err != nil {
		return told(err)
	}
	var words []string
	for _, r := range all {
		for _, v := range r {
			words = append(words, shown(v))
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

func told(err error) string {
	var f *failure
	if errors.As(err, &f) {
		return fmt.Sprintf("error %d", f.number)
	}
	return err.Error()
}

// shown prints a value, in quotes unless it is a word.
func shown(v *string) string {
	if v == nil {
		return "NULL"
	}
	for _, c := range *v {
		if c <= ' ' || c >= 0x7f && c < 0xa1 || c == '"' || c == utf8.RuneError {
			return short(fmt.Sprintf("%q", *v))
		}
	}
	if *v == "" {
		return `""`
	}
	return short(*v)
}

// short leaves the middle of a long value out.
func short(s string) string {
	if r := []rune(s); len(r) > 100 {
		return fmt.Sprintf("%s…%s (%d)", string(r[:20]), string(r[len(r)-20:]), len(r))
	}
	return s
}
