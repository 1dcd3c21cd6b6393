package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/wal"
)

// contents are the files below dir with what is in them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range filesIn(t, dir) {
		b, err := os.ReadFile(name)
		if err != nil {
			b = []byte("a directory")
		}
		all[name] = string(b)
	}
	return all
}

// addTail appends another leader's last entries: this member has synced them and does not know that they are committed.
func addTail(t *testing.T, cfg Config, entries func(first, term uint64) []wal.Entry) (first, last uint64) {
	t.Helper()
	w, err := wal.Open(disk.OS(), cfg.walDir(), wal.Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	first = w.LastIndex() + 1
	list := entries(first, w.HardState().Term)
	if err := errors.Join(w.Append(wal.Batch{Entries: list}), w.Sync()); err != nil {
		t.Fatal(err)
	}
	return first, w.LastIndex()
}

func putEntry(index, term uint64, key, value string) wal.Entry {
	b := entry.AppendHeader(nil, entry.Header{WallNs: 1 << 61, TickMs: 1 << 40})
	b = entry.AppendPacked(b, entry.AppendCommand(nil, &entry.Command{Origin: 7, Seq: index, Term: term, Parts: []entry.Part{putPart(key, value)}}))
	return wal.Entry{Index: index, Term: term, Data: b}
}

// A stopped member is saved with the whole of its log, in which members come and go, and its directory stays as it is.
func TestStoppedMemberIsSavedWithItsWholeLog(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"no change", "others change", "itself removed"} {
		removed := name == "itself removed"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := leftBehind(t)
			ident, err := ReadIdentity(disk.OS(), cfg.Dir)
			if err != nil {
				t.Fatal(err)
			}
			change := func(index, term uint64, c raft.Change, part emember.Part) wal.Entry {
				b := entry.AppendHeader(nil, entry.Header{WallNs: 1 << 61, TickMs: 1 << 40})
				b = entry.AppendPacked(b, entry.AppendCommand(nil, &entry.Command{Origin: 7, Seq: index, Term: term,
					Parts: []entry.Part{{Machine: entry.MachineMember, Body: emember.AppendPart(nil, &part)}}}))
				kind := map[raft.ChangeKind]raftpb.ConfChangeType{raft.AddVoter: raftpb.ConfChangeAddNode, raft.Remove: raftpb.ConfChangeRemoveNode}[c.Kind]
				data, err := proto.Marshal(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: kind.Enum(), NodeId: &c.ID}}, Context: b})
				if err != nil {
					t.Fatal(err)
				}
				return wal.Entry{Index: index, Term: term, Type: uint8(raftpb.EntryConfChangeV2), Data: data}
			}
			_, last := addTail(t, cfg, func(first, term uint64) []wal.Entry {
				list := []wal.Entry{putEntry(first, term, "tail", "1"), putEntry(first+1, term, "k", "2")}
				if name == "no change" {
					return append(list, putEntry(first+2, term, "end", "3"))
				}
				list = []wal.Entry{list[0],
					change(first+1, term, raft.Change{Kind: raft.AddVoter, ID: 99}, emember.Part{Add: &emember.Add{Member: emember.Member{ID: 99, PeerURLs: []string{"http://10.0.0.9:2380"}}}}),
					putEntry(first+2, term, "k", "2")}
				if removed {
					list = append(list, change(first+3, term, raft.Change{Kind: raft.Remove, ID: ident.Member}, emember.Part{Remove: &emember.Remove{ID: ident.Member}}))
				}
				return append(list, putEntry(first+uint64(len(list)), term, "end", "3"))
			})
			before := contents(t, filepath.Dir(cfg.Dir))
			var file bytes.Buffer
			found, err := SaveStopped(cfg, &file)
			if err != nil {
				t.Fatal(err)
			}
			if found.Last != last || found.Committed >= last-2 || found.Committed == 0 || found.Member != ident.Member || found.Removed != removed {
				t.Errorf("%+v, the log ends at %d", found, last)
			}
			after := contents(t, filepath.Dir(cfg.Dir))
			for name, was := range before {
				if after[name] != was {
					t.Errorf("%s has changed", name)
				}
			}
			if len(after) != len(before) {
				t.Errorf("there were %d files and are %d", len(before), len(after))
			}
			again := house(Config{Dir: filepath.Join(t.TempDir(), "again")})
			if _, err := Restore(again, "n1", "", bytes.NewReader(file.Bytes())); err != nil {
				t.Fatal(err)
			}
			n := startAlone(t, again.Dir, nil)
			for key, want := range map[string]string{"k": "2", "tail": "1", "end": "3"} {
				if v, _ := read(t, n, key); v != want {
					t.Errorf("%s = %q, want %q", key, v, want)
				}
			}
			if c := n.pub.Load().conf; len(c.Voters) != 1 || len(n.Members()) != 1 {
				t.Errorf("it is restored with %v", c)
			}
		})
	}
}

// A tail that was never synced is cut; damage before it is refused by file and offset, and so is a directory in use.
func TestStoppedMemberIsJudgedAsAtAStart(t *testing.T) {
	t.Parallel()
	cfg := leftBehind(t)
	_, last := addTail(t, cfg, func(first, term uint64) (list []wal.Entry) {
		for i := range uint64(20) {
			list = append(list, putEntry(first+i, term, fmt.Sprint(i), "1"))
		}
		return list
	})
	segments, err := filepath.Glob(filepath.Join(cfg.WALDir, "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatal(err)
	}
	sum, err := wal.Inspect(disk.OS(), cfg.WALDir, func(wal.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte, off int64) {
		t.Helper()
		f, err := os.OpenFile(sum.EndFile, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	write([]byte("half a record"), sum.EndOffset)
	found, err := SaveStopped(cfg, &bytes.Buffer{})
	if err != nil || found.Last != last {
		t.Fatalf("a torn tail: %+v, %v", found, err)
	}

	lock, err := disk.OS().Lock(filepath.Join(cfg.Dir, "LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := SaveStopped(cfg, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "in use by a running server") {
		t.Fatalf("a running server: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}

	var synced []wal.Record
	if _, err := wal.Inspect(disk.OS(), cfg.WALDir, func(r wal.Record) error { synced = append(synced, r); return nil }); err != nil {
		t.Fatal(err)
	}
	hole := slices.IndexFunc(synced, func(r wal.Record) bool { return !r.SegmentStart })
	write([]byte{0xff}, synced[hole].Offset+20)
	before := contents(t, cfg.WALDir)
	_, err = SaveStopped(cfg, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), sum.EndFile) || !strings.Contains(err.Error(), fmt.Sprint(synced[hole].Offset)) {
		t.Fatalf("damage at %d of %s: %v", synced[hole].Offset, sum.EndFile, err)
	}
	for name, was := range contents(t, cfg.WALDir) {
		if before[name] != was {
			t.Errorf("%s has changed", name)
		}
	}
	if names := strings.Join(filesIn(t, cfg.Dir), " "); strings.Contains(names, "snapshot-save") {
		t.Errorf("left behind: %s", names)
	}
}
