package engine

import (
	"regexp"
	"strings"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// There are no triggers, events, procedures and functions, so that lists of them are empty, with any condition. Tools that take dumps ask for them.

var noneForm = regexp.MustCompile(`(?is)^show\s+(triggers|events|procedure\s+status|function\s+status)\b`)

// noneColumns are the columns of these lists.
var noneColumns = map[string][]string{
	"triggers":         {"Trigger", "Event", "Table", "Statement", "Timing", "Created", "sql_mode", "Definer"},
	"events":           {"Db", "Name", "Definer", "Time zone", "Type", "Execute at", "Interval value", "Interval field", "Starts", "Ends", "Status", "Originator"},
	"procedure status": {"Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment"},
	"function status":  {"Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment"},
}

// noneLast are those that all of them end with.
var noneLast = []string{"character_set_client", "collation_connection", "Database Collation"}

// parseNone parses the questions for such a list. ok false: the text is another statement.
func parseNone(text string) (s *Statement, rest string, ok bool) {
	m := noneForm.FindStringSubmatch(text)
	if m == nil {
		return nil, "", false
	}
	if end := statementEnd(text); end < len(text) {
		text, rest = text[:end], strings.TrimLeft(text[end:], " \t\r\n;")
	}
	return &Statement{Kind: KindOther, Text: strings.TrimRight(text, " \t\r\n"), none: strings.Join(strings.Fields(strings.ToLower(m[1])), " ")}, rest, true
}

// showNone sends the columns.
func showNone(of string, to *wire.Answer) {
	var columns []wire.Column
	for _, name := range append(noneColumns[of], noneLast...) {
		columns = append(columns, wire.Column{Name: name, Type: wire.VarString, Collation: uint16(textCollation), Length: 1024})
	}
	to.Columns(columns)
}
