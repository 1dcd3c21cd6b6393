package litestream

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/holdfastdb/holdfast/internal/stopping"
	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

const replicateAbout = `Keeps databases in their replicas: those of the configuration file, or one that is named with its replica's URL. It ends with SIGINT or
SIGTERM, with the program that -exec runs, or with -once when everything is stored; then what was committed is stored first.
`

// replication is what one start is told to do.
type replication struct {
	set  *conf.Settings
	once bool
	log  *slog.Logger
}

func (p *program) replicate(args []string) error {
	r, err := p.plan(args)
	if err != nil {
		return err
	}
	signals, stop := stopping.Notify()
	defer stop()
	return p.run(r, signals)
}

// plan reads the command line and the configuration.
func (p *program) plan(args []string) (*replication, error) {
	var c config
	set := p.flags("replicate")
	c.flags(set)
	exec := set.String("exec", "", "`COMMAND` to run beside; replication ends with it")
	level := set.String("log-level", "", "`LEVEL` of the log: trace, debug, info, warn or error")
	restoreMissing := set.Bool("restore-if-db-not-exists", false, "restore databases that are not there, if they were ever stored")
	once := set.Bool("once", false, "store what there is and end")
	snapshot := set.Bool("force-snapshot", false, "is not offered: with -once, make snapshots")
	retention := set.Bool("enforce-retention", false, "with -once; does nothing here, what is replaced is removed as it goes")
	if err := p.parse(set, args, 0, 2, ""); err != nil {
		var u *usageError
		if errors.As(err, &u) && set.NArg() > 2 {
			return nil, &usageError{fmt.Sprintf("%s has %d replicas; a database has one", set.Arg(0), set.NArg()-1), "litestream replicate DB_PATH REPLICA_URL"}
		}
		return nil, err
	}
	r := &replication{once: *once}
	var err error
	switch set.NArg() {
	case 0:
		r.set, err = p.load(&c)
	case 1:
		err = fmt.Errorf("must specify at least one replica URL for %s", set.Arg(0))
	default:
		r.set, err = p.single(set.Arg(0), set.Arg(1), &c)
	}
	if err != nil {
		return nil, err
	}
	if *level != "" {
		if r.set.Log.Level, err = conf.Level(*level); err != nil {
			return nil, fmt.Errorf("-log-level: %w", err)
		}
	}
	if *exec != "" {
		r.set.Exec = *exec
	}
	for i := range r.set.Databases {
		if *restoreMissing && r.set.Databases[i].Dir == "" {
			r.set.Databases[i].RestoreIfMissing = true
		}
	}
	switch {
	case r.once && r.set.Exec != "":
		return nil, errors.New("cannot specify -once flag with -exec")
	case *snapshot && !r.once:
		return nil, errors.New("cannot specify -force-snapshot flag without -once")
	case *retention && !r.once:
		return nil, errors.New("cannot specify -enforce-retention flag without -once")
	case *snapshot:
		return nil, errors.New("-force-snapshot is not offered; a replica is whole without a snapshot of its own")
	}
	r.log = p.newLog(r.set.Log)
	return r, nil
}

// single is the configuration of a start with one database and its replica's URL.
func (p *program) single(path, url string, c *config) (*conf.Settings, error) {
	if strings.HasPrefix(url, "-") {
		return nil, fmt.Errorf("flag %q must be positioned before DB_PATH and REPLICA_URL arguments", url)
	}
	if c.path != "" {
		return nil, errors.New("cannot specify a replica URL and the -config flag")
	}
	set := conf.Default()
	if v := p.getenv("LOG_LEVEL"); v != "" {
		var err error
		if set.Log.Level, err = conf.Level(v); err != nil {
			return nil, fmt.Errorf("LOG_LEVEL: %w", err)
		}
	}
	d, warnings, err := conf.Single(path, url, p.sur)
	if err != nil {
		return nil, err
	}
	set.Databases, set.Warnings = []conf.Database{d}, warnings
	return set, nil
}
