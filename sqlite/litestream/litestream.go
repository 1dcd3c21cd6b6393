// Package litestream is the program under the name litestream. It puts that tool's commands, flags and configuration file in front of this
// program's own agent for SQLite databases in a bucket. Output and exit statuses are Litestream's, where both programs have them. It
// captures and stores nothing itself.
package litestream

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

const (
	// name is the one under which this program is Litestream: linked, copied, or as `holdfast litestream`.
	name = "litestream"
	// likeVersion is the release of Litestream whose commands and settings these are.
	likeVersion = "v0.5.18"
)

// command is one of Litestream's.
type command struct {
	name, summary string
	args          string // the arguments behind the flags
	about         string
	run           func(p *program, args []string) error
}

func commands() []command {
	return []command{
		{"databases", "list the databases of the configuration file", "", databasesAbout, (*program).databases},
		{"ltx", "list the files of a replica", "DB_PATH|REPLICA_URL", ltxAbout, (*program).ltx},
		{"replicate", "replicate databases until a signal, or once", "[DB_PATH REPLICA_URL]", replicateAbout, (*program).replicate},
		{"restore", "restore a database from its replica", "DB_PATH|REPLICA_URL", restoreAbout, (*program).restore},
		{"sync", "have a running program store what was committed", "DB_PATH", syncAbout, (*program).sync},
		{"version", "print the version", "", "", (*program).version},
	}
}

// missing are Litestream's other commands, and what to do instead.
var missing = map[string]string{
	"info":       "this command is not offered; the log says what is replicated",
	"list":       "this command is not offered; `litestream databases` lists what the configuration file has",
	"register":   "this command is not offered; add the database to the configuration file and start the program anew",
	"unregister": "this command is not offered; take the database off the configuration file and start the program anew",
	"start":      "this command is not offered; the program replicates all its databases while it runs",
	"stop":       "this command is not offered; the program replicates all its databases while it runs",
	"status":     "this command is not offered; `litestream ltx` lists what is stored of a database",
	"reset":      "this command is not offered; a database that does not match what is stored is compared page by page and goes on",
	"mcp":        "this command is not offered",
}

// program is one run. It belongs to one goroutine.
type program struct {
	sur            *conf.Surroundings
	environ        []string
	stdout, stderr io.Writer
}

// usageError is an error with a command line that would be right.
type usageError struct{ text, try string }

func (e *usageError) Error() string { return e.text }

// errHelp is returned when help was asked for and printed.
var errHelp = errors.New("help")

// Run is the program under the name litestream. It returns the exit status: 1 for every error, as Litestream does.
func Run(args, environ []string, stdout, stderr io.Writer) int {
	p := &program{environ: environ, stdout: stdout, stderr: stderr}
	err := p.surround()
	if err == nil {
		err = p.dispatch(args)
	}
	if err == nil || errors.Is(err, errHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "Error: %s\n", strings.Join(strings.Fields(err.Error()), " "))
	var u *usageError
	if errors.As(err, &u) {
		fmt.Fprintf(stderr, "Try: %s\n", u.try)
	}
	return 1
}

// surround looks at what paths and variables depend on.
func (p *program) surround() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // only a path that begins with ~ needs it
	}
	p.sur = &conf.Surroundings{Dir: dir, Home: home, PID: os.Getpid(), Getenv: p.getenv}
	return nil
}

func (p *program) getenv(name string) string {
	for _, line := range p.environ {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			return v
		}
	}
	return ""
}

func (p *program) dispatch(args []string) error {
	if len(args) == 0 {
		p.help()
		return &usageError{"which command?", "litestream help"}
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		p.help()
		return nil
	case "wal":
		fmt.Fprintln(p.stderr, "Warning: 'wal' command is deprecated, please use 'ltx' instead")
		args[0] = "ltx"
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(p, args[1:])
		}
	}
	if why, ok := missing[args[0]]; ok {
		return fmt.Errorf("litestream %s: %s", args[0], why)
	}
	return fmt.Errorf("litestream %s: unknown command", args[0])
}

func (p *program) help() {
	fmt.Fprintf(p.stdout, `This is Holdfast under the name litestream: commands, flags and the configuration file are Litestream %s's.

Usage:

	litestream COMMAND [FLAGS] [ARGUMENTS]

The commands are:

`, likeVersion)
	for _, c := range commands() {
		fmt.Fprintf(p.stdout, "	%-12s %s\n", c.name, c.summary)
	}
	fmt.Fprint(p.stdout, "\nEvery command explains itself: litestream COMMAND -h\n")
}

// flags are those of one command.
func (p *program) flags(of string) *flag.FlagSet {
	set := flag.NewFlagSet(of, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	return set
}

// parse reads a command line and lets between least and most arguments stand behind the flags.
func (p *program) parse(set *flag.FlagSet, args []string, least, most int, absent string) error {
	err := set.Parse(args)
	var c command
	for _, c = range commands() {
		if c.name == set.Name() {
			break
		}
	}
	hint := "litestream " + c.name + " -h"
	switch {
	case errors.Is(err, flag.ErrHelp):
		p.explain(&c, set)
		return errHelp
	case err != nil:
		return &usageError{err.Error(), hint}
	case set.NArg() < least || set.NArg() > 0 && least > 0 && set.Arg(0) == "":
		return &usageError{absent, hint}
	case set.NArg() > most:
		return &usageError{"too many arguments", hint}
	}
	return nil
}

// explain prints a command's help.
func (p *program) explain(c *command, set *flag.FlagSet) {
	fmt.Fprintf(p.stdout, "litestream %s: %s\n\nUsage: %s\n", c.name, c.summary,
		strings.TrimSuffix("litestream "+c.name+" [FLAGS] "+c.args, " "))
	if c.about != "" {
		fmt.Fprint(p.stdout, "\n"+c.about)
	}
	fmt.Fprint(p.stdout, "\nFlags:\n")
	set.VisitAll(func(f *flag.Flag) {
		arg, text := flag.UnquoteUsage(f)
		fmt.Fprintf(p.stdout, "  %-28s %s\n", strings.TrimSuffix("-"+f.Name+" "+arg, " "), text)
	})
}

// version prints the matching version of Litestream, in its own form, and this program's.
func (p *program) version(args []string) error {
	set := p.flags("version")
	verbose := set.Bool("verbose", false, "also what it was built with")
	if err := p.parse(set, args, 0, 0, ""); err != nil {
		return err
	}
	if *verbose {
		fmt.Fprintf(p.stdout, "Version:     %s\nHoldfast:    %s%s\nGo Version:  %s\nOS/Arch:     %s/%s\n", likeVersion, cli.Version, cli.Revision(),
			runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	fmt.Fprintf(p.stdout, "%s\nholdfast %s%s\n", likeVersion, cli.Version, cli.Revision())
	return nil
}

// Named reports whether the program was called as litestream.
func Named(argv []string) bool {
	return len(argv) > 0 && filepath.Base(argv[0]) == name
}

// Command is `holdfast litestream`, the same without a link.
func Command() *cli.Command {
	return &cli.Command{
		Name:    name,
		Summary: "replicate and restore SQLite databases with Litestream's configuration; a link named litestream to this program does the same",
		About: `Takes Litestream's commands, flags, variables and configuration file. See docs/SQLITE.md, and
` + "`holdfast litestream help`" + ` for the list.`,
		Examples: []string{"holdfast litestream replicate app.db s3://bucket/app", "holdfast litestream restore -o app.db s3://bucket/app"},
		Raw:      Run,
	}
}
