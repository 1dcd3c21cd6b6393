package snapshot

import (
	"fmt"
	"io"
	"os"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

func restoreCommand(all serve.List) *cli.Command {
	var data, name, peer *string
	saved := all.Saved()
	return &cli.Command{
		Name:    "snapshot restore",
		Args:    "FILE",
		Summary: "make a data directory from a snapshot, for a new cluster of one member",
		About: `The cluster is a new one: it has new ids, no member of the old one is in it, and its revisions begin a thousand
million higher with everything before compacted, so that no client takes it for the old cluster. Leases start with their
full time. To get three members, start it with --peer and start the others with --join.`,
		Examples: []string{
			"holdfast snapshot restore backup.snap --data ./restored",
			"holdfast snapshot restore backup.snap --data ./restored --name n1 --peer 127.0.0.1:2380",
		},
		Flags: func(l *cli.FlagList) {
			data = l.Text("data", "DIR", "", "directory to make; it must be empty or missing")
			name = l.Text("name", "NAME", "", "label of its first member (default: the host's name)")
			peer = l.Text("peer", "ADDR", "", "address at which other members will reach it")
			for _, s := range saved {
				if s.Flags != nil {
					s.Flags(l)
				}
			}
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 || *data == "" {
				return cli.Usagef("snapshot restore: wants a file and a directory; write `holdfast snapshot restore FILE --data DIR`")
			}
			if *peer != "" {
				if _, err := cli.Dialable(*peer); err != nil {
					return cli.Usagef("--peer %s: %s", *peer, err)
				}
			}
			if *name == "" {
				*name = cli.HostName()
			}
			r, err := restore(all, saved, c.Args[0], *data, *name, *peer)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.Stdout, "%s holds %s as of index %d; start it:\n  holdfast serve --data %s\n", *data, r.Holds, r.Index, *data)
			for _, s := range saved {
				if s.Restored != nil {
					s.Restored(c.Stdout, *data)
				}
			}
			return nil
		},
	}
}

func restore(all serve.List, saved []*serve.Saved, path, data, name, peer string) (*report, error) {
	if err := cli.EmptyDir("snapshot restore", data); err != nil {
		return nil, err
	}
	f, err := openSnapshot(all, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Read it once before anything is made: a damaged file must not leave half a directory behind.
	r, err := readSnapshot(all.Specs(), saved, cli.NewBuffered(f))
	if err != nil {
		return nil, fmt.Errorf("snapshot restore %s: %w; use another copy of it", path, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("snapshot restore %s: %s; use a file, not a pipe", path, cli.Reason(err))
	}
	if _, err := node.Restore(all.Equip(node.Config{Dir: data}), name, peer, cli.NewBuffered(f)); err != nil {
		return nil, fmt.Errorf("snapshot restore %s: %w; remove %s and try again", path, err, data)
	}
	return r, nil
}

func openSnapshot(all serve.List, path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %s; give a file that `holdfast snapshot save` wrote", path, cli.Reason(err))
	}
	head := make([]byte, 64)
	n, _ := f.ReadAt(head, 0) // an error shows when the file is read
	if text := all.Original(head[:n], path); text != "" {
		f.Close()
		return nil, fmt.Errorf("snapshot %s: %s", path, text)
	}
	return f, nil
}
