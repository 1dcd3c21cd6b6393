// Package restore has the commands for archives in an object store. They save a snapshot of a running server there, restore a data
// directory from there, and prove an archive.
package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	archiverestore "github.com/holdfastdb/holdfast/archive/restore"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Commands are those for archives, with the rows of those doors' machines.
func Commands(all serve.List) []*cli.Command {
	return []*cli.Command{backupCommand(all), restoreCommand(all), verifyCommand(all)}
}

// source are the flags that say what is read.
type source struct{ from, timeline, at *string }

func addSource(l *cli.FlagList, at string) *source {
	return &source{
		from:     l.Text("from", "URL", "", "the archive: file:///DIR or s3://BUCKET/PREFIX"),
		timeline: l.Text("timeline", "ID", "", "which timeline, where there are several"),
		at:       l.Text("at", "INDEX|TIME", "", at),
	}
}

// open reads the flags and finds the timeline.
func (s *source) open(ctx context.Context, what string) (a *archiverestore.Archive, at archiverestore.At, err error) {
	if *s.from == "" {
		return nil, at, cli.Usagef("%s: wants --from; write file:///DIR or s3://BUCKET/PREFIX", what)
	}
	if at, err = parseAt(*s.at); err != nil {
		return nil, at, err
	}
	var timeline uint64
	if *s.timeline != "" {
		if timeline, err = strconv.ParseUint(*s.timeline, 16, 64); err != nil || timeline == 0 || len(*s.timeline) != 16 {
			return nil, at, cli.Usagef("--timeline %s: not a timeline; write its 16 hexadecimal digits", *s.timeline)
		}
	}
	from, err := objstore.Open(*s.from)
	if err != nil {
		return nil, at, cli.Usagef("--from: %s", err)
	}
	a, err = archiverestore.Open(ctx, from, timeline, nil)
	var several *archiverestore.SeveralError
	switch {
	case errors.Is(err, archiverestore.ErrNoArchive):
		err = fmt.Errorf("%s: nothing is archived at %s; give the URL of `serve --archive`, or of `holdfast backup --to`", what, *s.from)
	case errors.As(err, &several) && timeline != 0:
		err = fmt.Errorf("%s: %s has no timeline %s: %w; give one of them", what, *s.from, *s.timeline, err)
	case errors.As(err, &several):
		err = fmt.Errorf("%s: in %s %w; name one with --timeline", what, *s.from, err)
	case err != nil:
		err = fmt.Errorf("%s: read %s: %w; try again", what, *s.from, err)
	}
	return a, at, err
}

// parseAt reads --at.
func parseAt(text string) (at archiverestore.At, err error) {
	if text == "" {
		return at, nil
	}
	if at.Index, err = strconv.ParseUint(text, 10, 64); err == nil && at.Index > 0 {
		return at, nil
	}
	at.Index = 0
	if at.Time, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return at, cli.Usagef("--at %s: neither an index of the log nor a time; write 1234 or 2026-03-01T12:00:00Z", text)
	}
	return at, nil
}

// untilInterrupted is a context that an interrupt ends, so that what was done is kept.
func untilInterrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

func restoreCommand(all serve.List) *cli.Command {
	var from *source
	var data, name, peer *string
	saved := all.Saved()
	return &cli.Command{
		Name:    "restore",
		Summary: "make a data directory from an archive, as of any entry or time, for a new cluster of one member",
		About: `The newest snapshot before the state that is wanted is read, and the log after it is applied up to there. The outcome
is held against the state hashes that leaders stamped on the log, and then changed so that nobody takes it for the old
cluster: it has new ids and one member, revisions begin a thousand million higher with everything before compacted,
tokens are gone, leases start with their full time, and ` + all.Held() + ` are held until ` + "`holdfast resume`" + `.
All that is changed is listed.

--at is an index of the log, or a time: then it is the last entry that was written up to it. Nothing is finer than an
entry of the log. One that is interrupted goes on when it is called with the same flags. To get three members, start
it with --peer and start the others with --join.`,
		Examples: []string{
			"holdfast restore --from s3://backups/prod --data ./restored",
			"holdfast restore --from file:///mnt/backups --at 2026-03-01T12:00:00Z --data ./restored",
			"holdfast restore --from file:///mnt/backups --at 123456 --data ./restored --name n1 --peer 127.0.0.1:2380",
		},
		Flags: func(l *cli.FlagList) {
			from = addSource(l, "the state to restore (default: the newest)")
			data = l.Text("data", "DIR", "", "directory to make; it must be empty or missing, or hold this restore, interrupted")
			name = l.Text("name", "NAME", "", "label of its first member (default: the host's name)")
			peer = l.Text("peer", "ADDR", "", "address at which other members will reach it")
			for _, s := range saved {
				if s.Flags != nil {
					s.Flags(l)
				}
			}
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 || *data == "" {
				return cli.Usagef("restore: wants --from and --data; write `holdfast restore --from URL --data DIR`")
			}
			if *peer != "" {
				if _, err := cli.Dialable(*peer); err != nil {
					return cli.Usagef("--peer %s: %s", *peer, err)
				}
			}
			if *name == "" {
				*name = cli.HostName()
			}
			if err := cli.WritableDir(*data); err != nil {
				return fmt.Errorf("restore: --data %s: %w", *data, err)
			}
			debug.SetMemoryLimit(budget.Of(budget.Small).GoLimit) // as a server's: fetched and filled data is bounded, its garbage is not
			ctx, stop := untilInterrupted()
			defer stop()
			a, at, err := from.open(ctx, "restore")
			if err != nil {
				return err
			}
			changes := newChanges(all.Specs(), saved)
			shown := newProgress(c.Stderr, "read")
			out, err := a.Restore(ctx, all.Equip(node.Config{Dir: *data}), archiverestore.Restoring{From: *from.from, At: at, Name: *name, PeerAddr: *peer,
				Row: changes.row, Progress: shown.show})
			shown.end()
			if err != nil {
				return fmt.Errorf("restore %s: %w; %s", *data, err, next(err, *from.from))
			}
			printRestored(c.Stdout, out, changes, *data)
			for _, s := range saved {
				if s.Restored != nil {
					s.Restored(c.Stdout, *data)
				}
			}
			return nil
		},
	}
}

// next is what to do about an error of a restore.
func next(err error, from string) string {
	var fault *format.Fault
	var gap *archiverestore.Gap
	var at *node.EntryError
	switch {
	case errors.Is(err, context.Canceled):
		return "call it again to go on"
	case errors.As(err, &gap):
		return fmt.Sprintf("give --at %d and an empty --data, or a state behind a later snapshot; `holdfast verify --from %s` tells what there is", gap.From-1, from)
	case errors.As(err, &fault):
		return fmt.Sprintf("put a good copy of the object there and call it again, or give %s and an empty --data; `holdfast verify --from %s` tells all",
			before(fault.Name), from)
	case errors.As(err, &at), errors.Is(err, node.ErrBadSnapshot), errors.Is(err, objstore.ErrAbsent):
		return fmt.Sprintf("put a good copy of the object there and call it again, or give --at before it and an empty --data; `holdfast verify --from %s` tells all", from)
	case errors.Is(err, archiverestore.ErrNotEmpty):
		return "give one that is, or that does not exist"
	case errors.Is(err, archiverestore.ErrOther):
		return "give the same --from, --timeline and --at to go on with that one, or another --data"
	case errors.Is(err, archiverestore.ErrNoSnapshot):
		return addSnapshot(from)
	case errors.Is(err, archiverestore.ErrNotInArchive):
		return "give another --at"
	case objstore.Final(err):
		return "then call it again to go on"
	}
	return "call it again to go on, or give an empty directory"
}

// before is the --at that does not need a damaged object: the entry before a span, or a state of an older snapshot.
func before(name string) string {
	if _, first, ok := format.ParseSpanName(name); ok && first > 1 {
		return fmt.Sprintf("--at %d", first-1)
	}
	return "--at before it, if there is an older snapshot,"
}

// addSnapshot is what to do about a timeline without a snapshot.
func addSnapshot(from string) string {
	return fmt.Sprintf("while a server of that cluster runs, `holdfast backup --to %s` adds one", from)
}

func printRestored(w io.Writer, out *archiverestore.Restored, changes *changes, data string) {
	fmt.Fprintf(w, "%s holds %s as of %s, from timeline %016x and its snapshot at %d; state hash %016x\n", data, changes.holds(), out.State,
		out.Timeline, out.Snapshot, out.Hash)
	if out.End.Index != 0 {
		fmt.Fprintf(w, "the archive ends with %s\n", out.End)
	}
	if out.Missing != nil {
		fmt.Fprintf(w, "what is behind %s is not restored: %s; it was not uploaded any more, or removed\n", out.State, out.Missing)
	}
	fmt.Fprintf(w, "changed, so that nobody takes it for the old cluster:\n")
	changes.print(w)
	fmt.Fprintf(w, "start it:\n  holdfast serve --data %s\n", data)
}

func verifyCommand(all serve.List) *cli.Command {
	var from *source
	var temp *string
	return &cli.Command{
		Name:    "verify",
		Summary: "prove an archive: that it is whole and that every snapshot is what the log comes to",
		About: `Every object is read and nothing is written there. What is wrong is named, with the object, the place in it and the
entry, and the exit status is 1. What an archive may well have is named too: leftovers of members that shipped at the
same time, and entries that were lost before they were archived and that a later snapshot closes over. The content
hash is that of all rows at --at: members and restores have the same at the same index. The state is kept in a
temporary directory, which needs room for it once.`,
		Examples: []string{"holdfast verify --from s3://backups/prod", "holdfast verify --from file:///mnt/backups --at 123456"},
		Flags: func(l *cli.FlagList) {
			from = addSource(l, "the state whose content hash is printed (default: the newest)")
			temp = l.Text("temp", "DIR", "", "where the temporary directory is made (default: the system's)")
		},
		Run: func(c *cli.Call) (err error) {
			if len(c.Args) > 0 {
				return cli.Usagef("verify: takes no arguments; write `holdfast verify --from URL`")
			}
			debug.SetMemoryLimit(budget.Of(budget.Small).GoLimit)
			ctx, stop := untilInterrupted()
			defer stop()
			a, at, err := from.open(ctx, "verify")
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp(*temp, "holdfast-verify-")
			if err != nil {
				return fmt.Errorf("verify: %s; give another --temp", cli.Reason(err))
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			st, err := store.Open(dir, store.Options{CacheBytes: 32 << 20})
			if err != nil {
				return fmt.Errorf("verify: %w; give another --temp", err)
			}
			defer st.Close() // it is removed
			shown := newProgress(c.Stderr, "read")
			v, err := a.Verify(ctx, archiverestore.Verifying{At: at, Store: st, Patience: 5 * time.Second, Progress: shown.show,
				Config: func() node.Config { return all.Equip(node.Config{FS: disk.OS()}) },
				Found: func(f archiverestore.Finding) {
					shown.end()
					if f.Wrong {
						fmt.Fprintln(c.Stdout, "WRONG "+f.Text)
					} else {
						fmt.Fprintln(c.Stdout, "note  "+f.Text)
					}
				}})
			shown.end()
			if err != nil {
				return fmt.Errorf("verify %s: %w; try again", *from.from, err)
			}
			return printVerified(c.Stdout, v, at, *from.from)
		},
	}
}

func printVerified(w io.Writer, v *archiverestore.Verified, at archiverestore.At, from string) error {
	fmt.Fprintf(w, "timeline %016x: %d snapshots, %d entries in %d objects, %s read\n", v.Timeline, v.Snapshots, v.Entries, v.Spans, cli.SizeString(v.Bytes))
	if v.End.Index != 0 {
		fmt.Fprintf(w, "restorable from %s\n        up to   %s\n", v.First, v.End)
	}
	if v.At.Index != 0 {
		fmt.Fprintf(w, "at %s: state hash %016x, %d rows, content hash %x\n", v.At, v.Hash, v.Content.Rows, v.Content.Hash)
	}
	found := fmt.Sprintf("%d findings are wrong, see above", v.Wrong)
	if v.Wrong == 1 {
		found = "1 finding is wrong, see above"
	}
	switch {
	case v.Wrong > 0 && v.End.Index == 0:
		return fmt.Errorf("verify %s: %s, and no state can be restored; put good copies of those objects there", from, found)
	case v.Wrong > 0:
		return fmt.Errorf("verify %s: %s; restore a state before them with --at, or put good copies of those objects there", from, found)
	case v.End.Index == 0:
		return fmt.Errorf("verify %s: timeline %016x %w; %s", from, v.Timeline, archiverestore.ErrNoSnapshot, addSnapshot(from))
	case v.At.Index == 0:
		return fmt.Errorf("verify %s: %s cannot be restored; give an --at within what is restorable, see above", from, at)
	}
	return nil
}

func backupCommand(all serve.List) *cli.Command {
	var flags *cli.AdminFlags
	var to *string
	return &cli.Command{
		Name:    "backup",
		Summary: "write the whole state of a running server to an archive in an object store",
		About: `It is one more snapshot in the archive of its cluster: the same place may be that of ` + "`serve --archive`" + `. The server
goes on working. It is there once its last object is, and is restored with ` + "`holdfast restore`" + `; one that is interrupted
is begun again.`,
		Examples: []string{"holdfast backup --to s3://backups/prod", "holdfast backup --to file:///mnt/backups --admin 127.0.0.1:8180"},
		Flags: func(l *cli.FlagList) {
			to = l.Text("to", "URL", "", "the archive: file:///DIR or s3://BUCKET/PREFIX")
			flags = cli.AddAdminFlags(l)
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 || *to == "" {
				return cli.Usagef("backup: wants --to; write `holdfast backup --to URL`")
			}
			s, err := objstore.Open(*to)
			if err != nil {
				return cli.Usagef("--to: %s", err)
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			ctx, stop := untilInterrupted()
			defer stop()
			res, err := client.Send(ctx, "GET", "/v1/snapshot", nil)
			if err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			defer res.Body.Close()
			changes := newChanges(all.Specs(), nil)
			shown := newProgress(c.Stderr, "saved")
			m, err := archiverestore.Take(ctx, s, res.Body, func(k, v []byte) error { return changes.row(k, v, v) },
				func(n int64) { shown.show(archiverestore.Progress{Bytes: n}) })
			shown.end()
			if err != nil {
				return fmt.Errorf("backup %s: %w; try again", *to, err)
			}
			fmt.Fprintf(c.Stdout, "%s holds %s as of %s: snapshot of timeline %016x, %s in %d objects\n", *to, changes.holds(),
				archiverestore.Mark{Index: m.Index, WallNs: m.WallNs}, m.Timeline, cli.SizeString(m.Bytes()), len(m.Pieces)+1)
			return nil
		},
	}
}
