package node

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/store"
)

// newborn is a machine that is to become a member. It has a disk that can lose its power, and a store that lives and dies with it.
type newborn struct {
	t     *testing.T
	fs    *disk.Mem
	store *store.Mem
}

func (b *newborn) config() Config {
	// Small segments: the disk is memory, and each of them is written in full when it is made.
	cfg := house(Config{FS: b.fs, Clock: &clock.Manual{}, Manual: true, Dir: "data", SegmentBytes: 64 << 10, Store: func(dir string) (store.Store, error) {
		mark := filepath.Join(dir, "mark") // the store is gone when its directory is
		switch _, err := b.fs.ReadFile(mark); {
		case err == nil:
			b.store = b.store.Crash()
		case errors.Is(err, fs.ErrNotExist):
			b.store = store.NewMem()
			if err := b.fs.MkdirAll(dir); err != nil {
				return nil, err
			}
			if err := b.fs.WriteFileAtomic(mark, nil); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
		return b.store, nil
	}})
	cfg.defaults()
	return cfg
}

// become does Start's part on a directory, with the answers of the other members given. It makes an identity and tells it to the world,
// makes the first state unless it is there, and opens.
func (b *newborn) become(tell func(id uint64), others []emember.Member) error {
	cfg := b.config()
	ident, err := cfg.newIdentity("n1", "10.0.0.1:2380")
	if err != nil {
		return err
	}
	tell(ident.Member)
	if ident.Cluster == 0 {
		members := append([]emember.Member{{ID: ident.Member, Name: "n1", PeerURLs: []string{"http://10.0.0.1:2380"}}}, others...)
		if err := initialise(&cfg, ident, clusterID(members), members); err != nil {
			return err
		}
	} else if err := ident.write(cfg.FS, cfg.Dir); err != nil {
		return err
	}
	n, err := Open(cfg)
	if err != nil {
		return err
	}
	n.Stop()
	return nil
}

// The power goes at every single step of becoming a member. The next start finishes it, under the id that was told to others, and makes the
// same state as the other members of the cluster.
func TestPowerCutDuringBootstrap(t *testing.T) {
	t.Parallel()
	others := []emember.Member{{ID: 2, Name: "n2", PeerURLs: []string{"http://10.0.0.2:2380"}}, {ID: 3, Name: "n3", PeerURLs: []string{"http://10.0.0.3:2380"}}}
	for cut := 0; ; cut++ {
		b := &newborn{t: t, fs: disk.NewMem(), store: store.NewMem()}
		b.fs.PowerOffAfter(cut)
		told := uint64(0)
		first := b.become(func(id uint64) { told = id }, others)
		if first != nil && !errors.Is(first, disk.ErrPowerOff) {
			t.Fatalf("cut %d: %v", cut, first)
		}
		var rng *rand.Rand
		if cut%2 == 1 {
			rng = rand.New(rand.NewPCG(uint64(cut), 0))
		}
		b.fs.Crash(rng)
		b.store = b.store.Crash()
		if err := b.become(func(id uint64) {
			if told != 0 && id != told {
				t.Fatalf("cut %d: it was told to others as %x and came back as %x", cut, told, id)
			}
			told = id
		}, others); err != nil {
			t.Fatalf("cut %d, then: %v", cut, err)
		}
		cfg := b.config()
		n, err := Open(cfg)
		if err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		if n.appliedIdx != 1 || len(n.rep.Conf().Voters) != 3 || len(n.Members()) != 3 || n.wal.LastIndex() != 1 {
			t.Fatalf("cut %d: applied %d, log ends at %d, %s of %d members", cut, n.appliedIdx, n.wal.LastIndex(), fmt.Sprint(n.rep.Conf()), len(n.Members()))
		}
		n.Stop()
		if first == nil {
			t.Logf("%d places", cut)
			return
		}
	}
}

// serve is a process on a machine of one member. It becomes that, writes key after key, and reports each acknowledged one, until it has
// written all or the power goes.
func (b *newborn) serve(cfg Config, keys []string, acknowledged func(key string)) (id, cluster uint64, err error) {
	ident, err := cfg.newIdentity("n1", "")
	if err != nil {
		return 0, 0, err
	}
	if ident.Cluster == 0 {
		err = alone(&cfg, ident)
	} else {
		err = ident.write(cfg.FS, cfg.Dir)
	}
	if err != nil {
		return 0, 0, err
	}
	n, err := Open(cfg)
	if err != nil {
		return 0, 0, err
	}
	defer n.Stop()
	n.rep.Campaign()
	turn := func(ok func() bool) error {
		for range 1000 {
			if err := n.Pump(); err != nil {
				return err
			}
			n.WriteStep()
			if ok() {
				return nil
			}
		}
		return errors.New("nothing moves")
	}
	if err := turn(func() bool { return n.pub.Load().leads != 0 }); err != nil {
		return 0, 0, err
	}
	for _, key := range keys {
		var o outcome
		if err := n.ProposeAsync(LaneKV, 0, []entry.Part{putPart(key, "held")}, func(r *entry.Result, err error) { o = outcome{true, r, err} }); err != nil {
			return 0, 0, err
		}
		if err := turn(func() bool { return o.done }); err != nil {
			return 0, 0, err
		}
		if o.err == nil {
			acknowledged(key)
		}
	}
	return n.id, n.identity.Cluster, n.look(b.t, keys)
}

// look is an error if a key is missing.
func (n *Node) look(t *testing.T, keys []string) error {
	for _, key := range keys {
		if v, _ := read(t, n, key); v != "held" {
			return fmt.Errorf("%s = %q", key, v)
		}
	}
	return nil
}

// The power goes at every single step of the first life of a member that makes its own directories. Once it has acknowledged anything, it
// is itself again with all of it.
func TestPowerCutKeepsTheMember(t *testing.T) {
	t.Parallel()
	for cut := 0; ; cut++ {
		for _, rng := range []*rand.Rand{nil, rand.New(rand.NewPCG(uint64(cut), 0))} {
			b := &newborn{t: t, fs: disk.NewMem(), store: store.NewMem()}
			cfg := b.config()
			cfg.Dir, cfg.WALDir = "/srv/holdfast/n1", "/fast/holdfast/n1/wal"
			b.fs.PowerOffAfter(cut)
			var held []string
			id, cluster, first := b.serve(cfg, []string{"a", "b"}, func(key string) { held = append(held, key) })
			b.fs.Crash(rng)
			b.store = b.store.Crash()
			if len(held) > 0 {
				was, err := ReadIdentity(cfg.FS, cfg.Dir)
				if err != nil || was.Cluster == 0 || id != 0 && (was.Member != id || was.Cluster != cluster) {
					t.Fatalf("cut %d: it acknowledged %q and came back as %+v, %v", cut, held, was, err)
				}
				n, err := Open(cfg)
				if err != nil {
					t.Fatalf("cut %d: %v", cut, err)
				}
				n.Stop()
			}
			again, _, err := b.serve(cfg, []string{"c"}, func(string) {})
			if err != nil || id != 0 && again != id {
				t.Fatalf("cut %d: member %x, then %x: %v", cut, id, again, err)
			}
			if _, _, err := b.serve(cfg, append(held, "c"), func(string) {}); err != nil {
				t.Fatalf("cut %d, acknowledged %q: %v", cut, held, err)
			}
			if first == nil {
				if rng == nil {
					continue
				}
				t.Logf("%d places", cut)
				return
			}
		}
	}
}
