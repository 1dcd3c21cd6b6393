package kv_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/doors/kv/etcdfile"
	"github.com/holdfastdb/holdfast/internal/wait"
)

func TestPutRangeDelete(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	first := must(c.Put(ctx, "a", "1"))(t)
	if h := first.Header; h.Revision != 2 || h.ClusterId == 0 || h.MemberId == 0 || h.RaftTerm == 0 {
		t.Errorf("header %v", h)
	}
	second := must(c.Put(ctx, "a", "2", clientv3.WithPrevKV()))(t)
	if second.PrevKv == nil || string(second.PrevKv.Value) != "1" || second.PrevKv.ModRevision != 2 {
		t.Errorf("previous value %v", second.PrevKv)
	}
	for i := range 10 {
		put(t, c, fmt.Sprintf("k%d", i), strings.Repeat("v", i*1000))
	}
	all := must(c.Get(ctx, "k", clientv3.WithPrefix(), clientv3.WithLimit(3)))(t)
	if len(all.Kvs) != 3 || !all.More || all.Count != 10 {
		t.Errorf("%d keys, more %v, count %d", len(all.Kvs), all.More, all.Count)
	}
	last := must(c.Get(ctx, "k", clientv3.WithLastRev()...))(t)
	if len(last.Kvs) != 1 || string(last.Kvs[0].Key) != "k9" || len(last.Kvs[0].Value) != 9000 {
		t.Errorf("last written: %v", last.Kvs)
	}
	old := must(c.Get(ctx, "a", clientv3.WithRev(2)))(t)
	if string(old.Kvs[0].Value) != "1" || old.Header.Revision != 13 {
		t.Errorf("at revision 2: %v", old)
	}
	del := must(c.Delete(ctx, "k", clientv3.WithPrefix(), clientv3.WithPrevKV()))(t)
	if del.Deleted != 10 || len(del.PrevKvs) != 10 || del.Header.Revision != 14 {
		t.Errorf("deleted %d, %d previous values, revision %d", del.Deleted, len(del.PrevKvs), del.Header.Revision)
	}
	if del := must(c.Delete(ctx, "nothing"))(t); del.Deleted != 0 || del.Header.Revision != 14 {
		t.Errorf("deleting nothing: %v", del)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{MaxAnswerBytes: 150_000})
	c, ctx := s.client(t), context.Background()
	kv := pb.NewKVClient(c.ActiveConnection())
	key := []byte("k")
	_, err := kv.Put(ctx, &pb.PutRequest{})
	wantError(t, "put without key", err, rpctypes.ErrGRPCEmptyKey)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: key, Value: key, IgnoreValue: true})
	wantError(t, "value with ignore_value", err, rpctypes.ErrGRPCValueProvided)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: key, IgnoreValue: true})
	wantError(t, "ignore_value of a key that is not there", err, rpctypes.ErrGRPCKeyNotFound)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: key, Lease: 99})
	wantError(t, "lease that is not there", err, rpctypes.ErrGRPCLeaseNotFound)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: key, Value: make([]byte, 1700<<10)})
	wantError(t, "too large", err, rpctypes.ErrGRPCRequestTooLarge)
	_, err = kv.Range(ctx, &pb.RangeRequest{})
	wantError(t, "range without key", err, rpctypes.ErrGRPCEmptyKey)
	_, err = kv.Range(ctx, &pb.RangeRequest{Key: key, SortOrder: 5})
	wantError(t, "sort order", err, rpctypes.ErrGRPCInvalidSortOption)
	_, err = kv.Range(ctx, &pb.RangeRequest{Key: key, Revision: 1000})
	wantError(t, "future revision", err, rpctypes.ErrGRPCFutureRev)
	_, err = kv.DeleteRange(ctx, &pb.DeleteRangeRequest{})
	wantError(t, "delete without key", err, rpctypes.ErrGRPCEmptyKey)
	_, err = c.Compact(ctx, 1000)
	wantError(t, "compact the future", err, rpctypes.ErrGRPCFutureRev)
	_, err = c.Txn(ctx).Then(clientv3.OpPut("a", ""), clientv3.OpPut("a", "")).Commit()
	wantError(t, "key twice", err, rpctypes.ErrGRPCDuplicateKey)
	_, err = c.Txn(ctx).Then(clientv3.OpDelete("b", clientv3.WithFromKey()), clientv3.OpPut("b/3", "", clientv3.WithIgnoreValue())).Commit()
	wantError(t, "ignore_value of a key deleted before", err, rpctypes.ErrGRPCKeyNotFound)
	_, err = c.Grant(ctx, 9_000_000_001)
	wantError(t, "ttl", err, rpctypes.ErrGRPCLeaseTTLTooLarge)
	_, err = c.Revoke(ctx, 99)
	wantError(t, "revoke a lease that is not there", err, rpctypes.ErrGRPCLeaseNotFound)
	_, err = pb.NewClusterClient(c.ActiveConnection()).MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"nonsense"}})
	wantError(t, "urls", err, rpctypes.ErrGRPCMemberBadURLs)
	_, err = c.MemberRemove(ctx, 12345)
	wantError(t, "member", err, rpctypes.ErrGRPCMemberNotFound)
	if st := must(c.AuthStatus(ctx))(t); st.Enabled {
		t.Error("auth is enabled")
	}

	for i := range 3 {
		put(t, c, fmt.Sprintf("big%d", i), strings.Repeat("v", 50_000))
	}
	_, err = c.Get(ctx, "big", clientv3.WithPrefix())
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "RangeStream") {
		t.Errorf("range over the budget: %v", err)
	}
	stream := must(kv.RangeStream(ctx, &pb.RangeRequest{Key: []byte("big"), RangeEnd: []byte("bih")}))(t)
	var got pb.RangeResponse
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Header != nil {
			t.Error("a chunk after the header")
		}
		got.Kvs = append(got.Kvs, m.RangeResponse.Kvs...)
		got.Header, got.Count = m.RangeResponse.Header, m.RangeResponse.Count
	}
	if len(got.Kvs) != 3 || got.Count != 3 || got.Header == nil || got.Header.Revision == 0 {
		t.Errorf("stream: %d keys, count %d, header %v", len(got.Kvs), got.Count, got.Header)
	}
}

func TestTxn(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	put(t, c, "a", "1")
	res := must(c.Txn(ctx).If(clientv3.Compare(clientv3.Value("a"), "=", "1"), clientv3.Compare(clientv3.Version("b"), "=", 0)).
		Then(clientv3.OpGet("a"), clientv3.OpPut("a", "2", clientv3.WithPrevKV()),
			clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value("a"), "=", "9")}, nil,
				[]clientv3.Op{clientv3.OpPut("b", "3"), clientv3.OpGet("a")})).
		Else(clientv3.OpDelete("a")).Commit())(t)
	if !res.Succeeded || res.Header.Revision != 3 || len(res.Responses) != 3 {
		t.Fatalf("%v", res)
	}
	if r := res.Responses[0].GetResponseRange(); r.Header.Revision != 2 || string(r.Kvs[0].Value) != "1" {
		t.Errorf("get before the write: %v", r)
	}
	if r := res.Responses[1].GetResponsePut(); r.Header.Revision != 3 || string(r.PrevKv.Value) != "1" {
		t.Errorf("put: %v", r)
	}
	inner := res.Responses[2].GetResponseTxn()
	if inner.Succeeded || len(inner.Responses) != 2 || string(inner.Responses[1].GetResponseRange().Kvs[0].Value) != "2" {
		t.Errorf("nested: %v", inner)
	}
	// A Txn that only reads.
	read := must(c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("b"), "=", 3)).Then(clientv3.OpGet("a"), clientv3.OpGet("a", clientv3.WithRev(2))).Commit())(t)
	if !read.Succeeded || read.Header.Revision != 3 ||
		string(read.Responses[0].GetResponseRange().Kvs[0].Value) != "2" || string(read.Responses[1].GetResponseRange().Kvs[0].Value) != "1" {
		t.Errorf("read only: %v", read)
	}
	_, err := c.Txn(ctx).Then(clientv3.OpGet("a", clientv3.WithRev(100))).Commit()
	wantError(t, "read of the future", err, rpctypes.ErrGRPCFutureRev)
	if empty := must(c.Txn(ctx).Commit())(t); !empty.Succeeded || empty.Header.Revision != 3 {
		t.Errorf("empty: %v", empty)
	}
}

func TestCompactAndHash(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	for i := range 20 {
		put(t, c, "a", fmt.Sprint(i))
	}
	before := must(c.HashKV(ctx, s.addr, 15))(t)
	must(c.Compact(ctx, 15, clientv3.WithCompactPhysical()))(t)
	if got := s.kv.Scrubbed(); got != 15 {
		t.Errorf("answered with history dropped up to %d, not 15", got)
	}
	after := must(c.HashKV(ctx, s.addr, 15))(t)
	if before.Hash != after.Hash || after.CompactRevision != 15 || after.HashRevision != 15 {
		t.Errorf("hash %d before, %d after; %v", before.Hash, after.Hash, after)
	}
	_, err := c.Get(ctx, "a", clientv3.WithRev(14))
	wantError(t, "read compacted", err, rpctypes.ErrGRPCCompacted)
	_, err = c.Compact(ctx, 15)
	wantError(t, "compact twice", err, rpctypes.ErrGRPCCompacted)
	w := <-c.Watch(ctx, "a", clientv3.WithRev(3))
	if w.CompactRevision != 15 || w.Err() != rpctypes.ErrCompacted {
		t.Errorf("watch of compacted history: %+v", w)
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{QuotaBytes: 20 << 10})
	c, ctx := s.client(t), context.Background()
	value := strings.Repeat("v", 4<<10)
	var err error
	var last int64
	for range 20 {
		var r *clientv3.PutResponse
		if r, err = c.Put(ctx, "a", value); err != nil {
			break
		}
		last = r.Header.Revision
	}
	wantError(t, "full", err, rpctypes.ErrGRPCNoSpace)
	if alarms := must(c.AlarmList(ctx))(t); len(alarms.Alarms) != 1 || alarms.Alarms[0].Alarm != pb.AlarmType_NOSPACE {
		t.Errorf("alarms: %v", alarms.Alarms)
	}
	if st := must(c.Status(ctx, s.addr))(t); len(st.Errors) != 1 || st.DbSizeQuota != 20<<10 || st.DbSize == 0 {
		t.Errorf("status: %v", st)
	}
	_, err = c.Grant(ctx, 10)
	wantError(t, "lease", err, rpctypes.ErrGRPCNoSpace)
	_, err = c.Txn(ctx).Then(clientv3.OpPut("b", "")).Commit()
	wantError(t, "txn", err, rpctypes.ErrGRPCNoSpace)
	must(c.Txn(ctx).Then(clientv3.OpDelete("b")).Commit())(t)
	must(c.Delete(ctx, "b"))(t)
	must(c.Compact(ctx, last))(t)
	must(c.Defragment(ctx, s.addr))(t)
	must(c.AlarmDisarm(ctx, &clientv3.AlarmMember{}))(t)
	put(t, c, "a", "room again")
	if alarms := must(c.AlarmList(ctx))(t); len(alarms.Alarms) != 0 {
		t.Errorf("alarms: %v", alarms.Alarms)
	}
}

// TestAnEmptyServerHasASizeAndAHash: clients check that they are not 0, and JSON leaves zeros out.
func TestAnEmptyServerHasASizeAndAHash(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	if st := must(c.Status(ctx, s.addr))(t); st.DbSize <= 0 || st.DbSizeInUse != st.DbSize {
		t.Errorf("an empty server: %d bytes, %d in use", st.DbSize, st.DbSizeInUse)
	}
	if h := must(c.HashKV(ctx, s.addr, 0))(t); h.Hash == 0 {
		t.Error("the hash of nothing is 0")
	}
	if h := must(pb.NewMaintenanceClient(c.ActiveConnection()).Hash(ctx, &pb.HashRequest{}))(t); h.Hash == 0 {
		t.Error("the hash of everything is 0")
	}
	var last int64
	for i := range 10 {
		put(t, c, "a", strings.Repeat("v", 100*i))
		put(t, c, "b", "v")
		last = must(c.Delete(ctx, "b"))(t).Header.Revision
	}
	full := must(c.Status(ctx, s.addr))(t).DbSize
	must(c.Compact(ctx, last, clientv3.WithCompactPhysical()))(t)
	must(c.Defragment(ctx, s.addr))(t)
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(10 * time.Millisecond) {
		st := must(c.Status(ctx, s.addr))(t)
		if st.DbSizeInUse != st.DbSize {
			t.Fatalf("%d of %d bytes are in use: nothing here waits for a defragmentation", st.DbSizeInUse, st.DbSize)
		}
		if st.DbSize < full-3000 { // the older values of a
			break
		}
		if time.Now().After(end) {
			t.Fatalf("without history: %d bytes, with it %d", st.DbSize, full)
		}
	}
}

// The file that etcdctl saves is a database of etcd's with its SHA-256 behind.
func TestSnapshotIsEtcds(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{})
	c, ctx := s.client(t), context.Background()
	for i := range 50 {
		put(t, c, fmt.Sprint(i), strings.Repeat("v", 5000))
	}
	r := must(c.SnapshotWithVersion(ctx))(t)
	b := must(io.ReadAll(r.Snapshot))(t)
	if len(b)%512 != sha256.Size || r.Version != "3.7.0" {
		t.Fatalf("%d bytes, version %q", len(b), r.Version)
	}
	if sum := sha256.Sum256(b[:len(b)-sha256.Size]); !bytes.Equal(sum[:], b[len(b)-sha256.Size:]) {
		t.Error("the checksum does not fit")
	}
	file := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f := must(etcdfile.Open(file))(t)
	defer f.Close()
	if !f.SHA256 || f.Revision != 51 || f.Head.StorageVersion != "3.7.0" {
		t.Errorf("%+v", f)
	}
}
