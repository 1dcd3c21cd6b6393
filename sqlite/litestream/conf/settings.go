package conf

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"
)

// Settings is everything that a configuration file says to this program, checked and with Litestream's defaults filled in.
type Settings struct {
	Databases []Database
	// Exec is a command to run beside, "" for none; replication ends with it.
	Exec string

	// Levels are how often files of level 1 and above are made. Snapshots are beside them.
	Levels                              []time.Duration
	SnapshotInterval, SnapshotRetention time.Duration
	// L0Retention is how long a file of level 0 is kept once a file of a higher level covers it.
	L0Retention time.Duration
	// KeepAll: nothing is removed; the bucket's own rules do.
	KeepAll bool

	Log    Log
	Socket Socket
	// Addr is where metrics for Prometheus are served, as host:port or :port; "" for nowhere.
	Addr string

	// ShutdownTimeout bounds the whole end of the program, ShutdownSyncTimeout what is spent on uploads in it.
	ShutdownTimeout, ShutdownSyncTimeout time.Duration

	// Warnings are lines for the log: settings without effect.
	Warnings []string
}

// Log is how the program's log is written.
type Log struct {
	Level  slog.Level
	Form   string // "text", "json" or "pretty"
	Stderr bool   // stdout otherwise
	Source bool   // each line says where in the program it is from
}

// Socket is where a running program is spoken to.
type Socket struct {
	Enabled     bool
	Path        string
	Permissions os.FileMode
}

// The defaults of Litestream 0.5.18.
const (
	defaultInterval  = time.Second // of looking at a database, and of uploading
	defaultBusy      = time.Second
	defaultSnapshot  = 24 * time.Hour
	defaultL0        = 5 * time.Minute
	defaultShutdown  = 30 * time.Second
	DefaultSocket    = "/var/run/litestream.sock"
	DefaultPath      = "/etc/litestream.yml" // of the configuration file
	mostLevels       = 8                     // level 9 is snapshots
	levelTrace       = slog.LevelDebug - 4
	defaultLogForm   = "text"
	defaultLogLevel  = "info"
	socketPermission = 0o600
)

func defaultLevels() []time.Duration {
	return []time.Duration{30 * time.Second, 5 * time.Minute, time.Hour}
}

// Default is the settings of a start without a configuration file.
func Default() *Settings {
	return &Settings{Levels: defaultLevels(), SnapshotInterval: defaultSnapshot, SnapshotRetention: defaultSnapshot, L0Retention: defaultL0,
		Log:             Log{Form: defaultLogForm},
		Socket:          Socket{Path: DefaultSocket, Permissions: socketPermission},
		ShutdownTimeout: defaultShutdown, ShutdownSyncTimeout: defaultShutdown}
}

// Surroundings are a configuration's dependencies beside its own text.
type Surroundings struct {
	Getenv func(string) string
	// Dir is what relative paths begin with, Home what ~ is, "" if there is none.
	Dir, Home string
	PID       int
}

// Parse reads the configuration file of that name. Variables in it have been replaced, see Expand. Unlike Litestream it says so when it meets
// a key that means nothing. Errors are one sentence.
func Parse(file []byte, name string, sur *Surroundings) (*Settings, error) {
	s := &source{name: name}
	var doc yaml.Node
	if err := yaml.Unmarshal(file, &doc); err != nil {
		return nil, s.unreadable(err)
	}
	set := Default()
	if len(doc.Content) == 0 || empty(doc.Content[0]) {
		return set, set.readLog(given{}, sur)
	}
	var levels []time.Duration
	var entries []*yaml.Node
	top, err := s.section(doc.Content[0], "", parts{
		"dbs": func(n *yaml.Node, at string) (err error) {
			entries, err = s.items(n, at)
			return err
		},
		"levels": func(n *yaml.Node, at string) (err error) {
			levels, err = s.levels(n, at)
			return err
		},
	}, topTable, replicaTable)
	if err != nil {
		return nil, err
	}
	if levels != nil {
		set.Levels = levels
	}
	defaults := given{}
	for name, v := range top { // any order: from map to map
		if find(name, topTable) == nil {
			defaults[name] = v
			delete(top, name)
		}
	}
	if err := s.judge(top, topTable); err != nil {
		return nil, err
	}
	if err := set.read(top, sur); err != nil {
		return nil, err
	}
	if err := s.databases(set, entries, top, defaults, sur); err != nil {
		return nil, err
	}
	if set.SnapshotRetention < set.SnapshotInterval {
		s.warn(name+":", "snapshots are made every %s and kept for %s: at times there is none but the newest", set.SnapshotInterval, set.SnapshotRetention)
	}
	set.Warnings = s.warnings
	return set, nil
}

// levels reads the list of compaction levels, of which each has its interval.
func (s *source) levels(n *yaml.Node, at string) ([]time.Duration, error) {
	entries, err := s.items(n, at)
	if err != nil {
		return nil, err
	}
	if len(entries) > mostLevels {
		return nil, fmt.Errorf("%s: %d levels; there are %d at most", at, len(entries), mostLevels)
	}
	all := []time.Duration{}
	for i, e := range entries {
		g, err := s.section(e, fmt.Sprintf("levels[%d].", i), nil, []row{{name: "interval", kind: span}})
		if err != nil {
			return nil, err
		}
		if _, ok := g["interval"]; !ok {
			return nil, fmt.Errorf("%s has no interval", s.at(e, fmt.Sprintf("levels[%d]", i)))
		}
		d, err := g.positive("interval", 0)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// read takes the top of the file.
func (set *Settings) read(g given, sur *Surroundings) (err error) {
	set.Exec = g.text("exec", "")
	set.Addr = g.text("addr", "")
	set.KeepAll = !g.flag("retention.enabled", true)
	set.L0Retention = g.span("l0-retention", set.L0Retention)
	set.ShutdownSyncTimeout = g.span("shutdown-sync-timeout", set.ShutdownSyncTimeout)
	for _, of := range []struct {
		name string
		to   *time.Duration
	}{{"snapshot.interval", &set.SnapshotInterval}, {"snapshot.retention", &set.SnapshotRetention}, {"shutdown-timeout", &set.ShutdownTimeout}} {
		if *of.to, err = g.positive(of.name, *of.to); err != nil {
			return err
		}
	}
	set.Socket.Enabled = g.flag("socket.enabled", false)
	if set.Socket.Path, err = sur.Path(g.text("socket.path", DefaultSocket)); err != nil {
		return fmt.Errorf("%s: %w", g["socket.path"].at, err)
	}
	p := g.number("socket.permissions", socketPermission)
	if p > int64(os.ModePerm) {
		return fmt.Errorf("%s: %#o is no file's permissions; write them in octal, as 0600", g["socket.permissions"].at, p)
	}
	set.Socket.Permissions = os.FileMode(p)
	return set.readLog(g, sur)
}

// readLog takes how the log is written. The variable LOG_LEVEL goes before the file.
func (set *Settings) readLog(g given, sur *Surroundings) (err error) {
	level, at := g.text("logging.level", defaultLogLevel), g["logging.level"].at
	if v := sur.Getenv("LOG_LEVEL"); v != "" {
		level, at = v, "LOG_LEVEL"
	}
	if set.Log.Level, err = Level(level); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	switch set.Log.Form = g.text("logging.type", defaultLogForm); set.Log.Form {
	case "":
		set.Log.Form = defaultLogForm
	case "text", "json", "pretty":
	default:
		return fmt.Errorf("%s: %q is no form of a log; there is text, json and pretty", g["logging.type"].at, set.Log.Form)
	}
	set.Log.Stderr = g.flag("logging.stderr", false)
	set.Log.Source = g.flag("logging.source", false)
	return nil
}

// Level reads a log level by its name.
func Level(name string) (slog.Level, error) {
	for of, l := range map[string]slog.Level{"trace": levelTrace, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"warning": slog.LevelWarn, "error": slog.LevelError} { // any order: one matches
		if equalFold(name, of) {
			return l, nil
		}
	}
	return 0, fmt.Errorf("there is no log level %s; there is trace, debug, info, warn and error", name)
}

// Expand replaces $NAME and ${NAME} in a configuration file by environment variables, and $PID by the program's own number. An unset
// variable is replaced by nothing.
func Expand(file []byte, sur *Surroundings) []byte {
	return []byte(os.Expand(string(file), func(name string) string {
		if name == "PID" {
			return strconv.Itoa(sur.PID)
		}
		return sur.Getenv(name)
	}))
}
