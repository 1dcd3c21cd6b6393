package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// archived is what a server says of its archive.
type archived struct {
	Applied uint64
	Cluster string
	Archive struct {
		To       string
		Archived uint64
		Entries  uint64 `json:"lag_entries"`
		Requests int64  `json:"requests"`
		Alarm    string
		Away     string
		Identity string
		Snapshot struct{ Index uint64 }
	}
}

func archiveOf(t *testing.T, r *running) (s archived) {
	t.Helper()
	if err := json.Unmarshal([]byte(says(t, "status", "--json", "--admin", r.adminAddr)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// upToDate waits until a server's archive has all that was applied.
func upToDate(t *testing.T, r *running) (s archived) {
	t.Helper()
	wait.Until(t, "the log is archived", func() bool {
		s = archiveOf(t, r)
		return s.Archive.Archived > 0 && s.Archive.Entries == 0
	})
	return s
}

// chainEnds follows an archive from a snapshot on, and returns the index of its last entry.
func chainEnds(t *testing.T, dir string, timeline, from uint64) uint64 {
	t.Helper()
	s := objstore.NewFile(dir)
	var tip format.Tip
	for next := from + 1; ; next = tip.Last + 1 {
		name := format.SpanName(timeline, next)
		b, err := s.Get(context.Background(), name)
		if err != nil {
			return next - 1
		}
		span, err := format.DecodeSpan(name, b)
		if err == nil && tip.Last > 0 {
			err = span.Follows(tip)
		}
		if err != nil {
			t.Fatal(err)
		}
		tip = span.Tip()
	}
}

// TestAServerShipsItsLog to a directory: writes appear there, an idle server asks nothing, and a restarted one continues where the archive
// ends. Operators see all that.
func TestAServerShipsItsLog(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), t.TempDir()
	flags := []string{"--archive", "file://" + dir, "--archive-interval", "50ms"}
	r := serveFlags(t, data, flags...)
	client := r.client(t, nil)
	put := func(n int) {
		t.Helper()
		for i := range n {
			if _, err := client.Put(timely(t), fmt.Sprint("key", i), strings.Repeat("x", 500)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(50)
	first := upToDate(t, r)
	timeline, err := strconv.ParseUint(first.Cluster, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	root := first.Archive.Snapshot.Index
	if end := chainEnds(t, dir, timeline, root); root == 0 || end != first.Archive.Archived || first.Archive.To != "file://"+dir {
		t.Errorf("the archive goes from %d to %d, %+v", root, end, first)
	}
	// Some intervals in which nothing was written: the cluster's level is, once.
	for end := time.Now().Add(wait.Limit(t)); ; {
		first = upToDate(t, r)
		time.Sleep(300 * time.Millisecond)
		idle := archiveOf(t, r)
		if idle.Applied == first.Applied {
			if idle.Archive.Requests != first.Archive.Requests {
				t.Errorf("an idle server has made %d requests", idle.Archive.Requests-first.Archive.Requests)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("a server without clients writes and writes")
		}
	}
	text := says(t, "status", "--admin", r.adminAddr)
	if !strings.Contains(text, "archive: file://"+dir+" has the log up to") || !strings.Contains(text, "requests this month, snapshot at") {
		t.Error(text)
	}
	res, err := http.Get("http://" + r.adminAddr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if want := fmt.Sprintf("holdfast_archive_archived_index %d\n", first.Archive.Archived); err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%v: no %s in the metrics", err, want)
	}

	r.stop()
	r = serveFlags(t, data, flags...)
	client = r.client(t, nil)
	put(20)
	again := upToDate(t, r)
	if end := chainEnds(t, dir, timeline, root); end != again.Archive.Archived || end < first.Applied+20 || again.Archive.Snapshot.Index != root {
		t.Errorf("after another start the archive goes from %d to %d, %+v", root, end, again)
	}
}

// TestACloneDoesNotShipIntoAnothersArchive: a copy of the data directory that goes its own way stops shipping, says why, and serves its
// clients on.
func TestACloneDoesNotShipIntoAnothersArchive(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), t.TempDir()
	flags := []string{"--archive", "file://" + dir, "--archive-interval", "20ms"}
	r := serveFlags(t, data, flags...)
	if _, err := r.client(t, nil).Put(timely(t), "a", "1"); err != nil {
		t.Fatal(err)
	}
	upToDate(t, r)
	r.stop()
	clone := copyDir(t, data)
	r = serveFlags(t, data, flags...)
	if _, err := r.client(t, nil).Put(timely(t), "a", "2"); err != nil {
		t.Fatal(err)
	}
	upToDate(t, r)
	c := serveFlags(t, clone, flags...)
	client := c.client(t, nil)
	if _, err := client.Put(timely(t), "a", "of the clone"); err != nil {
		t.Fatal(err)
	}
	var alarm string
	wait.Until(t, "the clone notices", func() bool {
		alarm = archiveOf(t, c).Archive.Alarm
		return alarm != ""
	})
	if !strings.Contains(alarm, "is of another history") {
		t.Error(alarm)
	}
	if text := says(t, "status", "--admin", c.adminAddr); !strings.Contains(text, "ARCHIVING HAS STOPPED: "+alarm) {
		t.Error(text)
	}
	if _, err := client.Put(timely(t), "a", "still served"); err != nil {
		t.Error(err)
	}
	if _, err := r.client(t, nil).Put(timely(t), "a", "3"); err != nil {
		t.Fatal(err)
	}
	if s := upToDate(t, r); s.Archive.Alarm != "" {
		t.Error(s.Archive.Alarm)
	}
}

// TestWhatWasAnsweredIsInTheArchive: with --ack archive the moment a write is answered is late enough to lose the machine. Nothing is waited
// for before it is restored, on the archive of a server that still runs.
func TestWhatWasAnsweredIsInTheArchive(t *testing.T) {
	t.Parallel()
	dir, to := t.TempDir(), t.TempDir()
	r := serveFlags(t, t.TempDir(), "--archive", "file://"+dir, "--archive-interval", "1h", "--ack", "archive")
	client := r.client(t, nil)
	for i := range 30 {
		if _, err := client.Put(timely(t), fmt.Sprint("key", i), fmt.Sprint("value", i)); err != nil {
			t.Fatal(err)
		}
	}
	says(t, "verify", "--from", "file://"+dir)
	says(t, "restore", "--from", "file://"+dir, "--data", to)
	restored := serveFlags(t, to)
	got, err := restored.client(t, nil).Get(timely(t), "key", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 30 {
		t.Errorf("%d of 30 keys were restored", len(got.Kvs))
	}
}
