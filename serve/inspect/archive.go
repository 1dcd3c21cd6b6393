package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/wal"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/serve/cli"
)

func inspectArchive(specs machine.Specs) *cli.Command {
	var commands *bool
	return &cli.Command{
		Name:    "inspect archive",
		Args:    "URL NAME",
		Summary: "print one object of an archive: a span of the log, or the manifest of a snapshot",
		About: wrapped("NAME is what the object is called below URL: TIMELINE/INDEX for entries of the log from INDEX on, TIMELINE/snapshot/INDEX " +
			"for the manifest of a snapshot. The object is checked first; `holdfast verify` checks how it goes together with the others."),
		Examples: []string{
			"holdfast inspect archive s3://backups/prod 00a1b2c3d4e5f607/00000000000000000002",
			"holdfast inspect archive file:///mnt/backups 00a1b2c3d4e5f607/00000000000000000002 --commands",
			"holdfast inspect archive file:///mnt/backups 00a1b2c3d4e5f607/snapshot/00000000000000001234",
		},
		Flags: func(l *cli.FlagList) { commands = l.Toggle("commands", "print the commands of every entry too") },
		Run: func(c *cli.Call) error {
			if len(c.Args) != 2 {
				return cli.Usagef("inspect archive: wants an archive and an object in it; write `holdfast inspect archive URL TIMELINE/INDEX`")
			}
			s, err := objstore.Open(c.Args[0])
			if err != nil {
				return cli.Usagef("inspect archive: %s", err)
			}
			out := cli.NewBufferedWriter(c.Stdout)
			err = printObject(out, specs, s, c.Args[1], *commands)
			return errors.Join(err, out.Flush())
		},
	}
}

func printObject(w io.Writer, specs machine.Specs, s objstore.Store, name string, commands bool) error {
	_, _, span := format.ParseSpanName(name)
	_, _, manifest := format.ParseManifestName(name)
	if !span && !manifest {
		return fmt.Errorf("inspect archive: %s is neither a span's name nor a manifest's; write TIMELINE/INDEX or TIMELINE/snapshot/INDEX in full", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, err := s.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("inspect archive: %w; is that the archive's URL?", err)
	}
	if span {
		err = printSpan(w, specs, name, b, commands)
	} else {
		err = printManifest(w, name, b)
	}
	if err != nil {
		return fmt.Errorf("inspect archive: %w; restore from a good copy of it, or to a state before it", err)
	}
	return nil
}

func printSpan(w io.Writer, specs machine.Specs, name string, b []byte, commands bool) error {
	size := len(b)
	s, err := format.DecodeSpan(name, b)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "entries %d@%d to %d@%d, %d bytes\ncluster      %016x\ntimeline     %016x\n", s.First, s.FirstTerm, s.Last, s.LastTerm, size,
		s.Cluster, s.Timeline)
	fmt.Fprintf(w, "hash before  %s\nhash after   %s\nstate hash   %016x after the last\n", s.Before, s.After, s.State)
	if commands {
		for e := range s.Entries() {
			printEntry(w, specs, (*wal.Entry)(&e), "  ")
		}
	}
	return nil
}

func printManifest(w io.Writer, name string, b []byte) error {
	m, err := format.DecodeManifest(name, b)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "snapshot at %d@%d, %d bytes in %d pieces\ncluster      %016x\ntimeline     %016x\nstate hash   %016x\ntime         %s\n", m.Index, m.Term,
		m.Bytes(), len(m.Pieces), m.Cluster, m.Timeline, m.State, time.Unix(0, m.WallNs).UTC().Format(time.RFC3339Nano))
	for i, p := range m.Pieces {
		fmt.Fprintf(w, "  %s  %d bytes\n", m.PieceName(i), p.Size)
	}
	return nil
}
