package kv_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/door/ack"
	"github.com/holdfastdb/holdfast/door/ack/acktest"
	doorkv "github.com/holdfastdb/holdfast/door/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// at returns a context whose calls ask for a level.
func at(level string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), ack.Metadata, level)
}

// archiving serves a member whose shipper is the test.
func archiving(t *testing.T, opts doorkv.Options) *server {
	t.Helper()
	opts.Ack.Archiving = true
	return serve(t, opts)
}

func TestAnswersOfAnArchiveSessionWaitForTheArchive(t *testing.T) {
	t.Parallel()
	s := archiving(t, doorkv.Options{})
	c, ctx := s.client(t), at("archive")
	lease := must(c.Grant(context.Background(), 60))(t).ID
	for _, write := range []struct {
		what string
		call func() error
	}{
		{"put", func() error { _, err := c.Put(ctx, "k", "v"); return err }},
		{"delete", func() error { _, err := c.Delete(ctx, "other"); return err }},
		{"txn", func() error { _, err := c.Txn(ctx).Then(clientv3.OpPut("k", "w")).Commit(); return err }},
		{"compact", func() error { _, err := c.Compact(ctx, 2); return err }},
		{"grant", func() error { _, err := c.Grant(ctx, 60); return err }},
		{"revoke", func() error { _, err := c.Revoke(ctx, lease); return err }},
		{"role", func() error { _, err := c.RoleAdd(ctx, "r"); return err }},
	} {
		acktest.Held(t, s.node, write.what, write.call)
	}
	for _, read := range []struct {
		what string
		call func() error
	}{
		{"range", func() error { _, err := c.Get(ctx, "k"); return err }},
		{"serializable range", func() error { _, err := c.Get(ctx, "k", clientv3.WithSerializable()); return err }},
		{"range of an old revision", func() error { _, err := c.Get(ctx, "k", clientv3.WithRev(3)); return err }},
		{"range stream", func() error {
			stream, err := pb.NewKVClient(c.ActiveConnection()).RangeStream(ctx, &pb.RangeRequest{Key: []byte("k")})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}},
		{"reading txn", func() error { _, err := c.Txn(ctx).Then(clientv3.OpGet("k")).Commit(); return err }},
		{"leases", func() error { _, err := c.Leases(ctx); return err }},
		{"roles", func() error { _, err := c.RoleList(ctx); return err }},
		{"snapshot", func() error {
			r, err := c.Snapshot(ctx)
			if err == nil {
				_, err = io.ReadFull(r, make([]byte, 1))
				r.Close()
			}
			return err
		}},
	} {
		put(t, c, "k", read.what) // of a session that does not wait, and is not archived
		acktest.Held(t, s.node, read.what, read.call)
		if err := read.call(); err != nil { // and all that is archived is shown at once
			t.Errorf("%s: %v", read.what, err)
		}
	}
	// What is about the members, and a lease that is kept alive, is answered while the archive is away.
	put(t, c, "k", "v")
	lease = must(c.Grant(context.Background(), 60))(t).ID
	must(c.Status(ctx, s.addr))(t)
	must(c.MemberList(ctx))(t)
	must(c.KeepAliveOnce(ctx, lease))(t)
}

func TestOnlyTheSessionThatAskedWaits(t *testing.T) {
	t.Parallel()
	s := archiving(t, doorkv.Options{Ack: ack.Dial{Default: ack.Archive}})
	c := s.client(t)
	by := acktest.Begin(t, s.node, "put", func() error { _, err := c.Put(context.Background(), "k", "v"); return err })
	// A session that asks for commit on a server that waits by itself sees at once what is not archived, and adds to it.
	ctx, cancel := context.WithTimeout(at("commit"), 3*time.Second)
	defer cancel()
	got := must(c.Get(ctx, "k"))(t)
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" {
		t.Fatal(got.Kvs)
	}
	if p := must(c.Put(ctx, "k", "w"))(t); p.Header.Revision != got.Header.Revision+1 {
		t.Error(p.Header)
	}
	// Its write came later, so the one that waits does not wait for it.
	index, _ := s.node.ArchiveWanted()
	s.node.SetArchived(index)
	if err := <-by; err != nil {
		t.Error(err)
	}
	if s.node.ReadIndex() == index {
		t.Fatal("nothing was written meanwhile")
	}
}

func TestEventsOfAnArchiveSessionAreArchived(t *testing.T) {
	t.Parallel()
	s := archiving(t, doorkv.Options{ProgressInterval: 100 * time.Millisecond})
	c := s.client(t)
	put(t, c, "k", "0")
	watched := clientv3.NewWatcher(c)
	defer watched.Close()
	var events clientv3.WatchChan
	acktest.Held(t, s.node, "watch", func() error {
		events = watched.Watch(at("archive"), "k", clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())
		e := <-events
		return e.Err()
	})
	others := c.Watch(context.Background(), "k")
	for i := range 3 {
		revision := put(t, c, "k", fmt.Sprint(i))
		if e := <-others; len(e.Events) != 1 || e.Header.Revision != revision {
			t.Fatalf("a session that does not wait: %+v", e)
		}
		acktest.Held(t, s.node, "event", func() error {
			e := <-events
			if len(e.Events) != 1 || e.Header.Revision != revision || string(e.Events[0].Kv.Value) != fmt.Sprint(i) {
				return fmt.Errorf("%+v, want revision %d", e, revision)
			}
			return e.Err()
		})
	}
	// How far a watch has come is not told ahead of the archive, either.
	revision := put(t, c, "other", "v")
	acktest.Held(t, s.node, "progress", func() error {
		for {
			e := <-events
			switch {
			case e.Err() != nil || !e.IsProgressNotify():
				return fmt.Errorf("%+v", e)
			case e.Header.Revision == revision:
				return nil
			}
		}
	})
}

// raw is a connection of gRPC without a client library of etcd's.
func raw(t *testing.T, s *server) pb.KVClient {
	t.Helper()
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewKVClient(conn)
}

// versions is how often a key was written.
func versions(t *testing.T, c *clientv3.Client, key string) int64 {
	t.Helper()
	return must(c.Get(context.Background(), key))(t).Kvs[0].Version
}

func TestWrittenButNotArchived(t *testing.T) {
	t.Parallel()
	s := archiving(t, doorkv.Options{RequestTimeout: 100 * time.Millisecond})
	c, kv := must(clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, MaxUnaryRetries: 3, Logger: zap.NewNop()}))(t), raw(t, s)
	defer c.Close()
	// want is the answer of a write that took effect as the last entry.
	want := func(what string, err error, code codes.Code) {
		t.Helper()
		st := s.node.Status()
		text := fmt.Sprintf("etcdserver: written at %d.0@%d, not archived", st.Applied, st.Term)
		if got := status.Convert(err); got.Code() != code || got.Message() != text {
			t.Errorf("%s: %v, want %v: %s", what, err, code, text)
		}
	}
	put1 := func(ctx context.Context, key string) error {
		_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(key)})
		return err
	}
	want("a put at the server's deadline", put1(at("archive"), "a"), codes.DeadlineExceeded)
	// A client with a deadline of its own hears of it just before that, or it would never.
	ctx, cancel := context.WithTimeout(at("archive"), 90*time.Millisecond)
	defer cancel()
	want("a put at the client's deadline", put1(ctx, "b"), codes.DeadlineExceeded)
	// etcd's client sends a put again for as long as it is answered DeadlineExceeded, and may.
	_, err := c.Put(at("archive"), "c", "v")
	want("a put of etcd's client", err, codes.Unknown)
	ctx, cancel = context.WithTimeout(at("archive"), 90*time.Millisecond)
	defer cancel()
	_, err = c.Put(ctx, "d", "v")
	want("a put of etcd's client, at its own deadline", err, codes.Unknown)
	_, err = c.Txn(at("archive")).Then(clientv3.OpPut("e", "")).Commit()
	want("a txn of etcd's client", err, codes.Unknown)
	_, err = c.Grant(at("archive"), 60)
	want("a lease of etcd's client", err, codes.Unknown)
	_, err = c.UserAdd(at("archive"), "u", "p")
	want("a user of etcd's client", err, codes.Unknown)
	if l := must(c.Leases(context.Background()))(t); len(l.Leases) != 1 {
		t.Errorf("%d leases, one was granted", len(l.Leases))
	}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		if v := versions(t, c, key); v != 1 {
			t.Errorf("%s was written %d times", key, v)
		}
	}
	// What has not taken effect, and what was only read, ends as ever when time is up.
	for what, err := range map[string]error{
		"range": func() error { _, err := kv.Range(at("archive"), &pb.RangeRequest{Key: []byte("a")}); return err }(),
		"rejected put": func() error {
			_, err := kv.Put(at("archive"), &pb.PutRequest{Key: []byte("a"), Lease: 99})
			return err
		}(),
	} {
		wantError(t, what, err, rpctypes.ErrGRPCTimeout)
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLevelsThatThereAreNot(t *testing.T) {
	t.Parallel()
	with, without := archiving(t, doorkv.Options{}), serve(t, doorkv.Options{})
	for _, tt := range []struct {
		s           *server
		level, text string
	}{
		{with, "quorum", `holdfast-ack is commit or archive, not "quorum"`},
		{with, "Archive", "holdfast-ack is commit or archive"},
		{without, "archive", "this server has no archive"},
	} {
		c := tt.s.client(t)
		_, err := c.Put(at(tt.level), "k", "v")
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(fmt.Sprint(err), tt.text) {
			t.Errorf("%s: %v", tt.level, err)
		}
		w := <-c.Watch(at(tt.level), "k")
		if w.Err() == nil {
			t.Errorf("a watch at level %s: %+v", tt.level, w)
		}
		if got := must(c.Get(context.Background(), "k"))(t); got.Count != 0 || got.Header.Revision != 1 {
			t.Errorf("%s: it was written: %v", tt.level, got)
		}
	}
	put(t, without.client(t), "k", "v")
	if _, err := without.client(t).Put(at("commit"), "k", "v"); err != nil {
		t.Error(err)
	}
}

func TestTheGatewayTakesTheLevelFromAHeader(t *testing.T) {
	t.Parallel()
	s := archiving(t, doorkv.Options{RequestTimeout: 100 * time.Millisecond})
	post := func(level, path, body string) (int, string) {
		t.Helper()
		r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.addr+path, strings.NewReader(body)))(t)
		r.Header.Set(ack.Header, level)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		return resp.StatusCode, string(must(io.ReadAll(resp.Body))(t))
	}
	const put = `{"key":"aw==","value":"dg=="}`
	acktest.Held(t, s.node, "put", func() error {
		if code, text := post("archive", "/v3/kv/put", put); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	if code, text := post("commit", "/v3/kv/put", put); code != http.StatusOK {
		t.Error(code, text)
	}
	if code, text := post("archive", "/v3/kv/put", put); code != http.StatusGatewayTimeout || !strings.Contains(text, "not archived") {
		t.Error(code, text)
	}
	if code, text := post("fsync", "/v3/kv/put", put); code != http.StatusBadRequest || !strings.Contains(text, "commit or archive") {
		t.Error(code, text)
	}
	if v := versions(t, s.client(t), "k"); v != 3 {
		t.Errorf("%d times", v)
	}
}

// Whichever member a session is with, the archive is filled by the leader.
func TestAnArchiveSessionOnAFollower(t *testing.T) {
	t.Parallel()
	servers := serveThree(t, doorkv.Options{Ack: ack.Dial{Archiving: true}})
	var leader, follower *server
	for _, s := range servers {
		if st := s.node.Status(); st.Leader == st.MemberID {
			leader = s
		} else {
			follower = s
		}
	}
	c := follower.client(t)
	done := make(chan error, 1)
	go func() {
		_, err := c.Put(at("archive"), "k", "v")
		if err == nil {
			_, err = c.Get(at("archive"), "k")
		}
		done <- err
	}()
	var index uint64
	wait.Until(t, "the leader is asked", func() bool { index, _ = leader.node.ArchiveWanted(); return index != 0 })
	select {
	case err := <-done:
		t.Fatalf("answered before it was archived: %v", err)
	default:
	}
	for {
		leader.node.SetArchived(index)
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		case <-time.After(time.Millisecond):
			index = leader.node.ReadIndex() // leases and levels write too
		}
	}
}

// An answer that takes much memory does not hold it while the archive is away.
func TestAnswersThatWaitForTheArchiveHoldNoRoom(t *testing.T) {
	t.Parallel()
	const most = 2 << 20
	s := archiving(t, doorkv.Options{MaxResultBytes: most, RequestTimeout: 3 * time.Second})
	c := s.client(t)
	for i := range 3 {
		put(t, c, fmt.Sprint("k", i), strings.Repeat("v", most/4))
	}
	ctx, cancel := context.WithCancel(at("archive"))
	defer cancel()
	all := func(ctx context.Context) error {
		_, err := raw(t, s).Range(ctx, &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")})
		return err
	}
	var waiting []<-chan error
	for range 8 { // more than there is room for
		waiting = append(waiting, acktest.Begin(t, s.node, "range", func() error { return all(ctx) }))
	}
	wait.Until(t, "all wait", func() bool { return s.node.ArchiveWaiters() == 8 })
	for range 4 {
		if err := all(context.Background()); err != nil {
			t.Errorf("a session that does not wait: %v", err)
		}
	}
	s.node.SetArchived(s.node.ReadIndex())
	for _, w := range waiting {
		if err := <-w; err != nil {
			t.Error(err)
		}
	}
}
