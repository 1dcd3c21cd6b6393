// Command holdfast is the one program of Holdfast: the server (serve) and the tools an operator needs beside it.
//
// It holds no logic of its own: commands parse flags, call the package that knows, and print. Every error is one line, "holdfast: what:
// why; what to do next". The exit status is 1, or 2 when the command line itself is wrong.
package main

import (
	"os"
	"runtime"
	"slices"

	"github.com/holdfastdb/holdfast/doors/kv/migrate"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/inspect"
	"github.com/holdfastdb/holdfast/serve/member"
	"github.com/holdfastdb/holdfast/serve/restore"
	"github.com/holdfastdb/holdfast/serve/server"
	"github.com/holdfastdb/holdfast/serve/snapshot"
	"github.com/holdfastdb/holdfast/sqlite/litestream"
	sqliteprogram "github.com/holdfastdb/holdfast/sqlite/program"
)

// commands is the table, in the order of `holdfast help`.
func commands() []*cli.Command {
	var aliases []*cli.Command
	for _, a := range all.Aliases() {
		aliases = append(aliases, a.Command(all))
	}
	return slices.Concat(
		[]*cli.Command{server.Command(all)},
		aliases,
		[]*cli.Command{litestream.Command(), server.DoorsCommand(all), member.StatusCommand(all)},
		member.Commands(all),
		snapshot.Commands(all),
		restore.Commands(all),
		[]*cli.Command{sqliteprogram.Run(), sqliteprogram.Replicate(), sqliteprogram.Status(), sqliteprogram.Restore(), sqliteprogram.Branch(), sqliteprogram.Verify(), sqliteprogram.List()},
		inspect.Commands(all),
		all.Commands(),
		[]*cli.Command{migrate.Command(all), cli.VersionCommand()})
}

// heapSample is the number of allocated bytes between two samples of the heap profile (GET /debug/pprof/heap of --admin). At Go's half a
// mebibyte every buffer for a large value is recorded with its stack. That is 1 to 2 % of the CPU of such a load.
const heapSample = 8 << 20

func main() {
	runtime.MemProfileRate = heapSample // before anything of size is allocated
	for _, a := range all.Aliases() {
		if a.Named(os.Args) {
			os.Exit(a.Run(all, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
		}
	}
	if litestream.Named(os.Args) {
		os.Exit(litestream.Run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
	}
	os.Exit(cli.Run(commands(), os.Args[1:], os.Stdout, os.Stderr, os.Getenv))
}
