package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// FlagList gathers a command's flags in the order in which its help shows them.
type FlagList struct {
	command string
	Set     *pflag.FlagSet
	rows    []flagRow
}

type flagRow struct{ head, text string }

// NewFlagList begins the flags of the command of that name.
func NewFlagList(command string) *FlagList {
	set := pflag.NewFlagSet(command, pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	return &FlagList{command: command, Set: set}
}

// Text adds a flag that takes a value; arg names the value in the help.
func (l *FlagList) Text(name, arg, def, help string) *string {
	if def != "" {
		l.rows = append(l.rows, flagRow{"--" + name + " " + arg, fmt.Sprintf("%s (default %s)", help, def)})
	} else {
		l.rows = append(l.rows, flagRow{"--" + name + " " + arg, help})
	}
	return l.Set.String(name, def, help)
}

// List adds a flag that may be given several times; its value is all of them with commas between.
func (l *FlagList) List(name, arg, help string) {
	l.rows = append(l.rows, flagRow{"--" + name + " " + arg, help})
	l.Set.Var(new(commaList), name, help)
}

// commaList is the value of such a flag.
type commaList struct{ text string }

func (c *commaList) String() string { return c.text }
func (c *commaList) Type() string   { return "list" }
func (c *commaList) Set(v string) error {
	if c.text != "" {
		c.text += ","
	}
	c.text += v
	return nil
}

// Toggle adds a flag without a value.
func (l *FlagList) Toggle(name, help string) *bool {
	l.rows = append(l.rows, flagRow{"--" + name, help})
	return l.Set.Bool(name, false, help)
}

// Parse reads args and turns the parser's errors into ours.
func (l *FlagList) Parse(args []string) error {
	err := l.Set.Parse(args)
	if err == nil {
		return nil
	}
	text := err.Error()
	if _, name, ok := strings.Cut(text, "unknown flag: --"); ok {
		return l.unknown(name)
	}
	if strings.HasPrefix(text, "unknown shorthand flag") {
		for _, a := range args { // -kv for --kv: pflag reads it as two one-letter flags
			if name := strings.TrimLeft(a, "-"); strings.HasPrefix(a, "-") && name != "" && !strings.HasPrefix(a, "--") {
				if l.Set.Lookup(name) != nil {
					return Usagef("%s: %s: flags begin with two dashes; write -%s", l.command, a, a)
				}
				return l.unknown(name)
			}
		}
	}
	return Usagef("%s: %s; see `holdfast %s --help`", l.command, text, l.command)
}

func (l *FlagList) unknown(name string) error {
	name, _, _ = strings.Cut(name, "=")
	var names []string
	l.Set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := Nearest(name, names); near != "" {
		return Usagef("%s: this build has no flag --%s; did you mean --%s?", l.command, name, near)
	}
	return Usagef("%s: this build has no flag --%s; see `holdfast %s --help`", l.command, name, l.command)
}

func printCommands(w io.Writer, table []*Command) error {
	var b strings.Builder
	b.WriteString("Holdfast: one durable, replicated log behind protocols you already use.\n\nUsage: holdfast COMMAND [FLAGS]\n\n")
	width := 0
	for _, c := range table {
		width = max(width, len(c.Name))
	}
	for _, c := range table {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, c.Name, c.Summary)
	}
	b.WriteString("\nEvery command explains itself: holdfast COMMAND --help\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func printHelp(w io.Writer, cmd *Command, list *FlagList) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: holdfast %s", cmd.Summary, cmd.Name)
	if len(list.rows) > 0 {
		b.WriteString(" [FLAGS]")
	}
	if cmd.Args != "" {
		b.WriteString(" " + cmd.Args)
	}
	b.WriteString("\n")
	if cmd.About != "" {
		b.WriteString("\n" + cmd.About + "\n")
	}
	if len(list.rows) > 0 {
		b.WriteString("\nFlags:\n")
		width := 0
		for _, r := range list.rows {
			width = max(width, len(r.head))
		}
		for _, r := range list.rows {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, r.head, r.text)
		}
	}
	b.WriteString("\nExamples:\n")
	for _, e := range cmd.Examples {
		b.WriteString("  " + e + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// EnvName is the environment variable of a flag.
func EnvName(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
