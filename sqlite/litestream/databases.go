package litestream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

const databasesAbout = `Lists the databases that the configuration file names, and those in the directories that it names.
`

// databaseRow is a database as `databases -json` shows it.
type databaseRow struct {
	Path    string `json:"path"`
	Replica string `json:"replica"`
}

func (p *program) databases(args []string) error {
	var c config
	set := p.flags("databases")
	c.flags(set)
	asJSON := set.Bool("json", false, "print JSON")
	if err := p.parse(set, args, 0, 0, ""); err != nil {
		return err
	}
	settings, err := p.load(&c)
	if err != nil {
		return err
	}
	all, err := allDatabases(settings)
	if err != nil {
		return err
	}
	list, rows := []databaseRow{}, [][]string{}
	for _, d := range all {
		list = append(list, databaseRow{d.Path, d.Replica.Type()})
		rows = append(rows, []string{d.Path, d.Replica.Type()})
	}
	if *asJSON {
		return printJSON(p.stdout, list)
	}
	return printTable(p.stdout, []string{"path", "replica"}, rows)
}

// mostInDirectory bounds what one directory may bring: the agent holds a page of state and a few open files for each.
const mostInDirectory = 10000

// allDatabases are the entries of single databases, and one for each database that lies in the directories.
func allDatabases(set *conf.Settings) (all []conf.Database, err error) {
	seen := map[string]bool{}
	for _, d := range set.Databases {
		if d.Dir == "" {
			all = append(all, d)
			seen[d.Path] = true
		}
	}
	for _, d := range set.Databases {
		if d.Dir == "" {
			continue
		}
		found, err := databasesIn(&d)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && !d.Watch {
			return nil, fmt.Errorf("no SQLite databases found in directory %s with pattern %s", d.Dir, d.Pattern)
		}
		for _, e := range found {
			if !seen[e.Path] { // listed itself, or in two directories
				seen[e.Path] = true
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// databasesIn are those of one directory, by path. A file that disappears meanwhile is none of them.
func databasesIn(d *conf.Database) (found []conf.Database, err error) {
	err = filepath.WalkDir(d.Dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != d.Dir:
			return nil
		case err != nil:
			return err
		case e.IsDir():
			if path != d.Dir && !d.Recursive {
				return filepath.SkipDir
			}
			return nil
		}
		one, ok := d.Entry(path)
		if !ok || !isSQLite(path) {
			return nil
		}
		if found = append(found, one); len(found) > mostInDirectory {
			return fmt.Errorf("%s has more than %d databases; list its directories apart, in programs of their own", d.Dir, mostInDirectory)
		}
		return nil
	})
	slices.SortFunc(found, func(a, b conf.Database) int { return strings.Compare(a.Path, b.Path) })
	return found, err
}

// isSQLite reports whether a file begins as a SQLite database does. One that cannot be read is none.
func isSQLite(path string) bool {
	const magic = "SQLite format 3\x00"
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // it is read only
	b := make([]byte, len(magic))
	_, err = f.ReadAt(b, 0)
	return err == nil && string(b) == magic
}
