package scrub

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/meter"
)

// TestDamageIsToldAndKept: a good log is scrubbed in silence; a damaged one is logged, and noted for the worker that signs.
func TestDamageIsToldAndKept(t *testing.T) {
	st, logs := store.NewMem(), tlogmachine.New()
	rig := machinetest.Open(t, st, logs)
	key, err := tiles.NewSigner("log.example/x", bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	add := &tlogpart.Part{Kind: tlogpart.Append, Log: 1}
	for range 300 {
		add.Entries = tiles.AppendEntry(add.Entries, []byte("entry"))
	}
	for _, p := range []*tlogpart.Part{{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: "default", Key: *key.Verifier()}}, add} {
		rig.Must(entry.MachineTlog, tlogpart.AppendPart(nil, p))
	}
	var said bytes.Buffer
	w := &Worker{logs: logs, log: slog.New(slog.NewTextHandler(&said, nil)), meter: new(meter.Tlog)}
	l := logs.Find("default")
	w.once()
	if m := w.meter.Log("default"); m.ScrubDone.Load() != 300 || m.ScrubBad.Load() != 0 {
		t.Errorf("counted: %d entries, %d found damage", m.ScrubDone.Load(), m.ScrubBad.Load())
	}
	if l.Damage() != nil || strings.Contains(said.String(), "ERROR") {
		t.Fatalf("a good log: %v\n%s", l.Damage(), &said)
	}
	tile := []byte("th\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00") // level 0, the first
	row, ok, err := st.Get(nil, tile)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	row[100] ^= 1
	b := st.NewBatch()
	b.Set(tile, row)
	if err := st.Commit(b, st.Applied()); err != nil {
		t.Fatal(err)
	}
	w.once()
	if l.Damage() == nil || !strings.Contains(said.String(), "level 0, hash 3") {
		t.Errorf("a damaged log: %v\n%s", l.Damage(), &said)
	}
	if m := w.meter.Log("default"); m.ScrubBad.Load() != 1 || m.ScrubFailed.Load() != 0 || m.ScrubAll.Load() != 300 || m.ScrubEnded.Load() == 0 {
		t.Errorf("counted: %d found damage, %d failed, of %d entries, at %d", m.ScrubBad.Load(), m.ScrubFailed.Load(), m.ScrubAll.Load(), m.ScrubEnded.Load())
	}
}

// TestWhatIsPublishedIsScrubbed: what a place lacks is told, with what to do.
func TestWhatIsPublishedIsScrubbed(t *testing.T) {
	st, logs := store.NewMem(), tlogmachine.New()
	rig := machinetest.Open(t, st, logs)
	key, err := tiles.NewSigner("log.example/x", bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	rig.Must(entry.MachineTlog, tlogpart.AppendPart(nil, &tlogpart.Part{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: "default", Key: *key.Verifier()}}))
	var said bytes.Buffer
	bad, m := 2, new(meter.TlogPublish)
	w := &Worker{logs: logs, log: slog.New(slog.NewTextHandler(&said, nil)), meter: new(meter.Tlog), places: func(log string) []Place {
		return []Place{{Name: "file:///srv/log", Meter: m, Check: func(_ context.Context, l *tlogmachine.Log, pace func() error) (int, string, error) {
			return bad, "tile/entries/003 is missing", pace()
		}}}
	}}
	w.once()
	if m.Bad.Load() != 2 || !strings.Contains(said.String(), "tlog republish") || !strings.Contains(said.String(), "tile/entries/003 is missing") {
		t.Errorf("%d, it says %s", m.Bad.Load(), &said)
	}
	bad = 0
	said.Reset()
	w.once()
	if m.Bad.Load() != 0 || strings.Contains(said.String(), "ERROR") {
		t.Errorf("%d, it says %s", m.Bad.Load(), &said)
	}
}
