package migrate

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/entry"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/doors/kv/etcddata"
	"github.com/holdfastdb/holdfast/doors/kv/etcdfile"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// etcdDir is the data directory of a stopped etcd: its database, and its log, which is ahead of it.
type etcdDir struct {
	file *etcdfile.File
	log  *etcdfile.Log
}

// openEtcdDir opens and checks one. It is only read.
func openEtcdDir(dir string) (_ *etcdDir, err error) {
	d := &etcdDir{}
	if d.file, err = openEtcdFile(filepath.Join(dir, "member", "snap", "db")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.file.Close()
		}
	}()
	if d.log, err = etcdfile.ReadLog(filepath.Join(dir, "member", "wal")); err != nil {
		return nil, fmt.Errorf("import %s: its log: %w; take another member's, or a file of `etcdctl snapshot save`", dir, err)
	}
	if end := d.file.Head.Index; d.log.Last() > end && d.log.First() > end+1 {
		return nil, fmt.Errorf("import %s: its database ends at index %d and its log begins at %d; start that etcd once and stop it", dir, end, d.log.First())
	}
	nodes, err := etcdfile.V2Nodes(filepath.Join(dir, "member", "snap"))
	if err != nil {
		return nil, fmt.Errorf("import %s: %w; take another member's", dir, err)
	}
	refused := fmt.Errorf("import %s: it holds v2 keys, which are in no file this reads; start that etcd and use `holdfast import --from HOST:PORT`", dir)
	if nodes > 0 {
		return nil, refused
	}
	err = d.log.Entries(0, func(e *etcdfile.LogEntry) error {
		if _, ok := etcdfile.V2Write(e.Data); ok && !e.Change {
			return refused
		}
		return nil
	})
	return d, err
}

// tail replays the log entries beyond the database. Entries not known to be committed count. They may have been acknowledged, and an etcd
// of one member would commit them at its next start.
func (d *etcdDir) tail(users func() *mident.State, alarms func() []kvpart.AlarmState, apply func([]entry.Part) error) error {
	return d.log.Entries(d.file.Head.Index+1, func(e *etcdfile.LogEntry) error {
		if e.Change || len(e.Data) == 0 || etcdfile.IsV2(e.Data) {
			return nil
		}
		parts, err := doorkv.Replay(e.Data, users(), alarms())
		if err != nil {
			return fmt.Errorf("entry %d of its log: %w", e.Index, err)
		}
		if len(parts) == 0 {
			return nil
		}
		return apply(parts)
	})
}

// beyond counts the log's additions.
func (d *etcdDir) beyond(st *etcddata.Stats) string {
	last := max(d.log.Last(), d.file.Head.Index)
	s := fmt.Sprintf("as of index %d of its log, %d commands beyond the database", last, st.Commands)
	if n := int64(last) - int64(max(d.log.Committed, d.file.Head.Index)); n > 0 {
		s += fmt.Sprintf(", of which the last %d entries are not known to be committed", n)
	}
	return s
}

func importDataDir(c *cli.Call, dir, data, name, peer string) error {
	if err := cli.EmptyDir("import", data); err != nil {
		return err
	}
	d, err := openEtcdDir(dir)
	if err != nil {
		return err
	}
	defer d.file.Close()
	st, err := etcddata.Import(node.Config{Dir: data}, name, peer, d.file, d.tail, false)
	if err != nil {
		return fmt.Errorf("import %s: %w; remove %s and try again", dir, err, data)
	}
	fmt.Fprintf(c.Stdout, "%s: %s; other members may have later writes\n", dir, d.beyond(st))
	printImported(c, data, st)
	return nil
}

// SeveralMembers refuses the directory of one of several members: each would begin a cluster of its own.
func SeveralMembers(dir string) error {
	return fmt.Errorf("--data-dir %s is etcd's, of a cluster with several members: make one member's a new directory with "+
		"`holdfast import --from-data-dir %s --data DIR`, start it, and add the others with `etcdctl member add`", dir, dir)
}

// Adopt imports an etcd's data directory into a directory of ours in the same place. This program can then replace that etcd with the same
// flags. etcd's own files stay as they are. Of cfg it takes the directory and the memory.
func Adopt(cfg node.Config, name, peer string, log *slog.Logger) error {
	d, err := openEtcdDir(cfg.Dir)
	if err != nil {
		return err
	}
	defer d.file.Close()
	members := 0
	if err := d.file.Members(func(etcdfile.Member) error { members++; return nil }); err != nil {
		return err
	}
	if members > 1 {
		return SeveralMembers(cfg.Dir)
	}
	log.Info("taking over the data of an etcd; its files in member/ stay as they are and are not read again", "dir", cfg.Dir)
	st, err := etcddata.Import(node.Config{Dir: cfg.Dir, MemoryBytes: cfg.MemoryBytes}, name, peer, d.file, d.tail, true)
	if err != nil {
		return fmt.Errorf("--data-dir %s: take over etcd's data: %w; its files are as they were", cfg.Dir, err)
	}
	log.Info("took over the data of an etcd", "contents", imported(st), "log", d.beyond(st))
	return nil
}
