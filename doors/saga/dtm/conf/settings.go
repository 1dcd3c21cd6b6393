package conf

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// Settings is everything that DTM's configuration says to this server, checked and with DTM's defaults filled in.
type Settings struct {
	HTTPPort, GRPCPort int

	TimeoutToFail, RetryInterval, RequestTimeout time.Duration
	// Retention is for how long a transaction is kept that has ended.
	Retention time.Duration

	// AlertWebHook is told of transactions that were tried again AlertRetryLimit times in vain; "": no alerts.
	AlertWebHook    string
	AlertRetryLimit int

	LogLevel   slog.Level
	LogOutputs []string

	// Version asks for the version and nothing else. Reset asks for a server without transactions.
	Version, Reset bool
	// Warnings are lines for the log: settings without effect.
	Warnings []string
}

// Parse reads one start of DTM: its arguments without the program's name, and its environment as os.Environ gives it. read reads the
// configuration file. The file goes before the environment. Errors: ErrHelp, *UsageError, or a sentence.
func Parse(args, environ []string, read func(path string) ([]byte, error)) (*Settings, error) {
	line, err := readArgs(args)
	if err != nil {
		return nil, err
	}
	if line.version {
		return &Settings{Version: true}, nil
	}
	g := &given{values: map[string]string{}, from: map[string]string{}}
	if err := g.readEnvironment(environ); err != nil {
		return nil, err
	}
	if line.file != "" {
		if err := g.readFile(line.file, read); err != nil {
			return nil, err
		}
	}
	if err := g.judge(); err != nil {
		return nil, err
	}
	s := &Settings{Reset: line.reset, AlertWebHook: g.value("AlertWebHook"), LogOutputs: outputs(g.value("Log.Outputs"))}
	for _, step := range []func(*Settings) error{g.readPorts, g.readTimes, g.readLog} {
		if err := step(s); err != nil {
			return nil, err
		}
	}
	if line.debug {
		s.LogLevel = slog.LevelDebug
	}
	s.Warnings = g.warnings
	return s, nil
}

// judge says what settings without a meaning here do, in the table's order.
func (g *given) judge() error {
	var unused []string
	for i := range table {
		r := &table[i]
		v, ok := g.values[r.name]
		switch {
		case !ok || r.use == honoured || r.use == refused && v == r.unless:
		case r.use == refused:
			return fmt.Errorf("%s: %s is not offered: %s", g.from[r.name], v, r.why)
		case r.use == store:
			unused = append(unused, r.name)
		default:
			g.warn("%s does nothing here: %s", g.from[r.name], r.why)
		}
	}
	if len(unused) > 0 { // names alone: there is a password among the values
		g.warn("%s: not used; transactions are kept in this server's own log, on disk and on a majority of its members",
			strings.Join(unused, ", "))
	}
	return nil
}

// number is the value of a setting that was checked to be one.
func (g *given) number(name string) int64 {
	n, _ := strconv.ParseInt(g.value(name), 10, 64)
	return n
}

// name is where a value was given, for errors.
func (g *given) name(name string) string {
	if from := g.from[name]; from != "" {
		return from
	}
	return name
}

func (g *given) readPorts(s *Settings) error {
	for name, to := range map[string]*int{"HttpPort": &s.HTTPPort, "GrpcPort": &s.GRPCPort} { // any order: one error of two at most is told
		n := g.number(name)
		if n < 0 || n > math.MaxUint16 {
			return fmt.Errorf("%s: %d is no port; give one from 1 to 65535", g.name(name), n)
		}
		*to = int(n)
	}
	if s.HTTPPort == s.GRPCPort && s.HTTPPort != 0 {
		return fmt.Errorf("HttpPort and GrpcPort are both %d; give each its own", s.HTTPPort)
	}
	return nil
}

// longest is where DTM's own arithmetic with seconds would be of no use any more.
const longest = 100 * 365 * 24 * 60 * 60

func (g *given) readTimes(s *Settings) error {
	for _, of := range []struct {
		name string
		to   *time.Duration
	}{{"TimeoutToFail", &s.TimeoutToFail}, {"RetryInterval", &s.RetryInterval}, {"RequestTimeout", &s.RequestTimeout}, {"Store.FinishedDataExpire", &s.Retention}} {
		n := g.number(of.name)
		if n < 1 || n > longest {
			return fmt.Errorf("%s: %d is no time; give a number of seconds", g.name(of.name), n)
		}
		*of.to = time.Duration(n) * time.Second
	}
	switch { // DTM's own rules and words
	case s.RetryInterval < 10*time.Second:
		return errors.New("config error: RetryInterval should not be less than 10")
	case s.TimeoutToFail < s.RetryInterval:
		return errors.New("config error: TimeoutToFail should not be less than RetryInterval")
	}
	n := g.number("AlertRetryLimit")
	if n < 0 || n > math.MaxInt32 {
		return fmt.Errorf("%s: %d; give a number of tries", g.name("AlertRetryLimit"), n)
	}
	s.AlertRetryLimit = int(n)
	return nil
}

func (g *given) readLog(s *Settings) error {
	switch v := g.value("LogLevel"); v {
	case "debug":
		s.LogLevel = slog.LevelDebug
	case "info":
		s.LogLevel = slog.LevelInfo
	case "warn":
		s.LogLevel = slog.LevelWarn
	case "error", "dpanic", "panic", "fatal":
		s.LogLevel = slog.LevelError
	default:
		return fmt.Errorf("%s: there is no level %s; it is debug, info, warn or error", g.name("LogLevel"), v)
	}
	return nil
}

func outputs(v string) (all []string) {
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// Help lists the settings with what each does here, for people.
func Help() []string {
	var out []string
	for i := range table {
		r := &table[i]
		line := "  " + r.name
		switch {
		case r.use == honoured && r.def != "":
			line += " (" + r.def + ")"
		case r.use == store:
			line += ": not used"
		case r.use == refused:
			line += ": only " + r.unless
		case r.use == idle:
			line += ": does nothing here"
		}
		out = append(out, line)
	}
	return out
}
