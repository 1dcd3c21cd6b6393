package node

import (
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
)

// separating is a store that says whether values are kept apart.
type separating struct {
	store.Store
	asked atomic.Int64
}

func (s *separating) SeparateValues() error {
	s.asked.Add(1)
	return s.Store.SeparateValues()
}

// TestValuesAreKeptApartFromTheirLevelOn: not by a build that knows of it, but once the cluster is at the level; then at every start.
func TestValuesAreKeptApartFromTheirLevelOn(t *testing.T) {
	dir := t.TempDir()
	var st *separating
	noted := func(cfg *Config) {
		cfg.Store = func(dir string) (store.Store, error) {
			s, err := store.Open(dir, store.Options{})
			st = &separating{Store: s}
			return st, err
		}
	}
	n := startAlone(t, dir, noted)
	for level := uint16(1); level <= ValuesLevel; level++ {
		if st.asked.Load() != 0 {
			t.Fatalf("values are kept apart at level %d", n.ClusterLevel())
		}
		if res, err := n.Propose(within(t), LaneSystem, raise(level, n.id)); err != nil || res.Rejection != nil {
			t.Fatal(err, res)
		}
	}
	await(t, "values are kept apart", func() bool { return st.asked.Load() == 1 }) // the command is answered before
	n.Stop()
	n = startAlone(t, dir, noted)
	if st.asked.Load() != 1 {
		t.Fatalf("asked %d times after a restart at level %d", st.asked.Load(), n.ClusterLevel())
	}
}
