package kv_test

import (
	"context"
	"errors"
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

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/ack/acktest"
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
	// Calls about the members, and a lease that is kept alive, are answered while the archive is away.
	put(t, c, "k", "v")
	lease = must(c.Grant(context.Background(), 60))(t).ID
	must(c.Status(ctx, s.addr))(t)
	must(c.MemberList(ctx))(t)
	must(c.KeepAliveOnce(ctx, lease))(t)
}

// TestASerializableReadOfWhatIsArchivedGoesOn while the archive is away, and shows nothing of what is not archived, the revision included.
func TestASerializableReadOfWhatIsArchivedGoesOn(t *testing.T) {
	t.Parallel()
	s := archiving(t, doorkv.Options{})
	c, ctx := s.client(t), at("archive")
	for _, k := range []string{"a/1", "a/2", "b/1", "c/1", "d/1"} {
		put(t, c, k, "archived")
	}
	s.node.SetArchived(s.node.ReadIndex())
	archived := must(c.Get(ctx, "a/1"))(t).Header.Revision

	put(t, c, "b/1", "not archived")
	put(t, c, "c/2", "not archived")
	must(c.Delete(context.Background(), "d/1"))(t)
	soon, cancel := context.WithTimeout(ctx, wait.Limit(t))
	defer cancel()
	for _, read := range []struct {
		key   string
		opts  []clientv3.OpOption
		count int64
	}{
		{"a/1", nil, 1},
		{"a/", []clientv3.OpOption{clientv3.WithPrefix()}, 2},
		{"a/", []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(1)}, 2},
		{"none", nil, 0},
		{"b/1", []clientv3.OpOption{clientv3.WithRev(archived)}, 1},
		{"d/", []clientv3.OpOption{clientv3.WithRev(archived), clientv3.WithPrefix(), clientv3.WithCountOnly()}, 1},
	} {
		got, err := c.Get(soon, read.key, append(read.opts, clientv3.WithSerializable())...)
		if err != nil {
			t.Fatalf("%s: %v", read.key, err)
		}
		if got.Count != read.count || got.Header.Revision != archived {
			t.Errorf("%s: %d keys at revision %d, want %d at %d", read.key, got.Count, got.Header.Revision, read.count, archived)
		}
		for _, kv := range got.Kvs {
			if string(kv.Value) != "archived" {
				t.Errorf("%s: %s", read.key, kv.Value)
			}
		}
	}
	// Keys put, begun or deleted meanwhile would be shown, and a linearizable read is of the present.
	for what, get := range map[string][]clientv3.OpOption{
		"b/1": {clientv3.WithSerializable()},
		"c/":  {clientv3.WithSerializable(), clientv3.WithPrefix(), clientv3.WithCountOnly()},
		"d/1": {clientv3.WithSerializable()},
		"a/1": nil,
	} {
		hidden, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		if got, err := c.Get(hidden, what, get...); err == nil {
			t.Errorf("%s is answered: %v", what, got)
		}
		cancel()
	}
	s.node.SetArchived(s.node.ReadIndex())
	if got := must(c.Get(ctx, "d/1", clientv3.WithSerializable()))(t); got.Count != 0 || got.Header.Revision == archived {
		t.Errorf("when all is archived: %v", got)
	}
}

func TestOnlyTheSessionThatAskedWaits(t *testing.T) {
	t.Parallel()
	s := archiving(t, doorkv.Options{Ack: ack.Dial{Default: ack.Archive}})
	c := s.client(t)
	by := acktest.Begin(t, s.node, "put", func() error { _, err := c.Put(context.Background(), "k", "v"); return err })
	// A session that asks for commit on a server that waits by itself sees at once what is not archived, and adds to it.
	ctx, cancel := context.WithTimeout(at("commit"), wait.Limit(t))
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
			for e.IsProgressNotify() && e.Header.Revision < revision { // of earlier archived entries
				e = <-events
			}
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

// late makes a write that is not archived by its deadline, and returns the answer. A machine that is busy elsewhere may not even have
// applied it by then. That is another answer, and the write is made anew, under another name.
func late(t *testing.T, write func(name string) error) (name string, err error) {
	t.Helper()
	for i := range 1000 {
		name = fmt.Sprintf("%s-%d", t.Name(), i)
		err = write(name)
		text := status.Convert(err).Message()
		if !strings.Contains(text, "request timed out") && !strings.Contains(text, "deadline exceeded") {
			return name, err
		}
	}
	t.Fatalf("it takes longer than the deadline to write anything: %v", err)
	return "", nil
}

func TestWrittenButNotArchived(t *testing.T) {
	t.Parallel()
	s := archiving(t, doorkv.Options{RequestTimeout: 500 * time.Millisecond})
	c, kv := must(clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, MaxUnaryRetries: 3, Logger: zap.NewNop()}))(t), raw(t, s)
	defer c.Close()
	patient := archiving(t, doorkv.Options{}) // with deadlines of its clients' own
	cp, kvp := patient.client(t), raw(t, patient)
	soon := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(at("archive"), time.Second)
	}
	for _, w := range []struct {
		what  string
		s     *server
		code  codes.Code
		write func(name string) error
	}{
		{"put", s, codes.DeadlineExceeded, func(key string) error {
			_, err := kv.Put(at("archive"), &pb.PutRequest{Key: []byte(key)})
			return err
		}},
		// A client with a deadline of its own hears of it just before that, or it would never.
		{"put with a deadline", patient, codes.DeadlineExceeded, func(key string) error {
			ctx, cancel := soon()
			defer cancel()
			_, err := kvp.Put(ctx, &pb.PutRequest{Key: []byte(key)})
			return err
		}},
		// etcd's client sends a put again for as long as it is answered DeadlineExceeded, and may.
		{"put of etcd's client", s, codes.Unknown, func(key string) error {
			_, err := c.Put(at("archive"), key, "v")
			return err
		}},
		{"put of etcd's client with a deadline", patient, codes.Unknown, func(key string) error {
			ctx, cancel := soon()
			defer cancel()
			_, err := cp.Put(ctx, key, "v")
			return err
		}},
		{"txn of etcd's client", s, codes.Unknown, func(key string) error {
			_, err := c.Txn(at("archive")).Then(clientv3.OpPut(key, "")).Commit()
			return err
		}},
		{"lease of etcd's client", s, codes.Unknown, func(string) error {
			_, err := c.Grant(at("archive"), 60)
			return err
		}},
		{"user of etcd's client", s, codes.Unknown, func(name string) error {
			_, err := c.UserAdd(at("archive"), name, "p")
			return err
		}},
	} {
		t.Run(w.what, func(t *testing.T) {
			before := w.s.node.ReadIndex()
			name, err := late(t, w.write)
			got, st := status.Convert(err), w.s.node.Status()
			if want := fmt.Sprintf("etcdserver: written at %d.0@%d, not archived", st.Applied, st.Term); got.Code() != w.code || got.Message() != want {
				t.Errorf("%v, want %v: %s", err, w.code, want)
			}
			switch {
			case strings.HasPrefix(w.what, "lease"), strings.HasPrefix(w.what, "user"):
				if strings.HasSuffix(name, "-0") && st.Applied != before+1 { // none was made anew here, and none may be by the client
					t.Errorf("%d entries", st.Applied-before)
				}
			default:
				if v := versions(t, w.s.client(t), name); v != 1 {
					t.Errorf("written %d times", v)
				}
			}
		})
	}
	// Refused writes and plain reads end as ever when time is up.
	_, err := kv.Range(at("archive"), &pb.RangeRequest{Key: []byte("a")})
	wantError(t, "range", err, rpctypes.ErrGRPCTimeout)
	_, err = kv.Put(at("archive"), &pb.PutRequest{Key: []byte("a"), Lease: 99})
	wantError(t, "rejected put", err, rpctypes.ErrGRPCTimeout)
	if status.Code(err) != codes.Unavailable {
		t.Error(err)
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
	s := archiving(t, doorkv.Options{})
	post := func(s *server, level, path, body string) (int, string) {
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
		if code, text := post(s, "archive", "/v3/kv/put", put); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	if code, text := post(s, "commit", "/v3/kv/put", put); code != http.StatusOK {
		t.Error(code, text)
	}
	if code, text := post(s, "fsync", "/v3/kv/put", put); code != http.StatusBadRequest || !strings.Contains(text, "commit or archive") {
		t.Error(code, text)
	}
	if v := versions(t, s.client(t), "k"); v != 2 {
		t.Errorf("%d times", v)
	}
	hasty := archiving(t, doorkv.Options{RequestTimeout: 500 * time.Millisecond})
	code, text := 0, ""
	late(t, func(string) error {
		code, text = post(hasty, "archive", "/v3/kv/put", put)
		return errors.New(text)
	})
	if code != http.StatusGatewayTimeout || !strings.Contains(text, "not archived") {
		t.Error(code, text)
	}
}

// For a session with any member, the leader fills the archive.
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
	s := archiving(t, doorkv.Options{MaxAnswerBytes: 3 * most})
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
