// Command holdfast is the one program of Holdfast: the server (serve) and the tools an operator needs beside it.
//
// It holds no logic of its own: commands parse flags, call the package that knows, and print. Every error is one line,
// "holdfast: what: why; what to do next", and exits with 1, or with 2 when the command line itself is wrong.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// command is one entry of the command table. Name may have two words ("member add").
type command struct {
	name     string
	args     string // what follows the name in the usage line
	summary  string // one line for the list of commands
	about    string // paragraphs for --help, may be empty
	examples []string
	flags    func(*flagList)
	run      func(*call) error
	// raw is set instead of run where the arguments follow another program's rules; it returns the exit status.
	raw func(args, environ []string, stdout, stderr io.Writer) int
}

// call is one run of a command.
type call struct {
	cmd    *command
	args   []string
	flags  *pflag.FlagSet
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
}

// commands is the table, in the order of `holdfast help`.
func commands() []*command {
	var all []*command
	all = append(all, serveCommand(), etcdCommand(), statusCommand())
	all = append(all, memberCommands()...)
	all = append(all, snapshotCommands()...)
	all = append(all, inspectCommands()...)
	all = append(all, tlogCommands()...)
	all = append(all, resumeCommand())
	all = append(all, importCommand())
	return append(all, versionCommand())
}

func main() {
	if underEtcdName(os.Args) {
		os.Exit(runEtcd(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, os.Getenv))
}

// run executes one command line and returns the exit status.
func run(args []string, stdout, stderr io.Writer, getenv func(string) string) int {
	if cmd, rest := find(commands(), args); cmd != nil && cmd.raw != nil {
		return cmd.raw(rest, os.Environ(), stdout, stderr)
	}
	err := dispatch(args, stdout, stderr, getenv)
	if err == nil {
		return 0
	}
	var u *usageError
	line := strings.Join(strings.Fields(err.Error()), " ") // one line, even if a library's error has several
	fmt.Fprintf(stderr, "holdfast: %s\n", line)
	if errors.As(err, &u) {
		return 2
	}
	return 1
}

func dispatch(args []string, stdout, stderr io.Writer, getenv func(string) string) error {
	if len(args) == 0 {
		return usagef("which command?; `holdfast help` lists them, `holdfast serve --data DIR` starts a server")
	}
	switch args[0] {
	case "help", "-h", "--help":
		if len(args) > 1 {
			return dispatch(append(args[1:], "--help"), stdout, stderr, getenv)
		}
		return printCommands(stdout)
	case "--version", "-v":
		args = []string{"version"}
	}
	table := commands()
	cmd, rest := find(table, args)
	if cmd == nil {
		return unknownCommand(table, args)
	}
	c := &call{cmd: cmd, stdout: stdout, stderr: stderr, getenv: getenv}
	list := newFlagList(cmd.name)
	if cmd.flags != nil {
		cmd.flags(list)
	}
	c.flags = list.set
	if wantsHelp(rest) {
		return printHelp(stdout, cmd, list)
	}
	if err := list.parse(rest); err != nil {
		return err
	}
	c.args = list.set.Args()
	return cmd.run(c)
}

// find takes the longest name that args begin with.
func find(table []*command, args []string) (cmd *command, rest []string) {
	for _, c := range table {
		words := strings.Fields(c.name)
		if len(args) < len(words) || strings.Join(args[:len(words)], " ") != c.name {
			continue
		}
		if cmd == nil || len(c.name) > len(cmd.name) {
			cmd, rest = c, args[len(words):]
		}
	}
	return cmd, rest
}

// unknownCommand answers a name that is not in the table: a group of commands lists its members, anything else gets the
// nearest name.
func unknownCommand(table []*command, args []string) error {
	var names, group []string
	for _, c := range table {
		names = append(names, c.name)
		if strings.HasPrefix(c.name, args[0]+" ") {
			group = append(group, strings.TrimPrefix(c.name, args[0]+" "))
		}
	}
	if len(group) > 0 {
		if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
			return usagef("%s %s: no such command; there is %s", args[0], args[1], alternatives(group))
		}
		return usagef("%s: which one?; there is %s", args[0], alternatives(group))
	}
	next := "`holdfast help` lists the commands"
	if near := nearest(args[0], names); near != "" {
		next = fmt.Sprintf("did you mean `holdfast %s`?", near)
	}
	return usagef("%s: no such command; %s", args[0], next)
}

func alternatives(names []string) string {
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
