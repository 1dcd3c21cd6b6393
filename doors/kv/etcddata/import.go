package etcddata

import (
	"cmp"
	"fmt"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/machine"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/kv/etcdfile"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/budget"
)

// An import writes the store as a log with the same changes would have. The pieces are as large as an entry, so memory stays bounded.
const (
	importBytes = 2 << 20
	importRows  = 4096
)

// Stats counts an import's rows.
type Stats struct {
	Index               uint64 // of the log that begins with it
	Revision, Compacted int64
	Changes             int64 // versions and deletions
	Keys                int64 // that exist
	Leases              int64
	Users, Roles        int
	Commands            uint64 // applied from the log that followed
}

// Tail hands over what came after a file: commands in the order of a log. users and alarms are those in force before the next
// command.
type Tail func(users func() *mident.State, alarms func() []kvpart.AlarmState, apply func(parts []entry.Part) error) error

// importing is an import under way: machines over a new store, driven without a log.
type importing struct {
	kv     *kvmachine.Machine
	idents *mident.Machine
	a      *machine.Applier
	stats  Stats

	versions []kvmachine.Version
	leases   []kvmachine.Lease
	bytes    int
}

// Import builds a new one-member cluster in cfg.Dir, which must be empty, from a database file of etcd's. Keys keep their revisions,
// versions and history, so its clients can be pointed here. Leases start with their full time. peerAddr is where other members will reach
// this one, empty if none does. tail is the part of that etcd's log beyond the file; nil: nothing. beside allows etcd's own directory in
// cfg.Dir, which is left as it is.
func Import(cfg node.Config, name, peerAddr string, f *etcdfile.File, tail Tail, beside bool) (*Stats, error) {
	share := budget.Of(cmp.Or(cfg.MemoryBytes, budget.Small), kvmachine.Claims(true)...)
	cfg.Shares = &share
	in := &importing{kv: kvmachine.New(kvmachine.OptionsOf(share)), idents: mident.New()}
	making := node.Making{Name: name, PeerAddr: peerAddr, What: "the import of an etcd's data", BesideEtcd: beside}
	err := node.Make(cfg, making, func(st store.Store, self *emember.Member) (index, term uint64, err error) {
		in.a = machine.NewApplier(st, in.idents, in.kv)
		err = in.run(f, self)
		if err == nil && tail != nil {
			err = tail(in.idents.State, in.kv.Alarms, in.apply)
		}
		if err == nil {
			err = in.finish()
		}
		return in.stats.Index, firstTerm, err
	})
	if err != nil {
		return nil, fmt.Errorf("import into %s: %w", cfg.Dir, err)
	}
	return &in.stats, nil
}

// firstTerm is the term of the imported state, which had no leader.
const firstTerm = 1

// entry applies one entry whose effects are fill's.
func (in *importing) entry(fill func(b store.Batch) error) error {
	in.stats.Index++
	return in.a.ApplyWith(in.stats.Index, firstTerm, nil, fill, nil, nil)
}

func (in *importing) run(f *etcdfile.File, self *emember.Member) error {
	if err := in.a.Load(); err != nil {
		return err
	}
	err := in.entry(func(b store.Batch) error {
		node.FirstRows(b, *self)
		return in.catalogue(f, b)
	})
	if err != nil {
		return err
	}
	if err := f.Leases(in.lease); err != nil {
		return err
	}
	if err := f.Changes(in.change); err != nil {
		return err
	}
	err = in.entry(func(store.Batch) error {
		if err := in.take(); err != nil {
			return err
		}
		in.kv.TakeRevision(f.Revision, f.Head.Compacted)
		return f.Alarms(func(a etcdfile.Alarm) error {
			in.kv.TakeAlarm(kvpart.AlarmState{Member: a.Member, Type: kvpart.AlarmType(a.Type)})
			return nil
		})
	})
	return err
}

// apply applies a command of the log that follows the file. If it is refused here, etcd refused it too.
func (in *importing) apply(parts []entry.Part) error {
	in.stats.Commands++
	in.stats.Index++
	data := entry.AppendHeader(nil, entry.Header{})
	data = entry.AppendPacked(data, entry.AppendCommand(nil, &entry.Command{Origin: 1, Seq: in.stats.Commands, Term: firstTerm, Parts: parts}))
	return in.a.Apply(in.stats.Index, firstTerm, data, nil, nil)
}

// finish lets compaction end.
func (in *importing) finish() (err error) {
	for err == nil && in.a.Unfinished() {
		err = in.entry(nil)
	}
	in.stats.Revision, in.stats.Compacted = in.kv.Revision()
	in.stats.Keys = in.kv.Stats().Keys.Load()
	in.stats.Leases = int64(len(in.kv.Leases()))
	users := in.idents.State()
	in.stats.Users, in.stats.Roles = len(users.Users()), len(users.Roles())
	return err
}

// catalogue takes users and roles, which fit into memory.
func (in *importing) catalogue(f *etcdfile.File, b store.Batch) error {
	t := mident.Taken{Enabled: f.Head.AuthOn, Revision: f.Head.AuthRevision}
	err := f.Users(func(u etcdfile.User) error {
		to := &mident.User{Name: u.Name, NoPassword: u.NoPassword, Roles: u.Roles}
		if !u.NoPassword && len(u.Password) > 0 {
			to.Verifiers = []eident.Verifier{{Scheme: eident.Bcrypt, Data: u.Password}}
		}
		t.Users = append(t.Users, to)
		return nil
	})
	if err == nil {
		err = f.Roles(func(r etcdfile.Role) error {
			to := &mident.Role{Name: r.Name}
			for _, p := range r.Permissions {
				to.Permissions = append(to.Permissions, eident.Permission{Access: eident.Access(p.Access), Key: p.Key, End: p.End})
			}
			t.Roles = append(t.Roles, to)
			return nil
		})
	}
	if err != nil {
		return err
	}
	return in.idents.Take(&t, b)
}

func (in *importing) lease(l etcdfile.Lease) error {
	in.leases = append(in.leases, kvmachine.Lease{ID: l.ID, TTL: l.TTL})
	return in.full(64)
}

func (in *importing) change(c *etcdfile.Change) error {
	if len(c.Key) == 0 {
		return nil // etcdutl raised the revision here
	}
	in.stats.Changes++
	in.versions = append(in.versions, kvmachine.Version{Sub: uint32(c.Sub), Deleted: c.Deleted, KV: kvpart.KeyValue{Key: c.Key, Value: c.Value,
		CreateRevision: c.CreateRev, ModRevision: c.Rev, Version: c.Version, Lease: c.Lease}})
	return in.full(len(c.Key) + len(c.Value) + 100)
}

// full ends an entry when it is large enough.
func (in *importing) full(n int) error {
	if in.bytes += n; in.bytes < importBytes && len(in.versions)+len(in.leases) < importRows {
		return nil
	}
	return in.entry(func(store.Batch) error { return in.take() })
}

// take hands what has gathered to the machine.
func (in *importing) take() error {
	for _, l := range in.leases {
		in.kv.TakeLease(l)
	}
	for i := range in.versions {
		if err := in.kv.Take(&in.versions[i]); err != nil {
			return err
		}
	}
	clear(in.versions)
	in.leases, in.versions, in.bytes = nil, in.versions[:0], 0
	return nil
}
