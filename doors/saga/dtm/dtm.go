// Package dtm is the program under the name dtm. That coordinator's command line, environment and configuration file come to the same setup
// as those of `holdfast serve`.
package dtm

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/saga/dtm/conf"
	sagaprogram "github.com/holdfastdb/holdfast/doors/saga/program"
	"github.com/holdfastdb/holdfast/internal/budget"
	doors "github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/server"
)

const (
	// dtmName is the name under which this program is DTM's server: linked, copied, or as `holdfast dtm`.
	dtmName = "dtm"
	// likeVersion is the release of DTM whose settings and protocol these are.
	likeVersion = "1.19.0"
	// usualDir is where the data lies if HOLDFAST_DATA does not say: in the working directory, as DTM's own file does.
	usualDir = "dtm.data"
)

const dtmHelp = `Usage:

  dtm [-c FILE] [-d]
    Start a server for DTM's clients. This is Holdfast under the name dtm: the configuration file and the
    environment are DTM %s's.

  -c FILE  DTM's configuration file, YAML; what it says goes before the environment
  -d       log level debug
  -r       begin without transactions: refused where there are any
  -v       show which DTM this server is like
  -h       show this

The data lies in HOLDFAST_DATA (default ./dtm.data), and the memory of the process is bounded by HOLDFAST_MEMORY
(default: a quarter of the machine's or control group's, 256MiB to 4GiB). HOLDFAST_SAGA_TOKENS,
HOLDFAST_SAGA_CLIENTS, HOLDFAST_SAGA_ALLOW_TARGETS and HOLDFAST_SAGA_CA are those of ` + "`holdfast serve`" + `. A setting that means nothing
here is taken with a line in the log that says why, or refused if somebody might rely on it.

Settings, each also as a variable (MicroService.EndPoint is MICRO_SERVICE_END_POINT):
`

// run is the program under the name dtm. It returns the exit status: 2 for a command line that cannot be read and 1 for everything else.
func run(all doors.List, args, environ []string, stdout, stderr io.Writer) int {
	fail := func(err error, status int) int {
		fmt.Fprintf(stderr, "dtm: %s\n", strings.Join(strings.Fields(err.Error()), " "))
		return status
	}
	s, err := conf.Parse(args, environ, os.ReadFile)
	var usage *conf.UsageError
	switch {
	case errors.Is(err, conf.ErrHelp):
		fmt.Fprintf(stdout, dtmHelp, likeVersion)
		for _, line := range conf.Help() {
			fmt.Fprintln(stdout, line)
		}
		return 0
	case errors.As(err, &usage):
		return fail(fmt.Errorf("%w; see `dtm -h`", err), 2)
	case err != nil:
		return fail(err, 1)
	case s.Version:
		fmt.Fprintf(stdout, "dtm version: %s\nholdfast %s%s %s %s/%s\n", likeVersion, cli.Version, cli.Revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return 0
	}
	if err := serve(all, s, environ, stdout, stderr); err != nil {
		return fail(err, 1)
	}
	return 0
}

// serve runs the server until a signal or a failure ends it.
func serve(all doors.List, s *conf.Settings, environ []string, stdout, stderr io.Writer) error {
	out, closeLog, err := server.OpenLogOutputs("Log.Outputs", s.LogOutputs, stdout, stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	log := server.NewLog(out, s.LogLevel)
	getenv := func(name string) string {
		for _, line := range environ {
			if v, ok := strings.CutPrefix(line, name+"="); ok {
				return v
			}
		}
		return ""
	}
	memory, err := server.MemoryOf(getenv("HOLDFAST_MEMORY"))
	if err != nil {
		return err
	}
	if err := server.TuneRuntime(memory.Bytes, getenv); err != nil {
		return err
	}
	for _, w := range s.Warnings {
		log.Warn(w)
	}
	su, err := Setup(all, s, memory, getenv, log)
	if err != nil {
		return err
	}
	su.NotifySocket = getenv("NOTIFY_SOCKET")
	return server.Serve(su, log, func(srv *server.Server) { log.Info("ready", "at", srv.Addresses()) })
}

// Setup turns DTM's settings into what start takes. It looks at the data directory and changes nothing.
func Setup(all doors.List, s *conf.Settings, memory server.Memory, getenv func(string) string, log *slog.Logger) (*server.Setup, error) {
	dir := cmp.Or(getenv("HOLDFAST_DATA"), usualDir)
	if s.Reset {
		if _, err := node.ReadIdentity(disk.OS(), dir); !errors.Is(err, node.ErrNoIdentity) {
			return nil, fmt.Errorf("-r: %s may hold transactions and is left alone; remove it to begin anew", dir)
		}
	}
	set := sagaprogram.Setup{RetryInterval: s.RetryInterval, TimeoutToFail: s.TimeoutToFail, RequestTimeout: s.RequestTimeout, Retention: s.Retention,
		AlertURL: s.AlertWebHook, AlertAfter: s.AlertRetryLimit}
	// Everywhere, as DTM does.
	set.HTTP = &doors.Place{Network: "tcp", Addr: ":" + strconv.Itoa(s.HTTPPort), Flag: "HttpPort"}
	set.GRPC = &doors.Place{Network: "tcp", Addr: ":" + strconv.Itoa(s.GRPCPort), Flag: "GrpcPort"}
	if err := set.Variables(getenv); err != nil {
		return nil, err
	}
	if set.Open() {
		log.Warn("anyone who reaches these ports can have any service called and stop transactions, as with DTM; HOLDFAST_SAGA_CLIENTS says who may",
			"open", set.HTTP.Addr+" "+set.GRPC.Addr)
	}
	share, err := budget.For(memory.Bytes, all.Claims(func(door string) bool { return door == sagaprogram.Door.Name })...)
	if err != nil {
		return nil, fmt.Errorf("HOLDFAST_MEMORY %s: %w", cli.SizeString(memory.Bytes), err)
	}
	su := &server.Setup{
		Node:      node.Config{Dir: dir, MemoryBytes: memory.Bytes, Shares: &share},
		MemoryWhy: memory.Why,
		Join:      node.StartOptions{Name: cli.HostName()},
		Advise:    func(err error) error { return server.Advise(err, "HOLDFAST_DATA", dir) },
	}
	// The other doors are off here.
	cleartext := func() *tls.Config { return nil }
	common := &doors.Common{Dir: dir, Shares: share, Clients: cleartext, Readers: cleartext, Log: log}
	if err := su.OnlyDoor(all, sagaprogram.Door.Name, set.Service(common), common); err != nil {
		return nil, err
	}
	return su, nil
}

// Door is the saga door, and this program under its other name.
var Door = door()

func door() doors.Door {
	d := sagaprogram.Door
	d.Alias = &doors.Alias{Named: named, Run: run, Command: command}
	return d
}

// named reports whether the program was called as dtm.
func named(argv []string) bool {
	return len(argv) > 0 && filepath.Base(argv[0]) == dtmName
}

// command is `holdfast dtm`, the same without a link.
func command(all doors.List) *cli.Command {
	return &cli.Command{
		Name:    dtmName,
		Summary: "run a server with DTM's configuration; a link named dtm to this program does the same",
		About: `Takes DTM's configuration file and its environment. See docs/OPERATIONS.md, and ` + "`holdfast dtm -h`" + ` for the
list.`,
		Examples: []string{"holdfast dtm -c conf.yml"},
		Raw: func(args, environ []string, stdout, stderr io.Writer) int {
			return run(all, args, environ, stdout, stderr)
		},
	}
}
