package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/archive/restore"
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
)

// archivedServer writes some keys with the machines of this build. It returns the URL of an archive of that, the index of a snapshot in it,
// that of the eighth key, and the last index. The server has entries of its own among them, so that no index follows from another.
func archivedServer(t *testing.T) (url string, first, eighth, last uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	n, err := node.Start(ctx, all.Equip(node.Config{Dir: filepath.Join(t.TempDir(), "data")}), node.StartOptions{Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	for !n.Status().Ready {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		time.Sleep(time.Millisecond)
	}
	url = "file://" + filepath.Join(t.TempDir(), "archive")
	s, err := objstore.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	var snapshot bytes.Buffer
	if err := n.SaveSnapshot(ctx, &snapshot); err != nil {
		t.Fatal(err)
	}
	m, err := restore.Take(ctx, s, &snapshot, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		body := kvpart.Append(nil, &kvpart.Part{Put: &kvpart.Put{Key: fmt.Appendf(nil, "key%d", i), Value: []byte("value")}})
		done, err := n.Propose(ctx, 1, entry.Part{Machine: entry.MachineKV, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		if i == 7 {
			eighth = done.Pos.Index
		}
	}
	es, err := n.Committed(ctx, m.Index+1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	enc := format.NewEncoder(format.Tip{Cluster: m.Cluster, Timeline: m.Timeline, Last: m.Index, Term: m.Term}, 1<<20)
	for _, e := range es {
		if _, err := enc.Append(format.Entry(e)); err != nil {
			t.Fatal(err)
		}
	}
	last = es[len(es)-1].Index
	hash, known, err := n.StateHash(ctx, last)
	if err != nil || !known {
		t.Fatal(known, err)
	}
	name, b := enc.Finish(hash)
	if err := s.Put(ctx, objstore.Object{Name: name, Data: b}); err != nil {
		t.Fatal(err)
	}
	return url, m.Index, eighth, last
}

// TestAnArchiveFromTheCommandLine: proved, restored as of an entry with all that is changed listed, looked into, and named where it is damaged.
func TestAnArchiveFromTheCommandLine(t *testing.T) {
	url, first, eighth, last := archivedServer(t)
	status, out, errs := execute(nil, "verify", "--from", url, "--at", fmt.Sprint(eighth))
	if status != 0 || errs != "" || !strings.Contains(out, fmt.Sprintf("at index %d, ", eighth)) || !strings.Contains(out, fmt.Sprintf("restorable from index %d", first)) {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	status, out, errs = execute(nil, "restore", "--from", url, "--at", fmt.Sprint(eighth), "--data", dir, "--name", "r1")
	for _, want := range []string{fmt.Sprintf("holds 8 keys as of index %d", eighth), fmt.Sprintf("ends with index %d", last), "revision=1000000009 compacted=1000000009",
		"removed: member", "new: member", "name=r1", "holdfast serve --data " + dir} {
		if status != 0 || !strings.Contains(out, want) {
			t.Fatalf("%q is missing, status %d\n%s%s", want, status, out, errs)
		}
	}
	cfg := all.Equip(node.Config{Dir: dir})
	n, err := node.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Stop()
	if status, _, errs := execute(nil, "restore", "--from", url, "--data", dir); status != 1 || !strings.Contains(errs, "not empty") {
		t.Errorf("status %d: %s", status, errs)
	}
	root := strings.TrimPrefix(url, "file://")
	spans, err := filepath.Glob(filepath.Join(root, "*", fmt.Sprintf("%020d", first+1)))
	if err != nil || len(spans) != 1 {
		t.Fatal(spans, err)
	}
	name := strings.TrimPrefix(spans[0], root+"/")
	status, out, errs = execute(nil, "inspect", "archive", url, name, "--commands")
	if status != 0 || !strings.Contains(out, "kv.put") || !strings.Contains(out, fmt.Sprintf("entries %d@", first+1)) {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	if status, out, _ := execute(nil, "inspect", "archive", url, format.ManifestName(timelineOf(t, name), first)); status != 0 || !strings.Contains(out, "/pieces/") {
		t.Errorf("status %d\n%s", status, out)
	}
	b, err := os.ReadFile(spans[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(spans[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := execute(nil, "verify", "--from", url); status != 1 || !strings.Contains(out, "WRONG archive object "+name) {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	if status, _, errs := execute(nil, "restore", "--from", url, "--data", filepath.Join(t.TempDir(), "other")); status != 1 || !strings.Contains(errs, name) || strings.Count(errs, "\n") != 1 {
		t.Errorf("status %d: %s", status, errs)
	}
	if status, _, errs := execute(nil, "inspect", "archive", url, name); status != 1 || !strings.Contains(errs, "byte ") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestWhatARestoreRefusesCanBeFollowed: one line with the fault, the place and the remedy, and the remedy helps.
func TestWhatARestoreRefusesCanBeFollowed(t *testing.T) {
	url, first, _, _ := archivedServer(t)
	root := strings.TrimPrefix(url, "file://")
	follow := func(words []string, args ...string) {
		t.Helper()
		status, _, errs := execute(nil, args...)
		if status != 1 || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d: %s", strings.Join(args, " "), status, errs)
		}
		for _, w := range words {
			if !strings.Contains(errs, w) {
				t.Errorf("%s: %q is missing: %s", strings.Join(args, " "), w, errs)
			}
		}
	}
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }

	// A file in the way of the directory, a link to nowhere.
	if err := errors.Join(os.WriteFile(at("file"), nil, 0o600), os.Symlink(at("nowhere"), at("link"))); err != nil {
		t.Fatal(err)
	}
	follow([]string{"--data " + at("file"), "it is a file; give a directory"}, "restore", "--from", url, "--data", at("file"))
	follow([]string{"--data " + at("file/x"), at("file") + " is a file; give a directory"}, "restore", "--from", url, "--data", at("file/x"))
	follow([]string{"--data " + at("link"), "link to " + at("nowhere"), "make that directory or give another one"}, "restore", "--from", url, "--data", at("link"))
	// A missing parent is made.
	says(t, "restore", "--from", url, "--data", at("no/such/parent"), "--name", "r1")

	// A damaged span: what --at it says to give can be restored, in another directory than the one that was begun.
	damaged := copyDir(t, root)
	spans, err := filepath.Glob(filepath.Join(damaged, "*", fmt.Sprintf("%020d", first+1)))
	if err != nil || len(spans) != 1 {
		t.Fatal(spans, err)
	}
	if err := os.Truncate(spans[0], 40); err != nil {
		t.Fatal(err)
	}
	from := "file://" + damaged
	follow([]string{"archive object ", fmt.Sprintf("give --at %d and an empty --data", first)}, "restore", "--from", from, "--data", at("r1"), "--at", fmt.Sprint(first+1))
	upTo := fmt.Sprint(first)
	follow([]string{"another restore that did not end", "or another --data"}, "restore", "--from", from, "--data", at("r1"), "--at", upTo)
	says(t, "restore", "--from", from, "--data", at("r2"), "--at", upTo, "--name", "r1")
	follow([]string{"1 finding is wrong", "restore a state before them with --at"}, "verify", "--from", from)

	// No snapshot, because it is damaged or because there is none.
	manifests, err := filepath.Glob(filepath.Join(damaged, "*", "snapshot", "*"))
	if err != nil || len(manifests) != 1 {
		t.Fatal(manifests, err)
	}
	if err := os.Truncate(manifests[0], 0); err != nil {
		t.Fatal(err)
	}
	follow([]string{"2 findings are wrong", "no state can be restored; put good copies"}, "verify", "--from", from)
	if err := errors.Join(os.Remove(manifests[0]), os.Remove(spans[0])); err != nil {
		t.Fatal(err)
	}
	none := copyDir(t, root)
	if err := os.Remove(strings.Replace(manifests[0], damaged, none, 1)); err != nil {
		t.Fatal(err)
	}
	words := []string{"has no snapshot", "holdfast backup --to file://" + none + "` adds one"}
	follow(words, "verify", "--from", "file://"+none)
	follow(words, "restore", "--from", "file://"+none, "--data", at("r3"))
}

func timelineOf(t *testing.T, name string) uint64 {
	t.Helper()
	timeline, _, ok := format.ParseSpanName(name)
	if !ok {
		t.Fatal(name)
	}
	return timeline
}
