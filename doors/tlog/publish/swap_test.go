package publish

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
)

// TestAnEmptiedPlaceIsPublishedAnew: its objects are removed between two publications, or while the log rests. No reader finds a checkpoint there
// before all that it covers.
func TestAnEmptiedPlaceIsPublishedAnew(t *testing.T) {
	for name, rests := range map[string]bool{"it grows": false, "it rests": true} {
		t.Run(name, func(t *testing.T) {
			m, memory := newAlone(t, 1), objstore.NewMemory()
			w := m.worker(objects(watched{memory, func() { m.complete(memory) }}))
			w.look = time.Hour
			if rests {
				w.look = 20 * time.Millisecond
			}
			var wg sync.WaitGroup
			wg.Go(w.Run)
			defer wg.Wait()
			defer m.Stop()
			l := m.logs.Find("default")
			published := func() bool {
				there, err := objects(memory).Held(context.Background(), l)
				return err == nil && there.Size == l.View().Size
			}
			m.grow(700, "entry")
			wait.Until(t, "it is published", published)
			if err := memory.DeleteAll(context.Background(), ""); err != nil {
				t.Fatal(err)
			}
			if !rests {
				m.grow(3, "entry")
			}
			wait.Until(t, "it is published anew", published)
			m.complete(memory)
		})
	}
}

// TestADirectoryThatWasUnmountedIsNotPublishedTo: nothing is made in what lies in its place, and publication goes on when it is back.
func TestADirectoryThatWasUnmountedIsNotPublishedTo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := newAlone(t, 1)
	place := objects(objstore.NewFile(dir))
	w, l := m.worker(place), m.logs.Find("default")
	m.grow(300, "entry")
	if err := w.publish(context.Background(), l, l.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]bool{"nothing is there": false, "an empty directory is there": true} {
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		if other {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		m.grow(100, "entry")
		if err := w.publish(context.Background(), l, l.Checkpoint()); !errors.Is(err, objstore.ErrSwapped) {
			t.Errorf("%s: %v", name, err)
		}
		if there, err := os.ReadDir(dir); len(there) != 0 || (err == nil) != other {
			t.Errorf("%s: there are %v, %v", name, there, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		if err := w.publish(context.Background(), l, l.Checkpoint()); err != nil {
			t.Errorf("%s, and then it is back: %v", name, err)
		}
		m.complete(objstore.NewFile(dir))
	}
}
