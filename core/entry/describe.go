package entry

import (
	"strconv"
	"strings"
)

// Describe prints a command as one line in the notation used in logs, traces and docs. "7.2@3 kv.put k=v" is the command at index 7, place
// 2, decided in term 3. part prints one part without a newline; the printers of the machines live in the subpackages, which this package
// cannot see. A command of several parts joins them with " + ", one of none prints "empty".
func Describe(p Position, c *Command, part func(Part) string) string {
	var b strings.Builder
	b.WriteString(p.String())
	b.WriteByte('@')
	b.WriteString(strconv.FormatUint(c.Term, 10))
	b.WriteByte(' ')
	for i := range c.Parts {
		if i > 0 {
			b.WriteString(" + ")
		}
		b.WriteString(part(c.Parts[i]))
	}
	if len(c.Parts) == 0 {
		b.WriteString("empty")
	}
	return b.String()
}
