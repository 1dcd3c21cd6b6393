package part

import (
	"fmt"
	"strings"
)

// Describe prints an encoded part on one line: "table.commit table 4@9: 3 rows, 120 bytes", "table.define create table test.t". It prints no
// keys and no values: they are users' data. What does not decode is printed so.
func Describe(body []byte) string {
	var p Part
	if err := p.Decode(body); err != nil {
		return fmt.Sprintf("table.? (%d bytes: %v)", len(body), err)
	}
	return p.String()
}

// String prints the part as Describe does.
func (p *Part) String() string {
	var all []string
	switch p.Kind {
	case Stage:
		s := fmt.Sprintf("table.stage transaction %d:", p.Tx)
		for i := range p.Tables {
			w := &p.Tables[i]
			n := 0
			for rest := w.Ops; len(rest) > 0; n++ {
				_, rest, _ = NextOp(rest) // Decode has looked at each
			}
			s += fmt.Sprintf(" table %d@%d: %d rows and entries, %d bytes", w.Table, w.Version, n, len(w.Ops))
		}
		if p.First {
			s += ", the first piece"
		}
		return s
	case Decide:
		if p.Verdict == DropStaged {
			return fmt.Sprintf("table.decide transaction %d is dropped", p.Tx)
		}
		s := fmt.Sprintf("table.decide transaction %d is committed, pieces %016x", p.Tx, p.Hash)
		if p.Verdict == PrepareStaged {
			s = fmt.Sprintf("table.decide transaction %d is prepared as %q, pieces %016x, %d locks", p.Tx, p.Name, p.Hash, len(p.Locks))
			if len(p.Ranges) > 0 {
				s += fmt.Sprintf(" and %d ranges", len(p.Ranges))
			}
		}
		for i := range p.Tables {
			w := &p.Tables[i]
			s += fmt.Sprintf(", table %d@%d next value %d, next row %d", w.Table, w.Version, w.NextAuto, w.NextRow)
		}
		if len(p.Reads) > 0 {
			s += fmt.Sprintf(", %d read", len(p.Reads))
		}
		return s
	case Move:
		return fmt.Sprintf("table.move transaction %d by %d bytes", p.Tx, p.Bytes)
	case Define:
		for i := range p.Changes {
			all = append(all, p.Changes[i].String())
		}
		s := "table.define " + strings.Join(all, ", ")
		if p.Places {
			s += ", rows say their places"
		}
		return s
	}
	for i := range p.Tables {
		w := &p.Tables[i]
		var counts [Delete + 1]int
		bytes, entries := 0, 0
		for rest := w.Ops; len(rest) > 0; {
			var op Op
			op, rest, _ = NextOp(rest) // Decode has looked at each
			bytes += len(op.Key) + len(op.Value)
			if op.Index == 0 {
				counts[op.Action]++
			} else {
				entries++
			}
		}
		s := fmt.Sprintf("table %d@%d: %d inserted, %d updated, %d deleted, %d of indexes, %d bytes over %d", w.Table, w.Version, counts[Insert],
			counts[Update], counts[Delete], entries, bytes, w.Overwrote)
		if w.Rows != 0 {
			s += fmt.Sprintf(", %+d rows", w.Rows)
		}
		if w.NextAuto != 0 {
			s += fmt.Sprintf(", next value %d", w.NextAuto)
		}
		if w.NextRow != 0 {
			s += fmt.Sprintf(", next row %d", w.NextRow)
		}
		all = append(all, s)
	}
	if len(p.Reads) > 0 {
		all = append(all, fmt.Sprintf("%d read", len(p.Reads)))
	}
	return strings.TrimSuffix("table.commit "+strings.Join(all, ", "), " ")
}

// String prints the change without its definition.
func (c *Change) String() string {
	word := [...]string{CreateDatabase: "create database", AlterDatabase: "alter database", DropDatabase: "drop database", CreateTable: "create table",
		AlterTable: "alter table", DropTable: "drop table", Truncate: "truncate table"}[c.Verb]
	s := word
	if c.Object != 0 {
		s += fmt.Sprintf(" %d@%d", c.Object, c.Version)
	}
	if c.Name != "" {
		s += fmt.Sprintf(" %q", c.Name)
	}
	if c.Database != 0 {
		s += fmt.Sprintf(" of database %d", c.Database)
	}
	for _, x := range c.Indexes {
		s += fmt.Sprintf(" index %d", x.ID)
		if x.State == Building {
			s += " (building)"
		}
	}
	if c.NextAuto != 0 {
		s += fmt.Sprintf(" next value %d", c.NextAuto)
	}
	if len(c.Definition) > 0 {
		s += fmt.Sprintf(" defined by %d bytes", len(c.Definition))
	}
	return s
}
