package program

import (
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// Verify is the command that proves a replica.
func Verify() *cli.Command {
	var parallel *string
	return &cli.Command{
		Name:    "sqlite verify",
		Args:    "URL",
		Summary: "prove a replica of a SQLite database: that it is whole, and that every state it has can be restored",
		About: `Every file is read and nothing is written, here or there; 8 bytes of memory are taken for each page of the database and each
level. What is wrong is named, and the exit status is 1. What a replica may well have is named too: an earlier owner's leftovers, uploads
that were on their way when their owner died. Of Litestream's replicas it proves that the files are whole and that all levels come to the
same database; what that was when it was captured, they do not say.`,
		Examples: []string{"holdfast sqlite verify s3://backups/app", "holdfast sqlite verify file:///mnt/backups/app"},
		Flags: func(l *cli.FlagList) {
			parallel = l.Text("parallel", "N", "8", "requests on their way at once; each takes 2 MiB of memory")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("sqlite verify: wants one URL; write `holdfast sqlite verify URL`")
			}
			n, err := parseParallel(*parallel)
			if err != nil {
				return err
			}
			ctx, stop := untilInterrupted()
			defer stop()
			r, err := openReplica(ctx, c.Args[0])
			if err != nil {
				return fmt.Errorf("sqlite verify: %w", err)
			}
			shown := newProgress(c.Stderr)
			v, err := restore.Verify(ctx, r, restore.Verifying{Parallel: n, Progress: shown.show, Found: func(f restore.Finding) {
				shown.end()
				if f.Wrong {
					fmt.Fprintln(c.Stdout, "WRONG "+f.Text)
				} else {
					fmt.Fprintln(c.Stdout, "note  "+f.Text)
				}
			}})
			shown.end()
			switch {
			case errors.Is(err, restore.ErrEmpty):
				return fmt.Errorf("sqlite verify %s: %w; %s", c.Args[0], err, nextStep(err, c.Args[0]))
			case err != nil:
				return fmt.Errorf("sqlite verify %s: %w; try again", c.Args[0], err)
			}
			fmt.Fprintf(c.Stdout, "%d files, %s, read; %d with the whole database; up to TXID %s; %d states can be restored, %d of them proved by "+
				"the checksum that was kept of them\n", v.Files, cli.SizeString(v.Bytes), v.Snapshots, v.Head.TXID, v.States, v.Proved)
			if v.Wrong > 0 {
				return fmt.Errorf("sqlite verify %s: %d things are wrong; put good copies there, or let the agent store a new snapshot", c.Args[0], v.Wrong)
			}
			return nil
		},
	}
}
