package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/startpages"
	"github.com/holdfastdb/holdfast/internal/stopping"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Command is `holdfast serve` with those doors.
func Command(all serve.List) *cli.Command {
	c := newConfig(all)
	return &cli.Command{
		Name:    "serve",
		Summary: "run a server in the foreground",
		About: `Every flag is also an environment variable (--tls-cert: HOLDFAST_TLS_CERT) and a key of the --config file.
A flag wins over the environment, the environment over the file. Without a door's flag every door is on at its default
address; once one is named, the others are off. --admin is on unless off. Standard error says "ready" once every door
serves. SIGTERM or Ctrl-C hands leadership over and stops cleanly; a second one stops at once. SIGHUP
reads the certificates and authorities again. Under systemd, Type=notify works.`,
		Examples: []string{
			"holdfast serve --data ./data",
			"holdfast serve --data ./d1 --name n1 --kv 127.0.0.1:2379 --peers n1=127.0.0.1:2380,n2=127.0.0.1:2480,n3=127.0.0.1:2580",
			"holdfast serve --data ./d4 --name n4 --kv 127.0.0.1:2679 --peer 127.0.0.1:2680 --admin off --join 127.0.0.1:2380",
			"HOLDFAST_MEMORY=128MiB holdfast serve --config /etc/holdfast.yaml",
		},
		Flags: c.addOptions,
		Run:   func(call *cli.Call) error { return run(c, call) },
	}
}

func run(cfg *Config, c *cli.Call) error {
	if len(c.Args) > 0 {
		return cli.Usagef("serve: %q is no flag; see `holdfast serve --help`", c.Args[0])
	}
	cfg, err := loadConfig(cfg, c.Flags, c.Getenv)
	if err != nil {
		return err
	}
	if err := TuneRuntime(cfg.memory, c.Getenv); err != nil {
		return err
	}
	log := NewLog(c.Stderr, cfg.logLevel)
	if cfg.logFormat == "json" {
		log = newJSONLog(c.Stderr, cfg.logLevel)
	}
	for _, name := range cfg.unknownVariables(os.Environ()) {
		log.Warn("this variable is no setting of this build and does nothing", "name", name)
	}
	if open := cfg.exposed(); len(open) > 0 {
		log.Warn("anyone who reaches these addresses can read and change everything (--insecure)", "open", strings.Join(open, ", "))
	}

	su, err := cfg.Setup(log)
	if err != nil {
		return err
	}
	su.NotifySocket = c.Getenv("NOTIFY_SOCKET")
	return Serve(su, log, func(s *Server) { fmt.Fprintf(c.Stderr, "ready %s\n", s.Addresses()) })
}

// Serve runs a server until a signal or a failure ends it; ready is called once it accepts clients.
func Serve(su *Setup, log *slog.Logger, ready func(*Server)) error {
	// The first signal ends the start or the service, the second ends the process wherever it is.
	signals, stop := stopping.Notify()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			log.Info("stopping; a second signal stops at once", "signal", s)
			notify(su.NotifySocket, "STOPPING=1", log)
			close(asked)
			cancel()
		case <-ctx.Done():
			return
		}
		<-signals
		os.Exit(1)
	}()

	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go func() {
		for range hangups { // for as long as the process lives
			su.Reload(log)
		}
	}()
	su.fitProcessors()
	s, err := Start(ctx, su, log)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil // asked to stop before the start was over
		}
		return err
	}
	startpages.Forget()
	rest := s.comeToRest()
	ready(s)
	notify(su.NotifySocket, "READY=1", log)
	select {
	case <-asked:
		rest()
		return s.Shutdown()
	case err := <-s.failed:
		rest()
		s.abandon()
		return err
	}
}

// cores is what this process may use, containers' limits included, as the runtime found it at its start.
var cores = runtime.GOMAXPROCS(0)

// TuneRuntime fits the Go runtime to the budget. Settings from the environment stay.
func TuneRuntime(memory int64, getenv func(string) string) error {
	switch v := getenv("HOLDFAST_GOMAXPROCS"); {
	case v != "":
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return cli.Usagef("HOLDFAST_GOMAXPROCS %s: not a number of processors; write 4, or leave it unset", v)
		}
		runtime.GOMAXPROCS(n)
	case getenv("GOMAXPROCS") == "":
		// As many as cores, and two where there is one: a thread that waits for fdatasync holds its processor until the monitor takes it
		// back. Twice as many were tried first (docs/DECISIONS.md B8). Every wake-up then found an idle processor and started a thread for
		// it: a tenth of the CPU of members on one machine.
		runtime.GOMAXPROCS(max(2, cores))
	}
	calmSysmon()
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(budget.Of(memory).GoLimit)
	}
	if getenv("GOGC") == "" {
		// The limit above keeps the heap inside the budget. Until it is near, rare collections are the cheapest way to spend memory that
		// was granted anyway (DECISIONS B6). Once the server runs, it follows the live heap (comeToRest).
		debug.SetGCPercent(400)
	}
	return nil
}
