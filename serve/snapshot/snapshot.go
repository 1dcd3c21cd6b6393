// Package snapshot has the commands that save a cluster's whole state to a file, check such a file, and make a new cluster of it.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Commands are those for snapshots, with the rows of those doors' machines.
func Commands(all serve.List) []*cli.Command {
	return []*cli.Command{saveCommand(all), statusCommand(all), restoreCommand(all)}
}

func saveCommand(all serve.List) *cli.Command {
	var flags *cli.AdminFlags
	var data, walDir *string
	return &cli.Command{
		Name:    "snapshot save",
		Args:    "FILE",
		Summary: "write the whole state of a running server, or of a stopped one's directory, to a file",
		About: `The server goes on working. The file appears under its name only when it is complete, on disk, and its checksums
have been verified.

With --data the server must be stopped. That is for the last member of a cluster whose others are gone for good: all that
is in its log is taken as committed, also what nobody has told it is. Restored and started, it has every write that this
member had; writes that only others had are not in it. The directory is left as it was; beside the file, the work needs
room in it for a copy of the log and for what the log adds to the store.`,
		Examples: []string{
			"holdfast snapshot save backup.snap",
			"holdfast snapshot save --admin 127.0.0.1:8180 backup.snap",
			"holdfast snapshot save --data ./data backup.snap",
		},
		Flags: func(l *cli.FlagList) {
			data = l.Text("data", "DIR", "", "take it from the data directory of a stopped server")
			walDir = l.Text("wal-dir", "DIR", "", "where that server's log lies if not in its data directory")
			flags = cli.AddAdminFlags(l)
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("snapshot save: wants one file; write `holdfast snapshot save FILE`")
			}
			if *walDir != "" && *data == "" {
				return cli.Usagef("snapshot save: --wal-dir goes with --data; write `holdfast snapshot save --data DIR --wal-dir DIR FILE`")
			}
			if *data != "" {
				return saveStopped(c, all, *data, *walDir, c.Args[0])
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			r, err := save(all, client, c.Args[0], c.Stderr)
			if err != nil {
				return fmt.Errorf("snapshot save %s: %w", c.Args[0], err)
			}
			fmt.Fprintf(c.Stdout, "%s: index %d, %s%s, %s\n", c.Args[0], r.Index, r.brief(), r.Holds, cli.SizeString(r.Bytes))
			return nil
		},
	}
}

// createPart makes the file that a snapshot is written to before it has its name. It holds all values, so it must be new: an existing file
// may be readable by others, a link to another place, or another save's.
func createPart(part string) (*os.File, error) {
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%s is there already; if no other save is running remove it, it was left by one that was cut off", part)
	case err != nil:
		return nil, fmt.Errorf("%s; give a file this user can write", cli.Reason(err))
	}
	return f, nil
}

func save(all serve.List, client *cli.AdminClient, path string, progress io.Writer) (_ *report, err error) {
	res, err := client.Send(context.Background(), "GET", "/v1/snapshot", nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	part := path + ".part"
	f, err := createPart(part)
	if err != nil {
		return nil, err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(part)
		}
	}()
	shown := cli.NewProgress(progress, "saved")
	r, err := readSnapshot(all.Specs(), all.Saved(), io.TeeReader(res.Body, io.MultiWriter(f, shown)))
	shown.End()
	if err != nil {
		return nil, fmt.Errorf("%w; the connection broke or the server stopped, try again", err)
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("%s; make room and try again", cli.Reason(err))
	}
	if err := os.Rename(part, path); err != nil {
		return nil, fmt.Errorf("%s; give another file", cli.Reason(err))
	}
	return r, disk.OS().SyncDir(filepath.Dir(path))
}

func statusCommand(all serve.List) *cli.Command {
	var asJSON *bool
	return &cli.Command{
		Name:     "snapshot status",
		Args:     "FILE",
		Summary:  "check a snapshot file and say what is in it",
		About:    "Files from `etcdctl snapshot save` are etcd's own: `etcdutl snapshot status` reads them.",
		Examples: []string{"holdfast snapshot status backup.snap", "holdfast snapshot status --json backup.snap"},
		Flags:    func(l *cli.FlagList) { asJSON = l.Toggle("json", "print JSON") },
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 {
				return cli.Usagef("snapshot status: wants one file; write `holdfast snapshot status FILE`")
			}
			f, err := openSnapshot(all, c.Args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			r, err := readSnapshot(all.Specs(), all.Saved(), cli.NewBuffered(f))
			if err != nil {
				return fmt.Errorf("snapshot status %s: %w; use another copy of it", c.Args[0], err)
			}
			if *asJSON {
				return cli.PrintJSON(c.Stdout, r)
			}
			t := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintf(t, "cluster\t%s\nindex\t%d\nterm\t%d\n", r.Cluster, r.Index, r.Term)
			for _, f := range r.Facts {
				if f.Text != "" {
					fmt.Fprintf(t, "%s\t%s\n", f.Name, f.Text)
				}
			}
			fmt.Fprintf(t, "holds\t%s\nrows\t%d\nsize\t%s (%d bytes)\nsha256\t%s\n", r.Holds, r.Rows, cli.SizeString(r.Bytes), r.Bytes, r.SHA256)
			return t.Flush()
		},
	}
}
