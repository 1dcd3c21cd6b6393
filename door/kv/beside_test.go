package kv_test

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	doorkv "github.com/holdfastdb/holdfast/door/kv"
	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
)

// TestKeysBesideAreJudgedAsKeys: a Txn that another door commits together with its own part has to pass all that a client's has to.
func TestKeysBesideAreJudgedAsKeys(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{BcryptCost: 4, MaxTxnOps: 3, MaxRequestBytes: 1000})
	ctx := context.Background()
	put := func(key, value string) ekv.Op { return ekv.Op{Put: &ekv.Put{Key: []byte(key), Value: []byte(value)}} }
	txn := func(ops ...ekv.Op) *ekv.Txn { return &ekv.Txn{Then: ops} }
	parts, err := s.door.Beside(ctx, "", txn(put("b/1", "v")))
	if err != nil || len(parts) != 1 || parts[0].Machine != entry.MachineKV {
		t.Fatalf("%v, %v", parts, err)
	}
	if p, err := ekv.Decode(parts[0].Body); err != nil || !p.Must || p.Txn == nil {
		t.Errorf("%+v, %v: it counts whether its compares hold or not", p, err)
	}
	_, err = s.door.Beside(ctx, "", txn(put("", "v")))
	wantError(t, "no key", err, rpctypes.ErrGRPCEmptyKey)
	_, err = s.door.Beside(ctx, "", txn(put("a", "v"), put("a", "w")))
	wantError(t, "a key twice", err, rpctypes.ErrGRPCDuplicateKey)
	_, err = s.door.Beside(ctx, "", txn(put("a", ""), put("b", ""), put("c", ""), put("d", "")))
	wantError(t, "many keys", err, rpctypes.ErrGRPCTooManyOps)
	_, err = s.door.Beside(ctx, "", txn(put("a", string(make([]byte, 1000)))))
	wantError(t, "a large value", err, rpctypes.ErrGRPCRequestTooLarge)

	root := enableAuth(t, s)
	token := must(pb.NewAuthClient(root.ActiveConnection()).Authenticate(ctx, &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"}))(t).Token
	parts, err = s.door.Beside(ctx, token, txn(put("a/1", "v")))
	if err != nil || len(parts) != 2 || parts[0].Machine != entry.MachineIdent {
		t.Errorf("alice: %v, %v", parts, err)
	}
	_, err = s.door.Beside(ctx, "Bearer "+token, txn(put("b/1", "v")))
	wantError(t, "a key alice may read", err, rpctypes.ErrGRPCPermissionDenied)
	_, err = s.door.Beside(ctx, "", txn(put("a/1", "v")))
	wantError(t, "nobody", err, rpctypes.ErrGRPCUserEmpty)
	_, err = s.door.Beside(ctx, "stolen", txn(put("a/1", "v")))
	wantError(t, "a token that is none", err, rpctypes.ErrGRPCInvalidAuthToken)

	full := serve(t, doorkv.Options{QuotaBytes: 1000})
	if _, err := full.door.Beside(ctx, "", txn(put("a", string(make([]byte, 900))))); err == nil {
		t.Error("beyond the quota it is let through")
	}
	if _, err := full.door.Beside(ctx, "", txn(ekv.Op{Delete: &ekv.DeleteRange{Key: []byte("a")}})); err != nil {
		t.Errorf("a deletion in a full store: %v", err)
	}
}
