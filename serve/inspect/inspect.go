// Package inspect prints the files of a stopped server, its log, its state, one entry, and objects of an archive.
package inspect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/wal"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Commands are those that look into a stopped server's files, with the rows and commands of those doors' machines.
func Commands(all serve.List) []*cli.Command {
	specs := all.Specs()
	return []*cli.Command{inspectWAL(specs), inspectStore(specs, rows(all)), inspectEntry(specs), inspectArchive(specs)}
}

// wrapped breaks text into lines that fit a terminal of 120 columns.
func wrapped(text string) string {
	var b strings.Builder
	col := 0
	for word := range strings.FieldsSeq(text) {
		switch n := utf8.RuneCountInString(word); {
		case col == 0:
			col = n
		case col+1+n > 120:
			b.WriteByte('\n')
			col = n
		default:
			b.WriteByte(' ')
			col += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// rows names the prefixes of rows, in lines of the help's width.
func rows(all serve.List) string {
	var known []string
	for _, d := range all {
		if d.Rows != "" {
			known = append(known, d.Rows)
		}
	}
	known = append(known, "mm members, iu users, ir roles")
	return strings.Join(known, ", ")
}

func inspectWAL(specs machine.Specs) *cli.Command {
	var from *string
	var commands *bool
	return &cli.Command{
		Name:    "inspect wal",
		Args:    "DIR",
		Summary: "print the records of a stopped server's log and check them",
		About: `A record holds the log entries and the raft state that were written together. SYNCED is how much of the segment
was on disk for certain when the record was written. Nothing is changed.`,
		Examples: []string{"holdfast inspect wal ./data", "holdfast inspect wal ./data --from 1000 --commands"},
		Flags: func(l *cli.FlagList) {
			from = l.Text("from", "INDEX", "", "begin at the record that holds this log index")
			commands = l.Toggle("commands", "print the commands of every entry too")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("inspect wal: wants a data directory; write `holdfast inspect wal DIR`")
			}
			first := uint64(0)
			if *from != "" {
				var err error
				if first, err = strconv.ParseUint(*from, 10, 64); err != nil {
					return cli.Usagef("--from %s: not a log index; write a number", *from)
				}
			}
			out := cli.NewBufferedWriter(c.Stdout)
			err := printWAL(out, specs, c.Args[0], first, *commands)
			return errors.Join(err, out.Flush())
		},
	}
}

// walDir accepts the data directory or the log's own.
func walDir(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "wal")); err == nil {
		return filepath.Join(dir, "wal")
	}
	return dir
}

func printWAL(w io.Writer, specs machine.Specs, dir string, from uint64, commands bool) error {
	records, entries := 0, 0
	sum, err := wal.Inspect(disk.OS(), walDir(dir), func(r wal.Record) error {
		records++
		entries += len(r.Entries)
		if from > 0 && (len(r.Entries) == 0 || r.Entries[len(r.Entries)-1].Index < from) {
			return nil
		}
		fmt.Fprintf(w, "%s:%d  %d bytes, synced %d", filepath.Base(r.File), r.Offset, r.Size, r.Synced)
		if r.SegmentStart {
			fmt.Fprintf(w, ", segment %d after entry %d@%d", r.Segment, r.PrevIndex, r.PrevTerm)
		}
		if h := r.HardState; h != nil {
			fmt.Fprintf(w, ", term %d vote %x commit %d", h.Term, h.Vote, h.Commit)
		}
		switch n := len(r.Entries); {
		case n == 1:
			fmt.Fprintf(w, ", entry %d@%d", r.Entries[0].Index, r.Entries[0].Term)
		case n > 1:
			fmt.Fprintf(w, ", entries %d@%d to %d@%d", r.Entries[0].Index, r.Entries[0].Term, r.Entries[n-1].Index, r.Entries[n-1].Term)
		}
		fmt.Fprintln(w)
		if commands {
			for i := range r.Entries {
				printEntry(w, specs, &r.Entries[i], "  ")
			}
		}
		return nil
	})
	if err != nil {
		return inspectError("wal", dir, err)
	}
	fmt.Fprintf(w, "%d records with %d entries; truncated up to %d@%d; ends at %s:%d", records, entries, sum.TruncatedIndex, sum.TruncatedTerm,
		filepath.Base(sum.EndFile), sum.EndOffset)
	if sum.Torn {
		fmt.Fprint(w, "; after it lies a write that was never synced, which the next start cuts off")
	}
	if sum.ResetPending {
		fmt.Fprint(w, "; a crash interrupted its replacement by a snapshot, which the next start finishes")
	}
	fmt.Fprintln(w)
	return nil
}

func inspectError(what, dir string, err error) error {
	next := "is that the data directory of a Holdfast server?"
	var corrupt *wal.CorruptError
	switch {
	case errors.As(err, &corrupt):
		next = "restore this member: remove it, empty the directory, start it with --join"
	case errors.Is(err, fs.ErrPermission):
		next = "run it as the user that runs the server"
	}
	return fmt.Errorf("inspect %s %s: %w; %s", what, dir, err, next)
}

// printEntry prints one log entry and each command in it.
func printEntry(w io.Writer, specs machine.Specs, e *wal.Entry, indent string) {
	fmt.Fprintf(w, "%s%d@%d ", indent, e.Index, e.Term)
	if len(e.Data) == 0 {
		fmt.Fprintln(w, "empty: a new leader's first")
		return
	}
	change, err := raft.DecodeChange(e.Type, e.Data)
	if err != nil {
		fmt.Fprintf(w, "%d bytes: %v\n", len(e.Data), err)
		return
	}
	data := e.Data
	if change != nil {
		fmt.Fprintf(w, "member %x %s, ", change.ID, changeVerb(change.Kind))
		data = change.Context // in the form of any other entry, with one command
	}
	head, rest, err := entry.DecodeHeader(data)
	if err != nil {
		fmt.Fprintf(w, "%d bytes: %v\n", len(data), err)
		return
	}
	fmt.Fprintf(w, "%d bytes, wall %s, tick %d ms", len(data), time.Unix(0, head.WallNs).UTC().Format("2006-01-02T15:04:05.000Z"), head.TickMs)
	if head.HashIndex > 0 {
		fmt.Fprintf(w, ", state hash %016x at %d", head.Hash, head.HashIndex)
	}
	fmt.Fprintln(w)
	for n := uint32(0); len(rest) > 0; n++ {
		var packed []byte
		if packed, rest, err = entry.Next(rest); err != nil {
			fmt.Fprintf(w, "%s  %d.%d: %v\n", indent, e.Index, n, err)
			return
		}
		cmd, err := entry.DecodeCommand(packed)
		if err != nil {
			fmt.Fprintf(w, "%s  %d.%d: %v\n", indent, e.Index, n, err)
			continue
		}
		fmt.Fprintf(w, "%s  %s\n", indent, entry.Describe(entry.Position{Index: e.Index, N: n}, &cmd, specs.DescribePart))
	}
}

func changeVerb(k raft.ChangeKind) string {
	switch k {
	case raft.AddVoter:
		return "votes"
	case raft.AddLearner:
		return "learns"
	case raft.Remove:
		return "leaves"
	}
	return "changes"
}

func inspectEntry(specs machine.Specs) *cli.Command {
	return &cli.Command{
		Name:     "inspect entry",
		Args:     "DIR INDEX",
		Summary:  "print one entry of a stopped server's log, command by command",
		Examples: []string{"holdfast inspect entry ./data 1234"},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 2 {
				return cli.Usagef("inspect entry: wants a data directory and an index; write `holdfast inspect entry DIR INDEX`")
			}
			index, err := strconv.ParseUint(c.Args[1], 10, 64)
			if err != nil || index == 0 {
				return cli.Usagef("inspect entry: %s is not a log index; write a number from 1", c.Args[1])
			}
			// Several versions of an entry may lie in the log, of leaders that did not commit theirs; the last one counts.
			var found *wal.Entry
			first, last := uint64(0), uint64(0)
			sum, err := wal.Inspect(disk.OS(), walDir(c.Args[0]), func(r wal.Record) error {
				for i := range r.Entries {
					e := r.Entries[i]
					if first == 0 {
						first = e.Index
					}
					last = e.Index
					if e.Index == index {
						e.Data = slices.Clone(e.Data)
						found = &e
					} else if e.Index < index {
						found = nil // everything behind was overwritten
					}
				}
				return nil
			})
			if err != nil {
				return inspectError("entry", c.Args[0], err)
			}
			if found == nil || index <= sum.TruncatedIndex {
				return fmt.Errorf("inspect entry %s: no entry %d; the log holds %d to %d", c.Args[0], index, max(first, sum.TruncatedIndex+1), last)
			}
			printEntry(c.Stdout, specs, found, "")
			return nil
		},
	}
}

func inspectStore(specs machine.Specs, known string) *cli.Command {
	var prefix, limit *string
	return &cli.Command{
		Name:    "inspect store",
		Args:    "DIR",
		Summary: "count the rows of a stopped server's state by prefix, or print those of one",
		About: wrapped("Prefixes are the first two bytes of a row's key, as text where they are letters: " + known + ". The store is as of its " +
			"last flush, which the applied index names; a start replays the rest from the log."),
		Examples: []string{
			"holdfast inspect store ./data",
			"holdfast inspect store ./data --prefix kc --limit 20",
			"holdfast inspect store ./data --prefix kcregistry/pods/",
		},
		Flags: func(l *cli.FlagList) {
			prefix = l.Text("prefix", "PREFIX", "", "print the rows whose key begins with this")
			limit = l.Text("limit", "N", "100", "how many rows to print, 0 for all")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("inspect store: wants a data directory; write `holdfast inspect store DIR`")
			}
			n, err := strconv.Atoi(*limit)
			if err != nil || n < 0 {
				return cli.Usagef("--limit %s: not a number of rows; write 100", *limit)
			}
			return withStore(c.Args[0], func(s store.Store) error {
				out := cli.NewBufferedWriter(c.Stdout)
				var err error
				if c.Flags.Changed("prefix") {
					err = printRows(out, specs, s, []byte(*prefix), n)
				} else {
					err = countRows(out, s)
				}
				return errors.Join(err, out.Flush())
			})
		},
	}
}

// withStore opens the store of a data directory that no server uses.
func withStore(dir string, fn func(store.Store) error) error {
	if _, err := os.Stat(filepath.Join(dir, "store", "CURRENT")); err != nil {
		return inspectError("store", dir, err)
	}
	lock, err := disk.OS().Lock(filepath.Join(dir, "LOCK"))
	if errors.Is(err, disk.ErrLocked) {
		return fmt.Errorf("inspect store %s: a server uses it; stop that server, or inspect a copy", dir)
	}
	if err != nil {
		return inspectError("store", dir, err)
	}
	defer lock.Unlock()
	s, err := store.Open(filepath.Join(dir, "store"), store.Options{CacheBytes: 8 << 20})
	if err != nil {
		return inspectError("store", dir, err)
	}
	return errors.Join(fn(s), s.Close())
}

// countRows prints one line per prefix of two bytes.
func countRows(w io.Writer, s store.Store) error {
	type count struct {
		prefix            string
		rows, keys, value int64
	}
	var counts []count
	it, err := s.NewIter(nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k := it.Key()
		v, err := it.Value()
		if err != nil {
			return err
		}
		p := string(k[:min(len(k), 2)])
		if k[0] == 0 {
			p = string(k) // the node's own rows have names as keys
		}
		if len(counts) == 0 || counts[len(counts)-1].prefix != p {
			counts = append(counts, count{prefix: p})
		}
		c := &counts[len(counts)-1]
		c.rows++
		c.keys += int64(len(k))
		c.value += int64(len(v))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PREFIX\tROWS\tKEYS\tVALUES")
	for _, c := range counts {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", strings.Trim(strconv.Quote(c.prefix), `"`), c.rows, cli.SizeString(c.keys), cli.SizeString(c.value))
	}
	fmt.Fprintf(t, "applied index %d\n", s.Applied())
	return errors.Join(t.Flush(), it.Error())
}

func printRows(w io.Writer, specs machine.Specs, s store.Store, prefix []byte, limit int) error {
	it, err := s.NewIter(prefix, after(prefix))
	if err != nil {
		return err
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; limit > 0 && n > limit {
			fmt.Fprintf(w, "… more; --limit 0 prints all\n")
			break
		}
		v, err := it.Value()
		if err != nil {
			return err
		}
		fmt.Fprintln(w, specs.DescribeRow(it.Key(), v))
	}
	return it.Error()
}

// after is the first key beyond all that begin with prefix, nil if there is none.
func after(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
