package publish

import (
	"context"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
)

// watched is a store that is looked at as soon as it has a new checkpoint.
type watched struct {
	objstore.Store
	look func()
}

func (w watched) PutIfMatch(ctx context.Context, o objstore.Object, was string) (string, error) {
	version, err := w.Store.PutIfMatch(ctx, o, was)
	if o.Name == checkpointName {
		w.look()
	}
	return version, err
}

// TestTheCheckpointComesLast: a reader may come at the very moment a new checkpoint is there.
func TestTheCheckpointComesLast(t *testing.T) {
	m, memory, looked := newAlone(t, 1), objstore.NewMemory(), 0
	s := watched{memory, func() {
		looked++
		m.complete(memory)
	}}
	for _, n := range []int{1, 300, 5, 700} {
		m.grow(n, "entry")
		if err := m.publish(objects(s)); err != nil {
			t.Fatal(err)
		}
	}
	if looked != 4 {
		t.Errorf("%d checkpoints were put in 4 publications", looked)
	}
}
