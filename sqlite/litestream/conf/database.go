package conf

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Database is one entry of dbs: a database, or a directory of them.
type Database struct {
	// Path is the database, absolute; "" if the entry is a directory.
	Path string
	// Dir is a directory, absolute, and Pattern what the names of its databases match. Recursive: also those of directories below. Watch:
	// also those that come to be there later.
	Dir, Pattern     string
	Recursive, Watch bool

	// RestoreIfMissing: a database that is not there is restored before replication begins.
	RestoreIfMissing bool
	// Monitor is how often one that no extension tells of is looked at.
	Monitor, BusyTimeout time.Duration
	Replica              Replica
}

// databases reads the entries of dbs. Settings of snapshots in them are the program's, and have to agree.
func (s *source) databases(set *Settings, entries []*yaml.Node, top, defaults given, sur *Surroundings) error {
	snapshots := given{}
	seen := map[string]string{} // path of a database or URL of a replica, and where it was named
	for i, n := range entries {
		at := s.at(n, fmt.Sprintf("dbs[%d]", i))
		var replicas []*yaml.Node
		g, err := s.section(n, fmt.Sprintf("dbs[%d].", i), parts{
			"replica": func(n *yaml.Node, _ string) error {
				replicas = append(replicas, n)
				return nil
			},
			"replicas": func(n *yaml.Node, at string) error {
				all, err := s.items(n, at)
				replicas = append(replicas, all...)
				return err
			},
		}, databaseTable)
		if err != nil {
			return err
		}
		if err := s.judge(g, databaseTable); err != nil {
			return err
		}
		d, err := readDatabase(g, at, sur)
		if err != nil {
			return err
		}
		switch len(replicas) {
		case 0:
			return fmt.Errorf("%s has no replica; say where to: `replica: {url: ...}`", at)
		case 1:
		default:
			return fmt.Errorf("%s has %d replicas; a database has one", at, len(replicas))
		}
		if d.Replica, err = s.replica(replicas[0], fmt.Sprintf("dbs[%d].replica", i), defaults, sur); err != nil {
			return err
		}
		for _, name := range []string{d.Path, d.Replica.String()} {
			if name == "" {
				continue
			}
			if was := seen[name]; was != "" {
				return fmt.Errorf("%s: %s is that of %s too; each database is listed once and has a replica of its own", at, name, was)
			}
			seen[name] = at
		}
		for _, name := range []string{"snapshot.interval", "snapshot.retention"} {
			v, ok := g[name]
			if !ok {
				continue
			}
			if was, ok := snapshots[name]; ok && was.text != v.text {
				return fmt.Errorf("%s: %s, and %s at %s; all databases have one", v.at, v.text, was.text, was.at)
			}
			snapshots[name] = v
		}
		set.Databases = append(set.Databases, d)
	}
	for name, v := range snapshots { // any order: each has its own field
		if _, ok := top[name]; !ok {
			top[name] = v
		}
	}
	return set.readSnapshots(top)
}

// readSnapshots takes how often snapshots are made and how long they are kept.
func (set *Settings) readSnapshots(g given) (err error) {
	if set.SnapshotInterval, err = g.positive("snapshot.interval", set.SnapshotInterval); err != nil {
		return err
	}
	set.SnapshotRetention, err = g.positive("snapshot.retention", set.SnapshotRetention)
	return err
}

// readDatabase takes what one entry says of the databases themselves.
func readDatabase(g given, at string, sur *Surroundings) (d Database, err error) {
	path, dir := g.text("path", ""), g.text("dir", "")
	d = Database{Pattern: g.text("pattern", ""), Recursive: g.flag("recursive", false), Watch: g.flag("watch", false),
		RestoreIfMissing: g.flag("restore-if-db-not-exists", false)}
	switch {
	case path != "" && dir != "":
		err = errors.New("has a path and a dir; it is one of them")
	case path == "" && dir == "":
		err = errors.New("has neither a path nor a dir; say which database it is")
	case dir == "" && (d.Pattern != "" || d.Recursive || d.Watch):
		err = errors.New("has a path; pattern, recursive and watch are for a dir")
	case dir != "" && d.Pattern == "":
		err = errors.New("has a dir and no pattern; say which names are databases: `pattern: \"*.db\"`")
	case dir != "" && d.RestoreIfMissing:
		err = errors.New("is a directory, of which nobody knows what is missing; restore-if-db-not-exists is for a path")
	}
	if err != nil {
		return d, fmt.Errorf("%s %w", at, err)
	}
	if _, err := filepath.Match(d.Pattern, ""); err != nil || strings.Contains(d.Pattern, "/") {
		return d, fmt.Errorf("%s: %q is no pattern of a file's name", g["pattern"].at, d.Pattern)
	}
	p, err := sur.Path(cmp.Or(path, dir))
	if err != nil {
		return d, fmt.Errorf("%s: %w", at, err)
	}
	if dir == "" {
		d.Path = p
	} else {
		d.Dir = p
	}
	if d.Monitor, err = g.positive("monitor-interval", defaultInterval); err != nil {
		return d, err
	}
	d.BusyTimeout = g.span("busy-timeout", defaultBusy)
	return d, nil
}

// Single is the entry that start without a configuration file has: one database, absolute, and the URL of its replica.
func Single(path, url string, sur *Surroundings) (d Database, warnings []string, err error) {
	r, warnings, err := FromURL(url, sur)
	if err != nil {
		return d, nil, err
	}
	if path, err = sur.Path(path); err != nil {
		return d, nil, err
	}
	return Database{Path: path, Monitor: defaultInterval, BusyTimeout: defaultBusy, Replica: r}, warnings, nil
}

// Entry is the settings of one database by an entry for its directory, or false if it is not one of that directory's. The path is absolute
// and clean. The replica is below the directory's own, at the same place as the database below the directory.
func (d *Database) Entry(path string) (Database, bool) {
	if d.Dir == "" {
		return *d, d.Path == path
	}
	rel, err := filepath.Rel(d.Dir, path)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") || !d.Recursive && strings.Contains(rel, "/") {
		return Database{}, false
	}
	if ok, err := filepath.Match(d.Pattern, filepath.Base(path)); err != nil || !ok {
		return Database{}, false
	}
	e := *d
	e.Path, e.Dir, e.Pattern, e.Recursive, e.Watch = path, "", "", false, false
	e.Replica = d.Replica.Below(filepath.ToSlash(rel))
	return e, true
}

// Database is the entry of the database at path, which is absolute and clean, or false. One that is listed itself goes before its directory.
func (set *Settings) Database(path string) (Database, bool) {
	for _, dirs := range []bool{false, true} {
		for i := range set.Databases {
			if d := &set.Databases[i]; (d.Dir != "") == dirs {
				if e, ok := d.Entry(path); ok {
					return e, true
				}
			}
		}
	}
	return Database{}, false
}
