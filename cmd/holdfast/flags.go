package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// flagList gathers a command's flags in the order in which its help shows them.
type flagList struct {
	command string
	set     *pflag.FlagSet
	rows    []flagRow
}

type flagRow struct{ head, text string }

func newFlagList(command string) *flagList {
	set := pflag.NewFlagSet(command, pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	return &flagList{command: command, set: set}
}

// text adds a flag that takes a value; arg names the value in the help.
func (l *flagList) text(name, arg, def, help string) *string {
	if def != "" {
		l.rows = append(l.rows, flagRow{"--" + name + " " + arg, fmt.Sprintf("%s (default %s)", help, def)})
	} else {
		l.rows = append(l.rows, flagRow{"--" + name + " " + arg, help})
	}
	return l.set.String(name, def, help)
}

// list adds a flag that may be given several times; its value is all of them with commas between.
func (l *flagList) list(name, arg, help string) {
	l.rows = append(l.rows, flagRow{"--" + name + " " + arg, help})
	l.set.Var(new(commaList), name, help)
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

// toggle adds a flag without a value.
func (l *flagList) toggle(name, help string) *bool {
	l.rows = append(l.rows, flagRow{"--" + name, help})
	return l.set.Bool(name, false, help)
}

// parse reads args and turns the parser's errors into ours.
func (l *flagList) parse(args []string) error {
	err := l.set.Parse(args)
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
				if l.set.Lookup(name) != nil {
					return usagef("%s: %s: flags begin with two dashes; write -%s", l.command, a, a)
				}
				return l.unknown(name)
			}
		}
	}
	return usagef("%s: %s; see `holdfast %s --help`", l.command, text, l.command)
}

func (l *flagList) unknown(name string) error {
	name, _, _ = strings.Cut(name, "=")
	var names []string
	l.set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest(name, names); near != "" {
		return usagef("%s: this build has no flag --%s; did you mean --%s?", l.command, name, near)
	}
	return usagef("%s: this build has no flag --%s; see `holdfast %s --help`", l.command, name, l.command)
}

func printCommands(w io.Writer) error {
	var b strings.Builder
	b.WriteString("Holdfast: one durable, replicated log behind protocols you already use.\n\nUsage: holdfast COMMAND [FLAGS]\n\n")
	table := commands()
	width := 0
	for _, c := range table {
		width = max(width, len(c.name))
	}
	for _, c := range table {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, c.name, c.summary)
	}
	b.WriteString("\nEvery command explains itself: holdfast COMMAND --help\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func printHelp(w io.Writer, cmd *command, list *flagList) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: holdfast %s", cmd.summary, cmd.name)
	if len(list.rows) > 0 {
		b.WriteString(" [FLAGS]")
	}
	if cmd.args != "" {
		b.WriteString(" " + cmd.args)
	}
	b.WriteString("\n")
	if cmd.about != "" {
		b.WriteString("\n" + cmd.about + "\n")
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
	for _, e := range cmd.examples {
		b.WriteString("  " + e + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
