package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
)

// alone is a member that leads in term 1, with a log it changes without one.
type alone struct {
	*workertest.Member
	t    *testing.T
	logs *tlogmachine.Machine
	rig  *machinetest.Rig
	key  *tiles.Signer
}

func newAlone(t *testing.T, seed byte) *alone {
	t.Helper()
	m := &alone{Member: workertest.New(), t: t, logs: tlogmachine.New()}
	m.Lead(1)
	m.rig = machinetest.Open(t, store.NewMem(), m.logs)
	var err error
	if m.key, err = tiles.NewSigner("log.example/x", bytes.Repeat([]byte{seed}, 32)); err != nil {
		t.Fatal(err)
	}
	m.do(&tlogpart.Part{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: "default", Key: *m.key.Verifier()}})
	return m
}

func (m *alone) do(p *tlogpart.Part) {
	m.t.Helper()
	m.rig.Must(entry.MachineTlog, tlogpart.AppendPart(nil, p))
}

// grow adds entries and signs the new size.
func (m *alone) grow(n int, text string) {
	m.t.Helper()
	l := m.logs.Find("default")
	for n > 0 {
		p := &tlogpart.Part{Kind: tlogpart.Append, Log: 1}
		some := min(n, tlogpart.MaxEntries)
		for i := range some {
			p.Entries = tiles.AppendEntry(p.Entries, fmt.Appendf(nil, "%s %d", text, int(l.View().Size)+i))
		}
		m.do(p)
		n -= some
	}
	v := l.View()
	note := &tiles.Note{Text: (&tiles.Checkpoint{Origin: "log.example/x", Size: v.Size, Root: v.Root}).Text()}
	m.key.Sign(note)
	m.do(&tlogpart.Part{Kind: tlogpart.Checkpoint, Checkpoints: []tlogpart.Signed{{Log: 1, Size: v.Size, Root: v.Root, Note: note.Append(nil)}}})
}

func (m *alone) worker(p Place) *Worker {
	return &Worker{node: m, logs: m.logs, target: Target{Log: "default", Name: "there", Place: p, Meter: new(meter.TlogPublish)}, log: slog.New(slog.DiscardHandler), look: look}
}

// publish brings the place up to date, as a worker that has just begun to lead.
func (m *alone) publish(p Place) error {
	l := m.logs.Find("default")
	return m.worker(p).publish(context.Background(), l, l.Checkpoint())
}

// objects is a place of objects that may be written to at any time.
func objects(s objstore.Store) *Objects { return NewObjects(s, least) }

// complete checks that everything the published checkpoint promises is there, with the log's own bytes.
func (m *alone) complete(s objstore.Store) {
	m.t.Helper()
	ctx := context.Background()
	note, err := s.Get(ctx, "checkpoint")
	if err != nil {
		m.t.Fatal(err)
	}
	c, _, err := tiles.OpenCheckpoint(note, m.key.Verifier())
	if err != nil {
		m.t.Fatal(err)
	}
	l := m.logs.Find("default")
	for level := tiles.EntryLevel; level < 3; level++ {
		have := c.Size >> (8 * max(level, 0))
		for n := uint64(0); n*256 < have; n++ {
			r := tiles.Ref{Level: level, N: n, Width: int(min(have-n*256, 256))}
			want, err := read(l, r)
			if err != nil {
				m.t.Fatal(err)
			}
			if got, err := s.Get(ctx, r.Path()); err != nil || !bytes.Equal(got, want) {
				m.t.Errorf("at size %d: %s has %d bytes, want %d (%v)", c.Size, r.Path(), len(got), len(want), err)
			}
		}
	}
}

// TestEveryPublicationIsComplete grows a log by odd numbers, with a crash of the worker before each publication, and publishes to
// memory, a directory and a bucket. In the end all three hold the same paths and bytes.
func TestEveryPublicationIsComplete(t *testing.T) {
	dir := t.TempDir()
	memory, bucket := objstore.NewMemory(), newBucket(t)
	m, places := newAlone(t, 1), []objstore.Store{memory, objstore.NewFile(dir), bucket.store("log/x")}
	for _, n := range []int{1, 3, 251, 1, 1, 700, 256, 43, 3000, 300} {
		m.grow(n, "entry")
		for _, s := range places {
			if err := m.publish(objects(s)); err != nil {
				t.Fatal(err)
			}
			m.complete(s)
		}
	}
	want := memory.Objects()
	for name := range want {
		if strings.Contains(name, "tile/0/000.p/") {
			t.Errorf("%s stays although the full tile is there", name)
		}
	}
	for what, there := range map[string]map[string][]byte{"directory": files(t, dir), "bucket": bucket.objects("log/x/")} {
		if !maps.EqualFunc(there, want, bytes.Equal) {
			t.Errorf("the %s holds %v, memory %v", what, slices.Sorted(maps.Keys(there)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// TestAnInterruptedPublicationGoesOn: what fails halfway shows no new checkpoint, and is finished later.
func TestAnInterruptedPublicationGoesOn(t *testing.T) {
	m, s := newAlone(t, 1), objstore.NewMemory()
	m.grow(300, "entry")
	w := m.worker(objects(s))
	l := m.logs.Find("default")
	if err := w.publish(context.Background(), l, l.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	m.grow(20000, "entry")
	broken := errors.New("the place is gone")
	s.Fail(broken)
	if err := w.publish(context.Background(), l, l.Checkpoint()); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	s.Fail(nil)
	m.complete(s) // as of 300
	if err := w.publish(context.Background(), l, l.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	m.complete(s)
	if there, err := objects(s).Held(context.Background(), l); err != nil || there.Size != 20300 {
		t.Error(there, err)
	}
}

// TestAPublicationThatRecoversSaysSo, once, as its failure is told of once.
func TestAPublicationThatRecoversSaysSo(t *testing.T) {
	m, s := newAlone(t, 1), objstore.NewMemory()
	m.grow(10, "entry")
	var lines bytes.Buffer
	w := m.worker(objects(s))
	w.log = slog.New(slog.NewTextHandler(&lines, nil))
	ctx := context.Background()
	w.turn(ctx)
	if lines.Len() > 0 {
		t.Errorf("one that works says:\n%s", &lines)
	}
	m.grow(10, "entry")
	s.Fail(errors.New("the place is gone"))
	for range 3 {
		w.turn(ctx) // the second one cannot read the place, which is another line
	}
	s.Fail(nil)
	w.turn(ctx)
	m.grow(10, "entry")
	w.turn(ctx)
	if text := lines.String(); strings.Count(text, "publication failed") != 2 || strings.Count(text, "publication goes on") != 1 ||
		strings.Index(text, "goes on") < strings.Index(text, "failed") {
		t.Errorf("it says:\n%s", text)
	}
}

// TestForeignPlacesAreLeftAlone: another key's log, a longer one, and one that went another way.
func TestForeignPlacesAreLeftAlone(t *testing.T) {
	m := newAlone(t, 1)
	m.grow(300, "entry")
	for name, other := range map[string]*alone{"another key": newAlone(t, 2), "a longer log": newAlone(t, 1), "another history": newAlone(t, 1)} {
		s := objstore.NewMemory()
		switch name {
		case "another history":
			other.grow(200, "something else")
		case "a longer log":
			other.grow(400, "entry")
		default:
			other.grow(200, "entry")
		}
		if err := other.publish(objects(s)); err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprint(s.Objects())
		if err := m.publish(objects(s)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		if fmt.Sprint(s.Objects()) != before {
			t.Errorf("%s: something was written", name)
		}
	}
}

// TestTheWorkerFollowsItsLog, and stops with its member.
func TestTheWorkerFollowsItsLog(t *testing.T) {
	m, s := newAlone(t, 1), objstore.NewMemory()
	w := m.worker(objects(s))
	var wg sync.WaitGroup
	wg.Go(w.Run)
	l := m.logs.Find("default")
	for i := range 3 {
		m.grow(100*i+1, "entry")
		for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(5 * time.Millisecond) {
			if there, err := objects(s).Held(context.Background(), l); err == nil && there.Size == l.View().Size {
				break
			}
			if time.Now().After(end) {
				t.Fatal("not published in 5 s")
			}
		}
	}
	m.Stop()
	wg.Wait()
	m.complete(s)
}
