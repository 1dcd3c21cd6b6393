// Package etcddata carries an etcd's data into a member and a member's out to an etcd. It fills a new data directory from etcd's files, and
// writes the file that `etcdctl snapshot save` gets. Keys keep their revisions both ways. It is not the format of those files (etcdfile),
// and it moves nothing while an etcd runs (`holdfast import` from endpoints does).
package etcddata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/disk"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	mmember "github.com/holdfastdb/holdfast/core/machine/member"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/kv/etcdfile"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
)

// saveReserve is the free space that a file under way leaves on the disk. The log on the same disk must not run out of it.
const saveReserve = 256 << 20

// ErrNoRoom: the disk of the data directory is too full for a temporary file.
var ErrNoRoom = errors.New("no room in the data directory for a temporary file")

// Scratch is where a file for etcd is built, below the data directory. It is removed at the end, and at start after a crash
// (node.Config.Scratch).
const Scratch = "etcd-snapshot"

// Saver builds files for etcd, one at a time. Safe for concurrent use.
type Saver struct {
	node member
	fs   disk.FS
	dir  string
	busy chan struct{} // holds a token while a file is made or read
}

// member is a Saver's view of its node.
type member interface {
	SnapshotView(ctx context.Context) (store.View, *node.SnapshotInfo, error)
	StoppedC() <-chan struct{}
}

// NewSaver returns the Saver of the member whose data lies in dir. fs nil means the real one.
func NewSaver(n *node.Node, fs disk.FS, dir string) *Saver {
	if fs == nil {
		fs = disk.OS()
	}
	return &Saver{node: n, fs: fs, dir: dir, busy: make(chan struct{}, 1)}
}

// File is a finished database file of etcd's. Close removes it.
type File struct {
	w    *etcdfile.Writer
	Size int64
	done func()
}

// WriteTo writes the file, Size bytes.
func (f *File) WriteTo(w io.Writer) (int64, error) { return f.w.WriteTo(w) }

// Close removes the file and lets the next one begin.
func (f *File) Close() error {
	defer f.done()
	return f.w.Close()
}

// Save builds a database file of etcd's (docs/formats/etcd-db.md) of this member's state, at an applied index after the call began. The
// file claims storageVersion and clusterVersion. It does not stop writes. There is one such file at a time: a second call waits for the
// first one's Close. Errors: node.ErrStopped, ErrNoRoom, ctx's, or the disk's, none of which ends the node.
func (s *Saver) Save(ctx context.Context, storageVersion, clusterVersion string) (*File, error) {
	select {
	case s.busy <- struct{}{}:
	case <-s.node.StoppedC():
		return nil, node.ErrStopped
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := s.save(ctx, storageVersion, clusterVersion)
	if err != nil {
		<-s.busy
		return nil, err
	}
	return f, nil
}

func (s *Saver) save(ctx context.Context, storageVersion, clusterVersion string) (_ *File, err error) {
	v, info, err := s.node.SnapshotView(ctx)
	if err != nil {
		return nil, err
	}
	defer v.Close() // so that a slow reader of the file does not keep the store's old tables
	w, err := etcdfile.Create(filepath.Join(s.dir, Scratch), func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-s.node.StoppedC():
			return node.ErrStopped
		default:
		}
		free, err := s.fs.Free(s.dir)
		if err == nil && free < saveReserve {
			err = fmt.Errorf("%w: %d MiB are free and %d MiB are left alone", ErrNoRoom, free>>20, saveReserve>>20)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make file for etcd: %w", err)
	}
	head := &etcdfile.Head{Index: info.Index, Term: info.Term, Voters: info.Conf.Voters, Learners: info.Conf.Learners,
		StorageVersion: storageVersion, ClusterVersion: clusterVersion}
	err = write(w, v, head)
	f := &File{w: w, done: func() { <-s.busy }}
	if err == nil {
		f.Size, err = w.Size()
	}
	if err != nil {
		w.Close() // the first error counts; leftovers are removed at the next start
		return nil, fmt.Errorf("write file for etcd: %w", err)
	}
	return f, nil
}

// write writes everything that an etcd has too. Not in the file: v2 keys, which etcd keeps elsewhere, transparency logs, and
// tokens.
func write(w *etcdfile.Writer, v store.Reader, head *etcdfile.Head) error {
	c, err := kvmachine.ReadContents(v)
	if err != nil {
		return err
	}
	_, head.Compacted = c.Revision()
	if err := c.Kept(func(v *kvmachine.Version) error { return w.Early(change(v)) }); err != nil {
		return err
	}
	if err := c.Changes(func(v *kvmachine.Version) error { return w.Change(change(v)) }); err != nil {
		return err
	}
	if err := c.Leases(func(l kvmachine.Lease) error { return w.Lease(&etcdfile.Lease{ID: l.ID, TTL: l.TTL}) }); err != nil {
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
	if err := writeUsers(w, v, head); err != nil {
		return err
	}
	if err := writeMembers(w, v); err != nil {
		return err
	}
	return w.Finish(head)
}

func change(v *kvmachine.Version) *etcdfile.Change {
	return &etcdfile.Change{Rev: v.KV.ModRevision, Sub: int64(v.Sub), Deleted: v.Deleted, Key: v.KV.Key, Value: v.KV.Value,
		CreateRev: v.KV.CreateRevision, Version: v.KV.Version, Lease: v.KV.Lease}
}

func writeUsers(w *etcdfile.Writer, v store.Reader, head *etcdfile.Head) error {
	s, err := mident.Read(v)
	if err != nil {
		return err
	}
	head.AuthOn, head.AuthRevision = s.Enabled, s.Revision
	for _, name := range s.Users() {
		u := s.User(name)
		if err := w.User(&etcdfile.User{Name: name, NoPassword: u.NoPassword, Password: u.Verifier(eident.Bcrypt), Roles: u.Roles}); err != nil {
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

func writeMembers(w *etcdfile.Writer, v store.Reader) error {
	members, removed, err := mmember.Read(v)
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
