// Package cli is the common ground of all subcommands: the command table, flags with their help, shared value types and one-line errors. It
// also has the client of a server's admin port. It decides nothing.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Command is one entry of the command table. Name may have two words ("member add").
type Command struct {
	Name     string
	Args     string // the arguments behind the name in the usage line
	Summary  string // one line for the list of commands
	About    string // paragraphs for --help, may be empty
	Examples []string
	Flags    func(*FlagList)
	Run      func(*Call) error
	// Raw is set instead of Run where the arguments follow another program's rules; it returns the exit status.
	Raw func(args, environ []string, stdout, stderr io.Writer) int
}

// Call is one run of a command.
type Call struct {
	Cmd    *Command
	Args   []string
	Flags  *pflag.FlagSet
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
}

// Run executes one command line of those in table and returns the exit status. The table's order is that of `holdfast help`.
func Run(table []*Command, args []string, stdout, stderr io.Writer, getenv func(string) string) int {
	if cmd, rest := find(table, args); cmd != nil && cmd.Raw != nil {
		return cmd.Raw(rest, os.Environ(), stdout, stderr)
	}
	err := dispatch(table, args, stdout, stderr, getenv)
	if err == nil {
		return 0
	}
	var status StatusError
	if errors.As(err, &status) {
		return int(status)
	}
	var u *UsageError
	line := strings.Join(strings.Fields(err.Error()), " ") // one line, even if a library's error has several
	fmt.Fprintf(stderr, "holdfast: %s\n", line)
	if errors.As(err, &u) {
		return 2
	}
	return 1
}

func dispatch(table []*Command, args []string, stdout, stderr io.Writer, getenv func(string) string) error {
	if len(args) == 0 {
		return Usagef("which command?; `holdfast help` lists them, `holdfast serve --data DIR` starts a server")
	}
	switch args[0] {
	case "help", "-h", "--help":
		if len(args) > 1 {
			return dispatch(table, append(args[1:], "--help"), stdout, stderr, getenv)
		}
		return printCommands(stdout, table)
	case "--version", "-v":
		args = []string{"version"}
	}
	cmd, rest := find(table, args)
	if cmd == nil {
		return unknownCommand(table, args)
	}
	c := &Call{Cmd: cmd, Stdout: stdout, Stderr: stderr, Getenv: getenv}
	list := NewFlagList(cmd.Name)
	if cmd.Flags != nil {
		cmd.Flags(list)
	}
	c.Flags = list.Set
	if wantsHelp(rest) {
		return printHelp(stdout, cmd, list)
	}
	if err := list.Parse(rest); err != nil {
		return err
	}
	c.Args = list.Set.Args()
	return cmd.Run(c)
}

// find takes the longest name that args begin with.
func find(table []*Command, args []string) (cmd *Command, rest []string) {
	for _, c := range table {
		words := strings.Fields(c.Name)
		if len(args) < len(words) || strings.Join(args[:len(words)], " ") != c.Name {
			continue
		}
		if cmd == nil || len(c.Name) > len(cmd.Name) {
			cmd, rest = c, args[len(words):]
		}
	}
	return cmd, rest
}

// unknownCommand answers a name that is not in the table: a group of commands lists its members, anything else gets the
// nearest name.
func unknownCommand(table []*Command, args []string) error {
	var names, group []string
	for _, c := range table {
		names = append(names, c.Name)
		if strings.HasPrefix(c.Name, args[0]+" ") {
			group = append(group, strings.TrimPrefix(c.Name, args[0]+" "))
		}
	}
	if len(group) > 0 {
		if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
			return Usagef("%s %s: no such command; there is %s", args[0], args[1], Alternatives(group))
		}
		return Usagef("%s: which one?; there is %s", args[0], Alternatives(group))
	}
	next := "`holdfast help` lists the commands"
	if near := Nearest(args[0], names); near != "" {
		next = fmt.Sprintf("did you mean `holdfast %s`?", near)
	}
	return Usagef("%s: no such command; %s", args[0], next)
}

// Alternatives prints names as "a, b and c".
func Alternatives(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func wantsHelp(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "-h", "--help":
			return true
		}
	}
	return false
}
