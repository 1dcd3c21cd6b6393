package machine

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// TestCheckpoints: only notes that are about this log's own tree and verify are published; one about another tree stops the
// node.
func TestCheckpoints(t *testing.T) {
	r := newRig(t)
	l, s := r.create("default", false, false)
	other := signer(t, "log.example/elsewhere")
	code := func(c ...tlogpart.Signed) entry.Code {
		t.Helper()
		if rej := r.apply(checkpointOf(c...))[0].Rejection; rej != nil {
			return rej.Code
		}
		return 0
	}
	_, first := l.Newest()
	if got := code(sign(l, s)); got != 0 {
		t.Fatalf("of size 0: %d", got)
	}
	<-first
	if c, _ := l.Newest(); c == nil || c.Size != 0 {
		t.Fatalf("newest: %+v", c)
	}
	if got := code(sign(l, s)); got != tlogpart.StaleCheckpoint {
		t.Errorf("of the same size again: %d", got)
	}
	r.add(l, texts(0, 300)...)
	early := sign(l, s)
	r.add(l, texts(300, 300)...)
	late := sign(l, s)
	wrong := late
	wrong.Note = signAs(l, other, late.Size, late.Root).Note
	if got := code(wrong); got != tlogpart.BadSignature {
		t.Errorf("with another key: %d", got)
	}
	wrong.Note = early.Note
	if got := code(wrong); got != tlogpart.BadSignature {
		t.Errorf("with the note of another size: %d", got)
	}
	if got := code(early, early); got != tlogpart.MalformedPart {
		t.Errorf("twice in one part: %d", got)
	}
	if got := code(tlogpart.Signed{Log: 9, Note: late.Note}); got != tlogpart.UnknownLog {
		t.Errorf("of no log: %d", got)
	}
	r.reopen() // the roots of the last entries are not in memory now
	l = r.m.Find("default")
	if got := code(early); got != 0 {
		t.Errorf("of an earlier size: %d", got)
	}
	if got := code(late); got != 0 {
		t.Errorf("of the newest size: %d", got)
	}
	if got := code(early); got != tlogpart.StaleCheckpoint {
		t.Errorf("of an earlier size after it: %d", got)
	}
	if c := l.Checkpoint(); c.Size != 600 || !bytes.Equal(c.Note, late.Note) {
		t.Errorf("newest: %+v", c)
	}

	r.add(l, text(600))
	_, err := r.Try(commands(checkpointOf(signAs(l, s, 601, tiles.Hash{1})))...)
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), l.View().Root.String()) {
		t.Errorf("of another root: %v", err)
	}
}

// TestRestoredLogsAreHeld: a restored log takes nothing until the checkpoint it was last seen with is shown to be a prefix.
func TestRestoredLogsAreHeld(t *testing.T) {
	r := newRig(t)
	l, s := r.create("default", false, false)
	r.add(l, texts(0, 500)...)
	at500 := l.View().Root

	r.add(l, texts(500, 400)...)
	at900 := l.View().Root

	// The snapshot was taken at 500: build that state again, row by row, as a restore does.
	first := newRig(t)
	fl, _ := first.create("default", false, false)
	first.add(fl, texts(0, 500)...)
	copied := store.NewMem()
	b := copied.NewBatch()
	err := scan(first.Store, []byte{letter}, func(k, v []byte) error {
		key := append([]byte{letter}, k...)
		v, _, err := Spec.Restore(key, v)
		b.Set(key, v)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := copied.Commit(b, 1); err != nil {
		t.Fatal(err)
	}
	h := openRig(t, copied)
	hl := h.m.Find("default")
	if !hl.Held() {
		t.Fatal("it is not held")
	}
	code := func(p *tlogpart.Part) entry.Code {
		t.Helper()
		if rej := h.apply(p)[0].Rejection; rej != nil {
			return rej.Code
		}
		return 0
	}
	if got := code(batch(hl, text(1))); got != tlogpart.LogHeld {
		t.Errorf("an add: %d", got)
	}
	if got := code(checkpointOf(sign(hl, s))); got != tlogpart.LogHeld {
		t.Errorf("a checkpoint: %d", got)
	}
	if got := code(&tlogpart.Part{Kind: tlogpart.Resume, Log: 1, Size: 900, Root: at900}); got != tlogpart.NotPrefix {
		t.Errorf("resume with the checkpoint of 900: %d", got)
	}
	if got := code(&tlogpart.Part{Kind: tlogpart.Resume, Log: 1, Size: 500, Root: at900}); got != tlogpart.NotPrefix {
		t.Errorf("resume with another root: %d", got)
	}
	if got := code(&tlogpart.Part{Kind: tlogpart.Resume, Log: 1, Size: 500, Root: at500}); got != 0 || hl.Held() {
		t.Errorf("resume with the checkpoint of 500: %d", got)
	}
	h.reopen()
	if hl = h.m.Find("default"); hl.Held() {
		t.Error("it is held again after a restart")
	}
	if got := code(batch(hl, text(1))); got != 0 {
		t.Errorf("an add afterwards: %d", got)
	}
}
