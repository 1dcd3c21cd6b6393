package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// List is the command that shows what a replica has.
func List() *cli.Command {
	var asJSON *bool
	return &cli.Command{
		Name:    "sqlite ls",
		Args:    "URL",
		Summary: "list the files of a replica, and the states that can be restored",
		About: `Every file ends with a state that can be restored: by its highest TXID, or by its time. A fence is how an owner took the
replica over from another; it has no pages. An orphan is what an owner stored after that had happened to it, and no restore reads it. A file
that is ahead lies behind a gap.`,
		Examples: []string{"holdfast sqlite ls s3://backups/app", "holdfast sqlite ls --json file:///mnt/backups/app"},
		Flags: func(l *cli.FlagList) {
			asJSON = l.Toggle("json", "write JSON")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("sqlite ls: wants one URL; write `holdfast sqlite ls URL`")
			}
			ctx, stop := untilInterrupted()
			defer stop()
			r, err := openReplica(ctx, c.Args[0])
			if err != nil {
				return fmt.Errorf("sqlite ls: %w", err)
			}
			chain, all, err := restore.List(ctx, r)
			if err == nil && chain.Head.Empty() {
				err = restore.ErrEmpty
			}
			switch {
			case errors.Is(err, restore.ErrEmpty):
				return fmt.Errorf("sqlite ls %s: %w; %s", c.Args[0], err, nextStep(err, c.Args[0]))
			case err != nil:
				return fmt.Errorf("sqlite ls %s: %w; try again", c.Args[0], err)
			}
			if *asJSON {
				return printJSON(c.Stdout, chain, all)
			}
			return printTable(c.Stdout, chain, all)
		},
	}
}

func kindOf(e restore.Entry) string {
	switch {
	case e.Wrong != "":
		return "WRONG: " + e.Wrong
	case e.Place != restore.Counts:
		return e.Place
	case e.Fence:
		return "fence"
	case e.Snapshot():
		return "whole"
	}
	return "pages"
}

func printTable(w io.Writer, chain *replica.Chain, all []restore.Entry) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "LEVEL\tMIN TXID\tMAX TXID\tSIZE\tTIME\tOWNER\tPAGES\tKIND")
	for _, e := range all {
		at := "-"
		if e.Wrong == "" {
			at = e.Time.Format("2006-01-02T15:04:05.000Z07:00")
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%s\t%016x\t%d\t%s\n", e.Level, e.Min, e.Max, e.Size, at, e.Owner, e.Pages, kindOf(e))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d files; the newest state is TXID %s, of %s\n", len(all), chain.Head.TXID, chain.Head.Time.Format(time.RFC3339Nano))
	return err
}

// printJSON writes what the table has, and the checksums.
func printJSON(w io.Writer, chain *replica.Chain, all []restore.Entry) error {
	type file struct {
		Name  string           `json:"name"`
		Level int              `json:"level"`
		Min   replica.TXID     `json:"min_txid"`
		Max   replica.TXID     `json:"max_txid"`
		Size  int64            `json:"size"`
		Time  *time.Time       `json:"time,omitempty"`
		Owner string           `json:"owner"`
		Pages uint32           `json:"pages"`
		Kind  string           `json:"kind"`
		Pre   replica.Checksum `json:"pre_checksum"`
		Post  replica.Checksum `json:"post_checksum"`
		Wrong string           `json:"wrong,omitempty"`
	}
	out := struct {
		TXID  replica.TXID     `json:"txid"`
		Time  time.Time        `json:"time"`
		Sum   replica.Checksum `json:"checksum"`
		Owner string           `json:"owner"`
		Epoch uint64           `json:"epoch"`
		Files []file           `json:"files"`
	}{chain.Head.TXID, chain.Head.Time, chain.Head.Post, fmt.Sprintf("%016x", chain.Head.Owner), chain.Epoch, []file{}}
	for _, e := range all {
		f := file{Name: e.Name, Level: e.Level, Min: e.Min, Max: e.Max, Size: e.Size, Owner: fmt.Sprintf("%016x", e.Owner), Pages: e.Pages,
			Kind: kindOf(e), Pre: e.Pre, Post: e.Post, Wrong: e.Wrong}
		if e.Wrong == "" {
			f.Time = &e.Time
		} else {
			f.Kind = "wrong"
		}
		out.Files = append(out.Files, f)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
