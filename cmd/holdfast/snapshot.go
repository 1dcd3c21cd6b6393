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
	"github.com/holdfastdb/holdfast/etcdfile"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	mtree "github.com/holdfastdb/holdfast/machine/tree"
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
	// Holds is what a person would count: keys, v2 nodes, users, logs.
	Holds  holdings `json:"holds"`
	Keys   int64    `json:"keys"`
	Rows   uint64   `json:"rows"`
	Bytes  int64    `json:"bytes"`
	SHA256 string   `json:"sha256"`
	// Logs are the transparency logs in it.
	Logs []snapshotLog `json:"logs,omitempty"`
}

// snapshotLog is one of them.
type snapshotLog struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
	Vkey   string `json:"vkey"`
}

func snapshotSave() *command {
	var flags *adminFlags
	var data, walDir *string
	return &command{
		name:    "snapshot save",
		args:    "FILE",
		summary: "write the whole state of a running server, or of a stopped one's directory, to a file",
		about: `The server goes on working. The file appears under its name only when it is complete, on disk, and its checksums
have been verified.

With --data the server must be stopped. That is for the last member of a cluster whose others are gone for good: all that
is in its log is taken as committed, also what nobody has told it is. Restored and started, it has every write that this
member had; writes that only others had are not in it. The directory is left as it was; beside the file, the work needs
room in it for a copy of the log and for what the log adds to the store.`,
		examples: []string{
			"holdfast snapshot save backup.snap",
			"holdfast snapshot save --admin 127.0.0.1:8180 backup.snap",
			"holdfast snapshot save --data ./data backup.snap",
		},
		flags: func(l *flagList) {
			data = l.text("data", "DIR", "", "take it from the data directory of a stopped server")
			walDir = l.text("wal-dir", "DIR", "", "where that server's log lies if not in its data directory")
			flags = addAdminFlags(l)
		},
		run: func(c *call) error {
			if len(c.args) != 1 {
				return usagef("snapshot save: wants one file; write `holdfast snapshot save FILE`")
			}
			if *walDir != "" && *data == "" {
				return usagef("snapshot save: --wal-dir goes with --data; write `holdfast snapshot save --data DIR --wal-dir DIR FILE`")
			}
			if *data != "" {
				return saveStopped(c, *data, *walDir, c.args[0])
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			r, err := saveSnapshot(client, c.args[0], c.stderr)
			if err != nil {
				return fmt.Errorf("snapshot save %s: %w", c.args[0], err)
			}
			fmt.Fprintf(c.stdout, "%s: index %d, revision %d, %s, %s\n", c.args[0], r.Index, r.Revision, r.Holds, sizeString(r.Bytes))
			return nil
		},
	}
}

// createPart makes the file that a snapshot is written to before it has its name. It holds all values, so it must be new: a
// file that is there already may be readable by others, a link to another place, or another save's.
func createPart(part string) (*os.File, error) {
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%s is there already; if no other save is running remove it, it was left by one that was cut off", part)
	case err != nil:
		return nil, fmt.Errorf("%s; give a file this user can write", reason(err))
	}
	return f, nil
}

func saveSnapshot(client *adminClient, path string, progress io.Writer) (_ *snapshotReport, err error) {
	res, err := client.send(context.Background(), "GET", "/v1/snapshot", nil)
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
	var logs []snapshotLog
	census := specs.Census()
	info, err := node.ReadSnapshot(in, nil, func(k, v []byte) error {
		if err := specs.Known(k); err != nil {
			return err
		}
		if err := census.Row(k, v); err != nil {
			return err
		}
		t, ok, err := mkv.ReadTotals(k, v)
		if ok {
			totals = t
		}
		if err != nil {
			return err
		}
		spec, ok, err := mtree.ReadLog(k, v)
		if ok {
			logs = append(logs, snapshotLog{spec.Name, spec.Key.Name, spec.Key.String()})
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
		Compacted: max(totals.Compacted, 0), Keys: totals.Keys, Holds: census.Counts(), Rows: info.Keys, Bytes: in.n, SHA256: hex.EncodeToString(in.sum.Sum(nil)), Logs: logs}, nil
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

// Before version 1.1 the kv door sent etcdctl this format, padded with zeros to whole sectors and followed by its SHA-256.
const snapshotSector = 512

// envelope reads what follows the snapshot's own end: nothing, or what the kv door put around it.
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
		about:    "Files from `etcdctl snapshot save` are etcd's own: `etcdutl snapshot status` reads them.",
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
			fmt.Fprintf(t, "cluster\t%s\nindex\t%d\nterm\t%d\nrevision\t%d\ncompacted\t%d\nholds\t%s\nrows\t%d\nsize\t%s (%d bytes)\nsha256\t%s\n",
				r.Cluster, r.Index, r.Term, r.Revision, r.Compacted, r.Holds, r.Rows, sizeString(r.Bytes), r.Bytes, r.SHA256)
			return t.Flush()
		},
	}
}

func snapshotRestore() *command {
	var data, name, peer, keys *string
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
			keys = l.text("tlog-keys", "DIR", "", "where the server will look for the keys of its transparency logs (default: tlog-keys in the data directory)")
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
			fmt.Fprintf(c.stdout, "%s holds %s as of index %d; start it:\n  holdfast serve --data %s\n", *data, r.Holds, r.Index, *data)
			restoredLogs(c.stdout, r.Logs, keyDir(*data, *keys))
			return nil
		},
	}
}

// restoredLogs says what it takes to let the transparency logs of a restored directory go on.
func restoredLogs(w io.Writer, logs []snapshotLog, dir string) {
	for _, l := range logs {
		file := filepath.Join(dir, l.Name+".key")
		state := "its key is " + file
		switch key, err := readKey(file); {
		case errors.Is(err, fs.ErrNotExist):
			state = "its key is in no snapshot: put the original's at " + file
		case err != nil:
			state = err.Error()
		case key.Verifier().String() != l.Vkey:
			state = file + " is another key: put the original's there"
		}
		fmt.Fprintf(w, "transparency log %s (%s): %s; it is held until you show the last checkpoint that was published:\n"+
			"  holdfast resume --tlog %s --checkpoint FILE\n", l.Name, l.Origin, state, l.Name)
	}
}

func restoreSnapshot(path, data, name, peer string) (*snapshotReport, error) {
	if err := emptyDir("snapshot restore", data); err != nil {
		return nil, err
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
	cfg, _ := housed(node.Config{Dir: data})
	if _, err := node.Restore(cfg, name, peer, newBuffered(f)); err != nil {
		return nil, fmt.Errorf("snapshot restore %s: %w; remove %s and try again", path, err, data)
	}
	return r, nil
}

func openSnapshot(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %s; give a file that `holdfast snapshot save` wrote", path, reason(err))
	}
	head := make([]byte, 64)
	if n, _ := f.ReadAt(head, 0); etcdfile.IsEtcd(head[:n]) { // an error shows when the file is read
		f.Close()
		return nil, fmt.Errorf("snapshot %s: it is an etcd's; write `holdfast import --from %s --data DIR`, or use etcdutl", path, path)
	}
	return f, nil
}

// progressLine prints how much is done, at most twice a second and not at all if the work takes less.
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
