package litestream

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

const ltxAbout = `Lists the files of a replica: what was committed (level 0), what was compacted (1 to 8), and snapshots (9).
`

// levelFlag is a level, or all of them.
type levelFlag struct{ first, last int }

func (l *levelFlag) String() string {
	if l.first != l.last {
		return "all"
	}
	return strconv.Itoa(l.first)
}

func (l *levelFlag) Set(text string) error {
	if text == "all" {
		l.first, l.last = 0, replica.SnapshotLevel
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > replica.SnapshotLevel {
		return fmt.Errorf("a level is 0 to %d, or all", replica.SnapshotLevel)
	}
	l.first, l.last = n, n
	return nil
}

// fileRow is a file as `ltx -json` shows it.
type fileRow struct {
	Level     int    `json:"level"`
	MinTXID   string `json:"min_txid"`
	MaxTXID   string `json:"max_txid"`
	Size      int64  `json:"size"`
	Timestamp string `json:"timestamp"`
}

func (p *program) ltx(args []string) error {
	var c config
	var level levelFlag
	set := p.flags("ltx")
	c.flags(set)
	set.Var(&level, "level", "`LEVEL` to list, 0 to 9, or all (default 0)")
	asJSON := set.Bool("json", false, "print JSON")
	if err := p.parse(set, args, 1, 1, "database path or replica URL required"); err != nil {
		return err
	}
	d, _, err := p.find(&c, set.Arg(0))
	if err != nil {
		return err
	}
	ctx := context.Background()
	r, store, err := openReplica(ctx, d.Replica)
	if err != nil {
		return err
	}
	files, err := listFiles(ctx, r, store, level)
	if err != nil {
		return err
	}
	list, rows := []fileRow{}, [][]string{}
	for _, f := range files {
		row := fileRow{f.Level, f.Min.String(), f.Max.String(), f.Size, f.Time.UTC().Format(time.RFC3339)}
		list = append(list, row)
		rows = append(rows, []string{strconv.Itoa(row.Level), row.MinTXID, row.MaxTXID, strconv.FormatInt(row.Size, 10), row.Timestamp})
	}
	if *asJSON {
		return printJSON(p.stdout, list)
	}
	return printTable(p.stdout, []string{"level", "min_txid", "max_txid", "size", "created"}, rows)
}

// listFiles is every file of the levels, also those that no restore needs. When each was made is in the manifest, or in the file.
func listFiles(ctx context.Context, r *replica.Replica, store objstore.Store, levels levelFlag) (files []replica.File, err error) {
	known := map[string]replica.File{}
	switch m, err := manifest(ctx, store); {
	case err != nil:
		return nil, err
	case m != nil:
		for _, f := range m.Files {
			known[r.Name(f)] = f
		}
	}
	for level := levels.first; level <= levels.last; level++ {
		folder := path.Dir(r.Name(replica.File{Level: level, Min: 1, Max: 1}))
		for l, err := range store.List(ctx, folder, "") {
			if err != nil {
				return nil, fmt.Errorf("list level %d: %w", level, err)
			}
			f, ok := r.Layout().Parse(l.Name)
			if !ok {
				continue
			}
			if k, ok := known[l.Name]; ok && k.Size == l.Size {
				f.Time = k.Time
			}
			f.Size = l.Size
			files = append(files, f)
		}
	}
	return files, r.Fill(ctx, files)
}

// manifest is the agent's manifest of a replica; nil if there is none, as in one of Litestream's, or none that can be read.
func manifest(ctx context.Context, store objstore.Store) (*replica.Manifest, error) {
	b, err := store.Get(ctx, replica.ManifestName)
	switch {
	case errors.Is(err, objstore.ErrAbsent):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", replica.ManifestName, err)
	}
	m, err := replica.DecodeManifest(b)
	if err != nil {
		return nil, nil // the files say the same, at the price of reading each
	}
	return m, nil
}
