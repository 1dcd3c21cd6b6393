package litestream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

const restoreAbout = `Makes a database from its replica: the newest state, that of a transaction id, or that of a time. A replica of Litestream 0.5 is read
as well. What is read is checked on the way; a restore that was interrupted goes on when it is called again.
`

// restoreFlags are the command line's settings of a restore.
type restoreFlags struct {
	config
	out, txid, timestamp, check                 string
	ifMissing, ifReplica, dryRun, force, asJSON bool
	follow                                      bool
	parallel                                    int
}

// restoreAnswer is what `restore -json` prints.
type restoreAnswer struct {
	DBPath         string `json:"db_path"`
	Replica        string `json:"replica"`
	TXID           string `json:"txid"`
	DurationMS     int64  `json:"duration_ms"`
	IntegrityCheck string `json:"integrity_check"`
}

func (p *program) restore(args []string) error {
	var f restoreFlags
	set := p.flags("restore")
	f.config.flags(set)
	set.StringVar(&f.out, "o", "", "`PATH` of the database to make (default where it was)")
	set.StringVar(&f.txid, "txid", "", "up to this transaction `ID`, 16 hexadecimal digits")
	set.StringVar(&f.timestamp, "timestamp", "", "up to this `TIME`, as 2026-01-31T12:00:00Z")
	set.BoolVar(&f.ifMissing, "if-db-not-exists", false, "exit with 0 if there is the database already")
	set.BoolVar(&f.ifReplica, "if-replica-exists", false, "exit with 0 if nothing was ever stored")
	set.BoolVar(&f.dryRun, "dry-run", false, "print which files would be read")
	set.BoolVar(&f.force, "force", false, "replace a database that is there")
	set.BoolVar(&f.asJSON, "json", false, "print JSON")
	set.StringVar(&f.check, "integrity-check", "none", "have SQLite check the database: none, quick or full (`MODE`)")
	set.IntVar(&f.parallel, "parallelism", 0, "how many `REQUESTS` are on their way at a time (default 8)")
	set.BoolVar(&f.follow, "f", false, "is not offered: follow the replica")
	set.Duration("follow-interval", time.Second, "is not offered")
	if err := p.parse(set, args, 1, 1, "database path or replica URL required"); err != nil {
		return err
	}
	to, err := f.target()
	if err != nil {
		return err
	}
	d, warnings, err := p.find(&f.config, set.Arg(0))
	if err != nil {
		return err
	}
	out := d.Path
	if f.out != "" {
		if out, err = p.sur.Path(f.out); err != nil {
			return err
		}
	}
	if out == "" {
		return &usageError{"-o is required when restoring from a replica URL", "litestream restore -o /path/to/db " + set.Arg(0)}
	}
	log := p.newLog(conf.Log{Form: "text", Stderr: f.asJSON})
	for _, w := range warnings {
		log.Warn(w)
	}
	if _, err := os.Lstat(out); err == nil && f.ifMissing {
		log.Info("database already exists, skipping")
		return nil
	}
	ctx := context.Background()
	r, store, err := openReplica(ctx, d.Replica)
	if err != nil {
		return err
	}
	how := restore.Options{From: d.Replica.String(), To: out, Target: to, Overwrite: f.force, Record: true, Parallel: f.parallel, Check: restore.Check(f.check),
		Note: func(text string) { log.Warn(text) }}
	if f.dryRun {
		return p.printPlan(ctx, r, &f, how, set.Arg(0), d.Replica.Type())
	}
	began := time.Now()
	made, err := restored(ctx, r, store, how)
	switch {
	case errors.Is(err, restore.ErrEmpty) && f.ifReplica:
		log.Info("no matching backups found")
		return nil
	case errors.Is(err, restore.ErrEmpty):
		return errors.New("no matching backup files available")
	case errors.Is(err, restore.ErrExists):
		return fmt.Errorf("cannot restore, %w. Use -force to overwrite", err)
	case err != nil:
		return err
	}
	logRestored(log, out, made)
	if f.asJSON {
		return printJSON(p.stdout, restoreAnswer{out, d.Replica.Type(), made.TXID.String(), time.Since(began).Milliseconds(), f.check})
	}
	return nil
}

// target is which state is meant, and refuses flags that cannot be honoured.
func (f *restoreFlags) target() (to restore.Target, err error) {
	if f.follow {
		return to, errors.New("-f is not offered; restore again for what came since")
	}
	switch restore.Check(f.check) {
	case restore.None, restore.Quick, restore.Full:
	default:
		return to, fmt.Errorf("invalid -integrity-check value: %s", f.check)
	}
	if f.parallel < 0 || f.parallel > 256 {
		return to, fmt.Errorf("-parallelism %d: give a number from 1 to 256", f.parallel)
	}
	if f.txid != "" && f.timestamp != "" {
		return to, errors.New("-txid and -timestamp are one or the other")
	}
	if f.txid != "" {
		n, err := strconv.ParseUint(f.txid, 16, 64)
		if err != nil || len(f.txid) != 16 || n == 0 {
			return to, fmt.Errorf("invalid -txid %s; it has 16 hexadecimal digits, as `litestream ltx` prints it", f.txid)
		}
		to.TXID = replica.TXID(n)
	}
	if f.timestamp != "" {
		if to.Time, err = time.Parse(time.RFC3339, f.timestamp); err != nil {
			return to, errors.New("invalid -timestamp, must specify in ISO 8601 format (e.g. 2000-01-01T00:00:00Z)")
		}
	}
	return to, nil
}

// restored makes a database. Its directory is made if it is not there; a replica that another version made is told from none.
func restored(ctx context.Context, r *replica.Replica, store objstore.Store, how restore.Options) (*restore.Restored, error) {
	if err := disk.OS().MkdirAll(filepath.Dir(how.To)); err != nil {
		return nil, err
	}
	made, err := restore.Restore(ctx, r, how)
	if errors.Is(err, restore.ErrEmpty) {
		if old, oerr := generations(ctx, store); oerr != nil || old {
			return nil, errors.Join(oerr, errOld)
		}
	}
	return made, err
}

// errOld is the answer to a replica of Litestream before 0.5.
var errOld = errors.New("the replica is one of Litestream 0.3, whose form is not read here; restore it with Litestream, and replicate the database anew")

// generations reports whether there is a replica in the form that Litestream had before 0.5.
func generations(ctx context.Context, store objstore.Store) (bool, error) {
	for _, err := range store.List(ctx, "generations", "") {
		return err == nil, err
	}
	return false, nil
}

func logRestored(log *slog.Logger, out string, made *restore.Restored) {
	log.Info("restored", "path", out, "txid", made.TXID.String(), "time", made.Time.UTC().Format(time.RFC3339), "pages", made.Pages, "page-size", made.PageSize,
		"checksum-proved", made.Proved)
}

// planAnswer is what `restore -dry-run -json` prints.
type planAnswer struct {
	Source     string    `json:"source"`
	TargetPath string    `json:"target_path"`
	Replica    string    `json:"replica"`
	MinTXID    string    `json:"min_txid"`
	MaxTXID    string    `json:"max_txid"`
	Files      []planRow `json:"files"`
}

type planRow struct {
	Level     int    `json:"level"`
	Name      string `json:"name"`
	MinTXID   string `json:"min_txid"`
	MaxTXID   string `json:"max_txid"`
	Size      int64  `json:"size"`
	Timestamp string `json:"timestamp"`
}

// printPlan prints which files a restore would read.
func (p *program) printPlan(ctx context.Context, r *replica.Replica, f *restoreFlags, how restore.Options, source, kind string) error {
	files, err := restore.Files(ctx, r, how.Target)
	if errors.Is(err, restore.ErrEmpty) {
		return errors.New("no matching backup files available")
	}
	if err == nil {
		err = r.Fill(ctx, files)
	}
	if err != nil {
		return err
	}
	a := planAnswer{Source: source, TargetPath: how.To, Replica: kind, MinTXID: files[0].Min.String(), MaxTXID: files[len(files)-1].Max.String()}
	var rows [][]string
	for _, file := range files {
		row := planRow{file.Level, path.Base(r.Name(file)), file.Min.String(), file.Max.String(), file.Size, file.Time.UTC().Format(time.RFC3339)}
		a.Files = append(a.Files, row)
		rows = append(rows, []string{strconv.Itoa(row.Level), row.Name, row.MinTXID, row.MaxTXID, strconv.FormatInt(row.Size, 10), row.Timestamp})
	}
	if f.asJSON {
		return printJSON(p.stdout, a)
	}
	fmt.Fprintf(p.stdout, "Restore plan:\n  source: %s\n  target: %s\n  replica: %s\n  txid range: %s - %s\n\nFiles to fetch:\n", a.Source, a.TargetPath,
		a.Replica, a.MinTXID, a.MaxTXID)
	return printTable(p.stdout, []string{"level", "file", "min_txid", "max_txid", "size", "timestamp"}, rows)
}
