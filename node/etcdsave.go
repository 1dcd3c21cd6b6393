package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	ei "github.com/holdfastdb/holdfast/entry/ident"
	"github.com/holdfastdb/holdfast/etcdfile"
	mident "github.com/holdfastdb/holdfast/machine/ident"
	"github.com/holdfastdb/holdfast/machine/kv"
	"github.com/holdfastdb/holdfast/machine/member"
	"github.com/holdfastdb/holdfast/store"
)

// etcdSaveReserve is what a file under way leaves free on the disk: the log on the same disk must not run out of it.
const etcdSaveReserve = 256 << 20

// ErrNoRoom: the disk of the data directory is too full for a temporary file.
var ErrNoRoom = errors.New("no room in the data directory for a temporary file")

// etcdSaveDir is where a file for etcd is built. It is removed at the end, and at start after a crash.
func etcdSaveDir(dir string) string { return filepath.Join(dir, "etcd-snapshot") }

// EtcdFile is a finished database file of etcd's. Close removes it.
type EtcdFile struct {
	w    *etcdfile.Writer
	Size int64
	done func()
}

// WriteTo writes the file, Size bytes.
func (f *EtcdFile) WriteTo(w io.Writer) (int64, error) { return f.w.WriteTo(w) }

// Close removes the file and lets the next one begin.
func (f *EtcdFile) Close() error {
	defer f.done()
	return f.w.Close()
}

// EtcdFile builds a database file of etcd's (docs/formats/etcd-db.md) of this member's state at some applied index after the call
// began, storageVersion and clusterVersion being those it claims. It does not stop writes. There is one such file at a time: a
// second call waits for the first one's Close. Errors: ErrStopped, ErrNoRoom, ctx's, or the disk's, none of which ends the node.
func (n *Node) EtcdFile(ctx context.Context, storageVersion, clusterVersion string) (*EtcdFile, error) {
	select {
	case n.etcdSaves <- struct{}{}:
	case <-n.dead:
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := n.etcdFile(ctx, storageVersion, clusterVersion)
	if err != nil {
		<-n.etcdSaves
		return nil, err
	}
	return f, nil
}

func (n *Node) etcdFile(ctx context.Context, storageVersion, clusterVersion string) (_ *EtcdFile, err error) {
	v, info, err := n.viewNow(ctx)
	if err != nil {
		return nil, err
	}
	defer v.Close() // the file stands by itself: a slow reader of it does not hold the store's old tables
	w, err := etcdfile.Create(etcdSaveDir(n.cfg.Dir), func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-n.dead:
			return ErrStopped
		default:
		}
		free, err := n.fs.Free(n.cfg.Dir)
		if err == nil && free < etcdSaveReserve {
			err = fmt.Errorf("%w: %d MiB are free and %d MiB are left alone", ErrNoRoom, free>>20, etcdSaveReserve>>20)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make file for etcd: %w", err)
	}
	head := &etcdfile.Head{Index: info.Index, Term: info.Term, Voters: info.Conf.Voters, Learners: info.Conf.Learners,
		StorageVersion: storageVersion, ClusterVersion: clusterVersion}
	err = writeEtcd(w, v, head)
	f := &EtcdFile{w: w, done: func() { <-n.etcdSaves }}
	if err == nil {
		f.Size, err = w.Size()
	}
	if err != nil {
		w.Close() // the first error counts; what is left is removed at the next start
		return nil, fmt.Errorf("write file for etcd: %w", err)
	}
	return f, nil
}

// viewNow takes a View between two entries.
func (n *Node) viewNow(ctx context.Context) (store.View, *SnapshotInfo, error) {
	type got struct {
		v    store.View
		info SnapshotInfo
	}
	c := make(chan got, 1)
	n.later(func() error {
		c <- got{n.store.NewView(), SnapshotInfo{Cluster: n.ident.Cluster, Index: n.appliedIdx, Term: n.termApplied, Conf: n.rep.Conf()}}
		return nil
	})
	select {
	case g := <-c:
		return g.v, &g.info, nil
	case <-n.dead:
		return nil, nil, ErrStopped
	case <-ctx.Done():
		go func() { // the loop has the request already
			select {
			case g := <-c:
				g.v.Close()
			case <-n.dead:
			}
		}()
		return nil, nil, ctx.Err()
	}
}

// writeEtcd writes all that etcd knows the like of. Not in the file: v2 keys, which etcd keeps elsewhere, transparency logs, and
// tokens.
func writeEtcd(w *etcdfile.Writer, v store.Reader, head *etcdfile.Head) error {
	c, err := kv.ReadContents(v)
	if err != nil {
		return err
	}
	_, head.Compacted = c.Revision()
	if err := c.Kept(func(v *kv.Version) error { return w.Early(etcdChange(v)) }); err != nil {
		return err
	}
	if err := c.Changes(func(v *kv.Version) error { return w.Change(etcdChange(v)) }); err != nil {
		return err
	}
	if err := c.Leases(func(l kv.Lease) error { return w.Lease(&etcdfile.Lease{ID: l.ID, TTL: l.TTL}) }); err != nil {
		return err
	}
	alarms, err := c.Alarms()
	if err != nil {
		return err
	}
	for _, a := range alarms {
		if err := w.Alarm(&etcdfile.Alarm{Member: a.Member, Type: int32(a.Type)}); err != nil {
			return err
		}
	}
	if err := writeEtcdUsers(w, v, head); err != nil {
		return err
	}
	if err := writeEtcdMembers(w, v); err != nil {
		return err
	}
	return w.Finish(head)
}

func etcdChange(v *kv.Version) *etcdfile.Change {
	return &etcdfile.Change{Rev: v.KV.ModRevision, Sub: int64(v.Sub), Deleted: v.Deleted, Key: v.KV.Key, Value: v.KV.Value,
		CreateRev: v.KV.CreateRevision, Version: v.KV.Version, Lease: v.KV.Lease}
}

func writeEtcdUsers(w *etcdfile.Writer, v store.Reader, head *etcdfile.Head) error {
	s, err := mident.Read(v)
	if err != nil {
		return err
	}
	head.AuthOn, head.AuthRevision = s.Enabled, s.Revision
	for _, name := range s.Users() {
		u := s.User(name)
		if err := w.User(&etcdfile.User{Name: name, NoPassword: u.NoPassword, Password: u.Verifier(ei.Bcrypt), Roles: u.Roles}); err != nil {
			return err
		}
	}
	for _, name := range s.Roles() {
		r := etcdfile.Role{Name: name}
		for _, p := range s.Role(name).Permissions {
			r.Permissions = append(r.Permissions, etcdfile.Permission{Access: uint8(p.Access), Key: p.Key, End: p.End})
		}
		if err := w.Role(&r); err != nil {
			return err
		}
	}
	return nil
}

func writeEtcdMembers(w *etcdfile.Writer, v store.Reader) error {
	members, removed, err := member.Read(v)
	if err != nil {
		return err
	}
	for _, m := range members {
		err := w.Member(&etcdfile.Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.Learner})
		if err != nil {
			return err
		}
	}
	for _, id := range removed {
		if err := w.Removed(id); err != nil {
			return err
		}
	}
	return nil
}
