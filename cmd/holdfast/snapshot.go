package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/holdfastdb/holdfast/disk"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	"github.com/holdfastdb/holdfast/node"
)

func snapshotCommands() []*command {
	return []*command{snapshotSave(), snapshotStatus(), snapshotRestore()}
}

// snapshotReport is what people want to know of a snapshot file.
type snapshotReport struct {
	Cluster   string `json:"cluster"`
	Index     uint64 `json:"index"`
	Term      uint64 `json:"term"`
	Revision  int64  `json:"revision"`
	Compacted int64  `json:"compacted"`
	Keys      int64  `json:"keys"`
	Rows      uint64 `json:"rows"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
}

func snapshotSave() *command {
	var flags *adminFlags
	return &command{
		name:    "snapshot save",
		args:    "FILE",
		summary: "write the whole state of a running server to a file",
		about: `The server goes on working. The file appears under its name only when it is complete, on disk, and its checksums
have been verified.`,
		examples: []string{"holdfast snapshot save backup.snap", "holdfast snapshot save --admin 127.0.0.1:8180 backup.snap"},
		flags:    func(l *flagList) { flags = addAdminFlags(l) },
		run: func(c *call) error {
			if len(c.args) != 1 {
				return usagef("snapshot save: wants one file; write `holdfast snapshot save FILE`")
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			r, err := saveSnapshot(client, c.args[0], c.stderr)
			if err != nil {
				return fmt.Errorf("snapshot save %s: %w", c.args[0], err)
			}
			fmt.Fprintf(c.stdout, "%s: index %d, revision %d, %d keys, %s\n", c.args[0], r.Index, r.Revision, r.Keys, sizeString(r.Bytes))
			return nil
		},
	}
}

func saveSnapshot(client *adminClient, path string, progress io.Writer) (_ *snapshotReport, err error) {
	res, err := client.send(context.Background(), "GET", "/v1/snapshot", nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // it holds everybody's values
	if err != nil {
		return nil, fmt.Errorf("%s; give a file this user can write", reason(err))
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(part)
		}
	}()
	shown := newProgress(progress, "saved")
	r, err := readSnapshot(io.TeeReader(res.Body, io.MultiWriter(f, shown)))
	shown.end()
	if err != nil {
		return nil, fmt.Errorf("%w; the connection broke or the server stopped, try again", err)
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("%s; make room and try again", reason(err))
	}
	if err := os.Rename(part, path); err != nil {
		return nil, fmt.Errorf("%s; give another file", reason(err))
	}
	return r, disk.OS().SyncDir(filepath.Dir(path))
}

// readSnapshot reads a snapshot to its end, checking every checksum.
func readSnapshot(r io.Reader) (*snapshotReport, error) {
	in := &counted{r: r, sum: sha256.New()}
	var totals mkv.Totals
	info, err := node.ReadSnapshot(in, nil, func(k, v []byte) error {
		t, ok, err := mkv.ReadTotals(k, v)
		if ok {
			totals = t
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := in.envelope(); err != nil {
		return nil, err
	}
	return &snapshotReport{Cluster: fmt.Sprintf("%x", info.Cluster), Index: info.Index, Term: info.Term, Revision: max(totals.Revision, 1),
		Compacted: max(totals.Compacted, 0), Keys: totals.Keys, Rows: info.Keys, Bytes: in.n, SHA256: hex.EncodeToString(in.sum.Sum(nil))}, nil
}

// counted hashes and counts what is read.
type counted struct {
	r   io.Reader
	sum hash.Hash
	n   int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.add(p[:n])
	return n, err
}

func (c *counted) add(p []byte) {
	c.sum.Write(p)
	c.n += int64(len(p))
}

// etcdctl's snapshots are padded with zeros to whole sectors and end with the SHA-256 of all before: the kv door adds both.
const snapshotSector = 512

// envelope reads what follows the snapshot's own end: nothing, or what etcdctl asked the server to put around it.
func (c *counted) envelope() error {
	rest, err := io.ReadAll(io.LimitReader(c.r, snapshotSector+sha256.Size))
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return nil
	}
	pad := len(rest) - sha256.Size
	if pad < 0 || pad >= snapshotSector || (c.n+int64(pad))%snapshotSector != 0 || len(bytes.Trim(rest[:pad], "\x00")) != 0 {
		return fmt.Errorf("%d bytes or more after the end of the snapshot", len(rest))
	}
	c.add(rest[:pad])
	if !bytes.Equal(c.sum.Sum(nil), rest[pad:]) {
		return errors.New("the SHA-256 at its end is not that of the file")
	}
	c.add(rest[pad:])
	return nil
}

func snapshotStatus() *command {
	var asJSON *bool
	return &command{
		name:     "snapshot status",
		args:     "FILE",
		summary:  "check a snapshot file and say what is in it",
		about:    "The file may be from `holdfast snapshot save` or, against a Holdfast server, from `etcdctl snapshot save`.",
		examples: []string{"holdfast snapshot status backup.snap", "holdfast snapshot status --json backup.snap"},
		flags:    func(l *flagList) { asJSON = l.toggle("json", "print JSON") },
		run: func(c *call) error {
			if len(c.args) != 1 {
				return usagef("snapshot status: wants one file; write `holdfast snapshot status FILE`")
			}
			f, err := openSnapshot(c.args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			r, err := readSnapshot(newBuffered(f))
			if err != nil {
				return fmt.Errorf("snapshot status %s: %w; use another copy of it", c.args[0], err)
			}
			if *asJSON {
				return printJSON(c.stdout, r)
			}
			t := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintf(t, "cluster\t%s\nindex\t%d\nterm\t%d\nrevision\t%d\ncompacted\t%d\nkeys\t%d\nrows\t%d\nsize\t%s (%d bytes)\nsha256\t%s\n",
				r.Cluster, r.Index, r.Term, r.Revision, r.Compacted, r.Keys, r.Rows, sizeString(r.Bytes), r.Bytes, r.SHA256)
			return t.Flush()
		},
	}
}

func snapshotRestore() *command {
	var data, name, peer *string
	return &command{
		name:    "snapshot restore",
		args:    "FILE",
		summary: "make a data directory from a snapshot, for a new cluster of one member",
		about: `The cluster is a new one: it has new ids, no member of the old one is in it, and its revisions begin a thousand
million higher with everything before compacted, so that no client takes it for the old cluster. Leases start with their
full time. To get three members, start it with --peer and start the others with --join.`,
		examples: []string{
			"holdfast snapshot restore backup.snap --data ./restored",
			"holdfast snapshot restore backup.snap --data ./restored --name n1 --peer 127.0.0.1:2380",
		},
		flags: func(l *flagList) {
			data = l.text("data", "DIR", "", "directory to make; it must be empty or missing")
			name = l.text("name", "NAME", "", "label of its first member (default: the host's name)")
			peer = l.text("peer", "ADDR", "", "address at which other members will reach it")
		},
		run: func(c *call) error {
			if len(c.args) != 1 || *data == "" {
				return usagef("snapshot restore: wants a file and a directory; write `holdfast snapshot restore FILE --data DIR`")
			}
			if *peer != "" {
				if _, err := dialable(*peer); err != nil {
					return usagef("--peer %s: %s", *peer, err)
				}
			}
			if *name == "" {
				*name = hostName()
			}
			r, err := restoreSnapshot(c.args[0], *data, *name, *peer)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.stdout, "%s holds %d keys as of index %d; start it:\n  holdfast serve --data %s\n", *data, r.Keys, r.Index, *data)
			return nil
		},
	}
}

func restoreSnapshot(path, data, name, peer string) (*snapshotReport, error) {
	if entries, err := os.ReadDir(data); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("snapshot restore: --data %s is not empty; give a directory that is, or one that does not exist", data)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("snapshot restore: --data %s: %s; give a directory this user can write", data, reason(err))
	}
	f, err := openSnapshot(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Read it once before anything is made: a damaged file must not leave half a directory behind.
	r, err := readSnapshot(newBuffered(f))
	if err != nil {
		return nil, fmt.Errorf("snapshot restore %s: %w; use another copy of it", path, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("snapshot restore %s: %s; use a file, not a pipe", path, reason(err))
	}
	if _, err := node.Restore(node.Config{Dir: data}, name, peer, newBuffered(f)); err != nil {
		return nil, fmt.Errorf("snapshot restore %s: %w; remove %s and try again", path, err, data)
	}
	return r, nil
}

func openSnapshot(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %s; give a file that `holdfast snapshot save` wrote", path, reason(err))
	}
	return f, nil
}

// progressLine tells a person how much has gone by, at most twice a second and not at all for what is done at once.
type progressLine struct {
	w     io.Writer
	verb  string
	n     int64
	next  time.Time
	wrote bool
}

func newProgress(w io.Writer, verb string) *progressLine {
	return &progressLine{w: w, verb: verb, next: time.Now().Add(time.Second)}
}

// Write counts p.
func (p *progressLine) Write(b []byte) (int, error) {
	p.n += int64(len(b))
	if now := time.Now(); now.After(p.next) {
		p.next, p.wrote = now.Add(500*time.Millisecond), true
		fmt.Fprintf(p.w, "\r%s %s   ", p.verb, sizeString(p.n))
	}
	return len(b), nil
}

func (p *progressLine) end() {
	if p.wrote {
		fmt.Fprintln(p.w)
	}
}
