package node

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/clock"
	"github.com/holdfastdb/holdfast/disk"
	em "github.com/holdfastdb/holdfast/entry/member"
	"github.com/holdfastdb/holdfast/store"
)

// newborn is a machine that is to become a member: a disk that can lose its power, and a store that lives and dies with it.
type newborn struct {
	t     *testing.T
	fs    *disk.Mem
	store *store.Mem
}

func (b *newborn) config() Config {
	// Small segments: the disk is memory, and each of them is written in full when it is made.
	cfg := Config{FS: b.fs, Clock: &clock.Manual{}, Manual: true, Dir: "data", SegmentBytes: 64 << 10, Store: func(dir string) (store.Store, error) {
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
	}}
	cfg.defaults()
	return cfg
}

// become does what Start does on a directory, with the answers of the other members given: it makes an identity, and tells it
// to the world, makes the first state unless it is there, and opens.
func (b *newborn) become(tell func(id uint64), others []em.Member) error {
	cfg := b.config()
	ident, err := newIdentity(cfg.FS, cfg.Dir, "n1", "10.0.0.1:2380")
	if err != nil {
		return err
	}
	tell(ident.Member)
	if ident.Cluster == 0 {
		members := append([]em.Member{{ID: ident.Member, Name: "n1", PeerURLs: []string{"http://10.0.0.1:2380"}}}, others...)
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

// The power goes at every single step of becoming a member. The next start finishes it, under the id that was told to others, and
// what it makes is the state that the other members of the cluster made.
func TestPowerCutDuringBootstrap(t *testing.T) {
	t.Parallel()
	others := []em.Member{{ID: 2, Name: "n2", PeerURLs: []string{"http://10.0.0.2:2380"}}, {ID: 3, Name: "n3", PeerURLs: []string{"http://10.0.0.3:2380"}}}
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
