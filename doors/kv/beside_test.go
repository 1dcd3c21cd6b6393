package kv_test

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestKeysBesideAreJudgedAsKeys: a Txn that another door commits together with its own part has to pass all that a client's has to.
func TestKeysBesideAreJudgedAsKeys(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{BcryptCost: 4, MaxTxnOps: 3, MaxRequestBytes: 1000})
	ctx := context.Background()
	put := func(key, value string) kvpart.Op {
		return kvpart.Op{Put: &kvpart.Put{Key: []byte(key), Value: []byte(value)}}
	}
	txn := func(ops ...kvpart.Op) *kvpart.Txn { return &kvpart.Txn{Then: ops} }
	parts, code, text := s.door.Beside(ctx, "", txn(put("b/1", "v")))
	if code != 0 || len(parts) != 1 || parts[0].Machine != entry.MachineKV {
		t.Fatalf("%v, %d %s", parts, code, text)
	}
	refused := func(what string, code int, why error, s *server, token string, txn *kvpart.Txn) {
		t.Helper()
		parts, got, text := s.door.Beside(ctx, token, txn)
		if len(parts) > 0 || got != code || text != status.Convert(why).Message() {
			t.Errorf("%s: %d parts, %d %s; want %d %v", what, len(parts), got, text, code, why)
		}
	}
	if p, err := kvpart.Decode(parts[0].Body); err != nil || !p.Must || p.Txn == nil {
		t.Errorf("%+v, %v: it counts whether its compares hold or not", p, err)
	}
	refused("no key", 400, rpctypes.ErrGRPCEmptyKey, s, "", txn(put("", "v")))
	refused("a key twice", 400, rpctypes.ErrGRPCDuplicateKey, s, "", txn(put("a", "v"), put("a", "w")))
	refused("many keys", 400, rpctypes.ErrGRPCTooManyOps, s, "", txn(put("a", ""), put("b", ""), put("c", ""), put("d", "")))
	refused("a large value", 400, rpctypes.ErrGRPCRequestTooLarge, s, "", txn(put("a", string(make([]byte, 1000)))))

	root := enableAuth(t, s)
	token := must(pb.NewAuthClient(root.ActiveConnection()).Authenticate(ctx, &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"}))(t).Token
	if parts, code, text = s.door.Beside(ctx, token, txn(put("a/1", "v"))); code != 0 || len(parts) != 2 || parts[0].Machine != entry.MachineIdent {
		t.Errorf("alice: %v, %d %s", parts, code, text)
	}
	refused("a key alice may read", 403, rpctypes.ErrGRPCPermissionDenied, s, "Bearer "+token, txn(put("b/1", "v")))
	refused("nobody", 400, rpctypes.ErrGRPCUserEmpty, s, "", txn(put("a/1", "v")))
	refused("a token that is none", 401, rpctypes.ErrGRPCInvalidAuthToken, s, "stolen", txn(put("a/1", "v")))

	full := serve(t, doorkv.Options{QuotaBytes: 1000})
	refused("beyond the quota", 503, rpctypes.ErrGRPCNoSpace, full, "", txn(put("a", string(make([]byte, 900)))))
	if _, code, text := full.door.Beside(ctx, "", txn(kvpart.Op{Delete: &kvpart.DeleteRange{Key: []byte("a")}})); code != 0 {
		t.Errorf("a deletion in a full store: %d %s", code, text)
	}
}
