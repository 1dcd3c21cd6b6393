package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// Restore is the command that makes a database from a replica.
func Restore() *cli.Command {
	var to, txid, at, parallel, check *string
	var overwrite, noDB, noReplica *bool
	return &cli.Command{
		Name:    "sqlite restore",
		Args:    "URL",
		Summary: "make a SQLite database from a replica in a bucket, as of any state that is kept",
		About: `The replica may be Litestream's. Every file is checked on the way, and the database that comes out against the checksum that was
kept of it when it was captured; Litestream keeps none, so for its replicas SQLite is asked as well. A damaged file is named, and gone round
if there is another way to the same state. The database gets its name when it is whole and durable. One that is interrupted goes on when it is
called again with the same flags. --txid and --at name states; ` + "`holdfast sqlite ls`" + ` has the list.`,
		Examples: []string{
			"holdfast sqlite restore --to app.db s3://backups/app",
			"holdfast sqlite restore --to app.db --at 2026-03-01T12:00:00Z file:///mnt/backups/app",
			"holdfast sqlite restore --to /data/app.db --if-db-not-exists --if-replica-exists s3://backups/app",
		},
		Flags: func(l *cli.FlagList) {
			to = l.Text("to", "FILE", "", "the database to make")
			txid = l.Text("txid", "TXID", "", "the state to restore, 16 hexadecimal digits (default: the newest)")
			at = l.Text("at", "TIME", "", "the state to restore: the last one up to a time")
			parallel = l.Text("parallel", "N", "8", "requests on their way at once; each takes 2 MiB of memory")
			check = l.Text("integrity-check", "HOW", "", "what SQLite is asked about the outcome: `quick`, `full` or `none` (default: none, and quick where the replica has no checksums)")
			overwrite = l.Toggle("overwrite", "replace a database that is there; nobody may have it open")
			noDB = l.Toggle("if-db-not-exists", "do nothing, successfully, if there is a database")
			noReplica = l.Toggle("if-replica-exists", "do nothing, successfully, if there is no replica")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 || *to == "" {
				return cli.Usagef("sqlite restore: wants --to and one URL; write `holdfast sqlite restore --to FILE URL`")
			}
			url := c.Args[0]
			how := restore.Options{From: url, Overwrite: *overwrite, Record: true}
			var err error
			if how.To, err = filepath.Abs(*to); err != nil {
				return fmt.Errorf("sqlite restore: %w", err)
			}
			if how.Target, err = parseTarget(*txid, *at); err != nil {
				return err
			}
			if how.Parallel, err = parseParallel(*parallel); err != nil {
				return err
			}
			switch how.Check = restore.Check(*check); how.Check {
			case "", restore.None, restore.Quick, restore.Full:
			default:
				return cli.Usagef("--integrity-check %s: write quick, full or none", *check)
			}
			if info, err := os.Stat(how.To); *noDB && err == nil && info.Size() > 0 {
				fmt.Fprintf(c.Stdout, "%s is there, nothing was restored\n", *to)
				return nil
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				return fmt.Errorf("sqlite restore --to %s: %s; give a path this user can write", *to, cli.Reason(err))
			}
			ctx, stop := untilInterrupted()
			defer stop()
			r, err := openReplica(ctx, url)
			if err != nil {
				return fmt.Errorf("sqlite restore: %w", err)
			}
			shown := newProgress(c.Stderr)
			how.Progress = shown.show
			how.Note = func(text string) { shown.end(); fmt.Fprintln(c.Stderr, "note  "+text) }
			out, err := restore.Restore(ctx, r, how)
			shown.end()
			if *noReplica && errors.Is(err, restore.ErrEmpty) {
				fmt.Fprintf(c.Stdout, "there is no replica at %s, nothing was restored\n", url)
				return nil
			}
			if dirErr := hasDirectory(how.To); err != nil && dirErr != nil && !errors.Is(err, restore.ErrEmpty) {
				return fmt.Errorf("sqlite restore --to %s: %w", *to, dirErr)
			}
			if err != nil {
				return fmt.Errorf("sqlite restore %s: %w; %s", *to, err, nextStep(err, url))
			}
			fmt.Fprintf(c.Stdout, "%s is as of %s, TXID %s: %d pages of %d bytes, from %d files\n", *to, out.Time.Format(time.RFC3339Nano), out.TXID,
				out.Pages, out.PageSize, out.Files)
			if out.Proved {
				fmt.Fprintf(c.Stdout, "checked: every file, and the database's checksum, %s\n", out.Checksum)
			} else {
				fmt.Fprintln(c.Stdout, "checked: every file by its own checksum and no more, because the replica has no checksums of the database")
			}
			if out.Checked != "" && out.Checked != restore.None {
				fmt.Fprintf(c.Stdout, "SQLite's %s check finds nothing wrong\n", out.Checked)
			}
			return nil
		},
	}
}

// hasDirectory reports whether a file's directory is there. A restore makes none: a path with a typing error would get a database.
func hasDirectory(file string) error {
	dir := filepath.Dir(file)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no directory %s; make it, or give another --to", dir)
	case errors.Is(err, syscall.ENOTDIR), err == nil && !info.IsDir():
		return fmt.Errorf("%s is no directory; give another --to", dir)
	}
	return nil // where this user cannot look into it, the restore's own error says so
}

// openReplica opens the replica at a URL.
func openReplica(ctx context.Context, url string) (*replica.Replica, error) {
	store, err := objstore.Open(url)
	if err != nil {
		return nil, cli.Usagef("%s", err)
	}
	return replica.Detect(ctx, store, url)
}

func untilInterrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

func parseTarget(txid, at string) (t restore.Target, err error) {
	if txid != "" && at != "" {
		return t, cli.Usagef("--txid and --at: give one of them")
	}
	if txid != "" {
		n, err := strconv.ParseUint(txid, 16, 64)
		if err != nil || n == 0 {
			return t, cli.Usagef("--txid %s: not a TXID; write hexadecimal digits, as `holdfast sqlite ls` does", txid)
		}
		t.TXID = replica.TXID(n)
	}
	if at != "" {
		if t.Time, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return t, cli.Usagef("--at %s: not a time; write 2026-03-01T12:00:00Z", at)
		}
	}
	return t, nil
}

func parseParallel(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 256 {
		return 0, cli.Usagef("--parallel %s: write a number from 1 to 256", text)
	}
	return n, nil
}

// nextStep is what to do about an error of a restore.
func nextStep(err error, url string) string {
	var fault *replica.Fault
	switch {
	case errors.Is(err, context.Canceled):
		return "call it again to go on"
	case errors.Is(err, restore.ErrEmpty):
		return "give the URL of the replica, which ends with the database's name if several are kept together"
	case errors.Is(err, restore.ErrNotThere):
		return fmt.Sprintf("`holdfast sqlite ls %s` has what is there", url)
	case errors.Is(err, restore.ErrExists):
		return "give another name, or --overwrite when nobody has it open"
	case errors.Is(err, restore.ErrBusy):
		return "wait for it"
	case errors.Is(err, restore.ErrCorrupt):
		return "give an earlier --at"
	case errors.As(err, &fault):
		return fmt.Sprintf("put a good copy of the object there, or give an earlier --at; `holdfast sqlite verify %s` tells all", url)
	}
	return "call it again to go on"
}
