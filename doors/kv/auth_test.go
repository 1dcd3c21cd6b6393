package kv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// cheap makes passwords quick to check: these tests are not about guessing them.
var cheap = doorkv.Options{BcryptCost: 4}

// as connects as a user.
func (s *server) as(t testing.TB, user, password string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, DialTimeout: wait.Limit(t), Logger: zap.NewNop(),
		Username: user, Password: password})
	if err != nil {
		t.Fatalf("as %s: %v", user, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// wire connects without etcd's client, which asks again and again when it hears of a bad token.
func (s *server) wire(t testing.TB) *grpc.ClientConn {
	t.Helper()
	c := must(grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// enableAuth makes root and alice, who may write a/ and read a/ and b/, and returns root's client.
func enableAuth(t testing.TB, s *server) (root *clientv3.Client) {
	t.Helper()
	c, ctx := s.client(t), context.Background()
	must(c.UserAdd(ctx, "root", "rootpw"))(t)
	must(c.UserGrantRole(ctx, "root", "root"))(t)
	must(c.RoleAdd(ctx, "reader"))(t)
	must(c.RoleGrantPermission(ctx, "reader", "a/", "a0", clientv3.PermissionType(clientv3.PermReadWrite)))(t)
	must(c.RoleGrantPermission(ctx, "reader", "b/", "b0", clientv3.PermissionType(clientv3.PermRead)))(t)
	must(c.UserAdd(ctx, "alice", "alicepw"))(t)
	must(c.UserGrantRole(ctx, "alice", "reader"))(t)
	must(c.AuthEnable(ctx))(t)
	return s.as(t, "root", "rootpw")
}

func TestAuthIsOffUntilItIsEnabled(t *testing.T) {
	t.Parallel()
	s := serve(t, cheap)
	c, ctx := s.client(t), context.Background()
	_, err := c.Authenticate(ctx, "root", "x")
	wantError(t, "a token while auth is off", err, rpctypes.ErrGRPCAuthNotEnabled)
	_, err = c.AuthEnable(ctx)
	wantError(t, "without root", err, rpctypes.ErrGRPCRootUserNotExist)
	must(c.UserAdd(ctx, "root", "rootpw"))(t)
	_, err = c.AuthEnable(ctx)
	wantError(t, "without its role", err, rpctypes.ErrGRPCRootRoleNotExist)
	must(c.UserGrantRole(ctx, "root", "root"))(t)
	put(t, c, "k", "v")
	must(c.AuthEnable(ctx))(t)
	_, err = c.Put(ctx, "k", "v")
	wantError(t, "nobody", err, rpctypes.ErrGRPCUserEmpty)
	if on, _ := s.door.Catalogue(); !on {
		t.Error("the door says that auth is off")
	}
	root := s.as(t, "root", "rootpw")
	if st := must(root.AuthStatus(ctx))(t); !st.Enabled || st.AuthRevision != 3 {
		t.Errorf("status %v", st)
	}
	put(t, root, "k", "v")
	must(root.AuthDisable(ctx))(t)
	put(t, c, "k", "v")
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	s := serve(t, cheap)
	root, ctx := enableAuth(t, s), context.Background()
	c := s.client(t)
	authenticate := func(user, password string) error {
		_, err := pb.NewAuthClient(c.ActiveConnection()).Authenticate(ctx, &pb.AuthenticateRequest{Name: user, Password: password})
		return err
	}
	wantError(t, "a wrong password", authenticate("alice", "x"), rpctypes.ErrGRPCAuthFailed)
	wantError(t, "an unknown user", authenticate("bob", "x"), rpctypes.ErrGRPCAuthFailed)
	must(root.UserAddWithOptions(ctx, "cert", "", &clientv3.UserAddOptions{NoPassword: true}))(t)
	if err := authenticate("cert", ""); status.Convert(err).Message() != "auth: authentication failed, password was given for no password user" {
		t.Errorf("a user without password: %v", err)
	}
	if _, err := root.UserAdd(ctx, "long", strings.Repeat("x", 73)); status.Convert(err).Message() != "bcrypt: password length exceeds 72 bytes" {
		t.Errorf("a long password: %v", err)
	}
	alice := s.as(t, "alice", "alicepw")
	put(t, alice, "a/1", "v")
	must(root.UserChangePassword(ctx, "alice", "other"))(t)
	wantError(t, "the old password", authenticate("alice", "alicepw"), rpctypes.ErrGRPCAuthFailed)
	if err := authenticate("alice", "other"); err != nil {
		t.Errorf("the new password: %v", err)
	}
	// The client notices that its token has ended, asks for another one with the old password, and hears about that.
	_, err := alice.Put(ctx, "a/1", "v")
	wantError(t, "a token of before", err, rpctypes.ErrGRPCAuthFailed)

	for _, c := range []struct {
		user, password string
		want           bool
	}{{"root", "rootpw", true}, {"root", "rootpw", true}, {"root", "x", false}, {"alice", "other", false}, {"bob", "", false}} {
		revision, got := s.door.RootBasic("192.0.2.1", c.user, c.password)
		if _, now := s.door.Catalogue(); got != c.want || got && revision != now {
			t.Errorf("basic %s:%s is %v at revision %d", c.user, c.password, got, revision)
		}
	}
	must(root.UserChangePassword(ctx, "root", "newroot"))(t)
	_, old := s.door.RootBasic("192.0.2.1", "root", "rootpw")
	if _, ok := s.door.RootBasic("192.0.2.1", "root", "newroot"); old || !ok {
		t.Error("basic remembers a password that was changed")
	}
}

// The calls that alice, who may read and write a/ and read b/, may make and may not.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := serve(t, cheap)
	root, ctx := enableAuth(t, s), context.Background()
	alice, nobody := s.as(t, "alice", "alicepw"), s.client(t)
	put(t, root, "b/1", "v")
	put(t, root, "c/1", "v")
	lease := must(root.Grant(ctx, 1000))(t).ID
	put(t, root, "c/leased", "v", clientv3.WithLease(lease))
	mine := must(alice.Grant(ctx, 1000))(t).ID
	put(t, alice, "a/leased", "v", clientv3.WithLease(mine))
	denied, ok := rpctypes.ErrGRPCPermissionDenied, error(nil)
	txn := func(cmp []clientv3.Cmp, ops ...clientv3.Op) func(c *clientv3.Client) error {
		return func(c *clientv3.Client) error { _, err := c.Txn(ctx).If(cmp...).Then(ops...).Commit(); return err }
	}
	for _, step := range []struct {
		name string
		do   func(c *clientv3.Client) error
		want error
	}{
		{"put a", func(c *clientv3.Client) error { _, err := c.Put(ctx, "a/1", "v"); return err }, ok},
		{"put a with previous", func(c *clientv3.Client) error { _, err := c.Put(ctx, "a/1", "v", clientv3.WithPrevKV()); return err }, ok},
		{"put b", func(c *clientv3.Client) error { _, err := c.Put(ctx, "b/1", "v"); return err }, denied},
		{"get b", func(c *clientv3.Client) error { _, err := c.Get(ctx, "b/1"); return err }, ok},
		{"get b serializable", func(c *clientv3.Client) error { _, err := c.Get(ctx, "b/1", clientv3.WithSerializable()); return err }, ok},
		{"get c serializable", func(c *clientv3.Client) error { _, err := c.Get(ctx, "c/1", clientv3.WithSerializable()); return err }, denied},
		{"get all of b", func(c *clientv3.Client) error { _, err := c.Get(ctx, "b/", clientv3.WithPrefix()); return err }, ok},
		{"get from b", func(c *clientv3.Client) error { _, err := c.Get(ctx, "b/", clientv3.WithFromKey()); return err }, denied},
		{"get a to b", func(c *clientv3.Client) error { _, err := c.Get(ctx, "a/", clientv3.WithRange("b0")); return err }, denied},
		{"stream b", func(c *clientv3.Client) error { return stream(ctx, c, "b/", "b0") }, ok},
		{"stream c", func(c *clientv3.Client) error { return stream(ctx, c, "c/", "c0") }, denied},
		{"delete a", func(c *clientv3.Client) error { _, err := c.Delete(ctx, "a/1"); return err }, ok},
		{"delete b", func(c *clientv3.Client) error { _, err := c.Delete(ctx, "b/1"); return err }, denied},
		{"delete all", func(c *clientv3.Client) error { _, err := c.Delete(ctx, "", clientv3.WithPrefix()); return err }, denied},
		{"txn a", txn(nil, clientv3.OpPut("a/1", "v"), clientv3.OpGet("b/1")), ok},
		{"txn comparing c", txn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("c/1"), "=", 0)}, clientv3.OpPut("a/1", "v")), denied},
		{"txn reading c", txn(nil, clientv3.OpGet("c/1")), denied},
		{"txn deep in c", txn(nil, clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("c/1", "v")}, nil)})), denied},
		{"txn deep in a", txn(nil, clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpPut("a/1", "v")})), ok},
		{"compact", func(c *clientv3.Client) error { _, err := c.Compact(ctx, 2); return err }, denied},
		{"watch b", func(c *clientv3.Client) error { return watchOnce(ctx, c, "b/1") }, ok},
		{"watch c", func(c *clientv3.Client) error { return watchOnce(ctx, c, "c/1") }, denied},
		{"put with a lease of c", func(c *clientv3.Client) error {
			_, err := c.Put(ctx, "a/1", "v", clientv3.WithLease(lease))
			return err
		}, denied},
		{"txn with a lease of c", txn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("a/1"), "=", 99)}, clientv3.OpPut("a/1", "v", clientv3.WithLease(lease))), denied},
		{"put with own lease", func(c *clientv3.Client) error { _, err := c.Put(ctx, "a/1", "v", clientv3.WithLease(mine)); return err }, ok},
		{"renew a lease of c", func(c *clientv3.Client) error { _, err := c.KeepAliveOnce(ctx, lease); return err }, denied},
		{"renew own lease", func(c *clientv3.Client) error { _, err := c.KeepAliveOnce(ctx, mine); return err }, ok},
		{"time of a lease of c", func(c *clientv3.Client) error { _, err := c.TimeToLive(ctx, lease); return err }, ok},
		{"keys of a lease of c", func(c *clientv3.Client) error {
			_, err := c.TimeToLive(ctx, lease, clientv3.WithAttachedKeys())
			return err
		}, denied},
		{"keys of own lease", func(c *clientv3.Client) error {
			_, err := c.TimeToLive(ctx, mine, clientv3.WithAttachedKeys())
			return err
		}, ok},
		{"list leases", func(c *clientv3.Client) error { _, err := c.Leases(ctx); return err }, denied},
		{"revoke a lease of c", func(c *clientv3.Client) error { _, err := c.Revoke(ctx, lease); return err }, denied},
		{"revoke own lease", func(c *clientv3.Client) error { _, err := c.Revoke(ctx, mine); return err }, ok},
		{"lock in a", func(c *clientv3.Client) error {
			_, err := lpb.NewLockClient(c.ActiveConnection()).Lock(ctx, &lpb.LockRequest{Name: []byte("a/lock")})
			return err
		}, ok},
		{"lock in c", func(c *clientv3.Client) error {
			_, err := lpb.NewLockClient(c.ActiveConnection()).Lock(ctx, &lpb.LockRequest{Name: []byte("c/lock")})
			return err
		}, denied},
		{"leader in c", func(c *clientv3.Client) error {
			_, err := epb.NewElectionClient(c.ActiveConnection()).Leader(ctx, &epb.LeaderRequest{Name: []byte("c/e")})
			return err
		}, denied},
		{"own roles", func(c *clientv3.Client) error { _, err := c.UserGet(ctx, "alice"); return err }, ok},
		{"own role", func(c *clientv3.Client) error { _, err := c.RoleGet(ctx, "reader"); return err }, ok},
		{"others' roles", func(c *clientv3.Client) error { _, err := c.UserGet(ctx, "root"); return err }, denied},
		{"others' role", func(c *clientv3.Client) error { _, err := c.RoleGet(ctx, "root"); return err }, denied},
	} {
		if got := step.do(alice); !sameError(got, step.want) {
			t.Errorf("%s: alice hears %v, want %v", step.name, got, step.want)
		}
		if got := step.do(nobody); !sameError(got, rpctypes.ErrGRPCUserEmpty) {
			t.Errorf("%s: nobody hears %v", step.name, got)
		}
	}
	if _, err := root.Leases(ctx); err != nil {
		t.Errorf("root lists leases: %v", err)
	}
	if _, err := root.Revoke(ctx, lease); err != nil {
		t.Errorf("root revokes: %v", err)
	}
}

func sameError(got, want error) bool {
	if want == nil || got == nil {
		return got == want
	}
	text := status.Convert(want).Message()
	return strings.Contains(got.Error(), text) || status.Convert(got).Message() == text
}

func stream(ctx context.Context, c *clientv3.Client, key, end string) error {
	s, err := pb.NewKVClient(c.ActiveConnection()).RangeStream(ctx, &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)})
	if err == nil {
		_, err = s.Recv()
	}
	return err
}

// watchOnce returns how the creation of a watch ends.
func watchOnce(ctx context.Context, c *clientv3.Client, key string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, ok := <-c.Watch(ctx, key, clientv3.WithCreatedNotify())
	if !ok {
		return errors.New("the watch ended without a word")
	}
	return r.Err()
}

// Everything that administers asks for the role root; the rest of what is asked of a server asks for a name.
func TestAdministration(t *testing.T) {
	t.Parallel()
	s := serve(t, cheap)
	root, ctx := enableAuth(t, s), context.Background()
	alice, nobody := s.as(t, "alice", "alicepw"), s.client(t)
	calls := []struct {
		name  string
		admin bool
		do    func(c *clientv3.Client) error
	}{
		{"status", false, func(c *clientv3.Client) error { _, err := c.Status(ctx, s.addr); return err }},
		{"member list", false, func(c *clientv3.Client) error { _, err := c.MemberList(ctx); return err }},
		{"alarm list", false, func(c *clientv3.Client) error { _, err := c.AlarmList(ctx); return err }},
		{"grant", false, func(c *clientv3.Client) error { _, err := c.Grant(ctx, 100); return err }},
		{"alarm disarm", true, func(c *clientv3.Client) error {
			_, err := pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE})
			return err
		}},
		{"defragment", true, func(c *clientv3.Client) error {
			_, err := pb.NewMaintenanceClient(c.ActiveConnection()).Defragment(ctx, &pb.DefragmentRequest{})
			return err
		}},
		{"hash", true, func(c *clientv3.Client) error {
			_, err := pb.NewMaintenanceClient(c.ActiveConnection()).HashKV(ctx, &pb.HashKVRequest{})
			return err
		}},
		{"snapshot", true, func(c *clientv3.Client) error {
			st, err := pb.NewMaintenanceClient(c.ActiveConnection()).Snapshot(ctx, &pb.SnapshotRequest{})
			if err == nil {
				_, err = st.Recv()
			}
			return err
		}},
		{"compact", true, func(c *clientv3.Client) error { _, err := c.Compact(ctx, 1); return err }},
		{"user list", true, func(c *clientv3.Client) error { _, err := c.UserList(ctx); return err }},
		{"role list", true, func(c *clientv3.Client) error { _, err := c.RoleList(ctx); return err }},
		{"user add", true, func(c *clientv3.Client) error { _, err := c.UserAdd(ctx, "bob", "x"); return err }},
		{"password", true, func(c *clientv3.Client) error { _, err := c.UserChangePassword(ctx, "bob", "y"); return err }},
		{"grant role", true, func(c *clientv3.Client) error { _, err := c.UserGrantRole(ctx, "bob", "reader"); return err }},
		{"revoke role", true, func(c *clientv3.Client) error { _, err := c.UserRevokeRole(ctx, "bob", "reader"); return err }},
		{"user delete", true, func(c *clientv3.Client) error { _, err := c.UserDelete(ctx, "bob"); return err }},
		{"role add", true, func(c *clientv3.Client) error { _, err := c.RoleAdd(ctx, "r2"); return err }},
		{"grant permission", true, func(c *clientv3.Client) error {
			_, err := c.RoleGrantPermission(ctx, "r2", "x", "", clientv3.PermissionType(clientv3.PermRead))
			return err
		}},
		{"revoke permission", true, func(c *clientv3.Client) error { _, err := c.RoleRevokePermission(ctx, "r2", "x", ""); return err }},
		{"role delete", true, func(c *clientv3.Client) error { _, err := c.RoleDelete(ctx, "r2"); return err }},
		{"member promote", true, func(c *clientv3.Client) error {
			if _, err := c.MemberPromote(ctx, 1); !sameError(err, rpctypes.ErrGRPCMemberNotFound) {
				return err
			}
			return nil
		}},
		{"member add", true, func(c *clientv3.Client) error {
			if _, err := c.MemberAdd(ctx, []string{"http://127.0.0.1:1"}); !strings.Contains(fmt.Sprint(err), "unhealthy") {
				return err
			}
			return nil
		}},
		{"enable", true, func(c *clientv3.Client) error { _, err := c.AuthEnable(ctx); return err }},
		{"disable", true, func(c *clientv3.Client) error { _, err := c.AuthDisable(ctx); return err }},
	}
	for _, call := range calls {
		if err := call.do(nobody); !sameError(err, rpctypes.ErrGRPCUserEmpty) {
			t.Errorf("%s: nobody hears %v", call.name, err)
		}
		err := call.do(alice)
		if call.admin && !sameError(err, rpctypes.ErrGRPCPermissionDenied) || !call.admin && err != nil {
			t.Errorf("%s: alice hears %v", call.name, err)
		}
		if err := call.do(root); err != nil {
			t.Errorf("%s: root hears %v", call.name, err)
		}
	}
}

// Users and roles are found again by a member that restarts, as is whether they count.
func TestSwitchedOffMeansNobodyIsAsked(t *testing.T) {
	t.Parallel()
	s := serve(t, cheap)
	root, ctx := enableAuth(t, s), context.Background()
	token := must(pb.NewAuthClient(root.ActiveConnection()).Authenticate(ctx, &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"}))(t).Token
	must(root.AuthDisable(ctx))(t)
	c := s.client(t)
	with := metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
	if _, err := pb.NewKVClient(c.ActiveConnection()).Put(with, &pb.PutRequest{Key: []byte("c")}); err != nil {
		t.Errorf("with a token nobody asks for: %v", err)
	}
	must(c.AuthEnable(ctx))(t)
	_, err := pb.NewKVClient(s.wire(t)).Put(with, &pb.PutRequest{Key: []byte("a/1")})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a token of before authentication was off: %v", err)
	}
}

// TestUsersAreBoundedByMemory: every member has all users and roles in memory. Additions beyond this server's share are refused with the
// remedy; removals still work.
func TestUsersAreBoundedByMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{BcryptCost: 4, MaxIdentBytes: func() int64 { return 200 }})
	c, ctx := s.client(t), context.Background()
	added := 0
	var err error
	for ; added < 50 && err == nil; added++ {
		_, err = c.UserAdd(ctx, fmt.Sprintf("user%d", added), "secret")
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "the least --memory of a member has room for 200") || added < 2 || added > 5 {
		t.Fatalf("after %d users: %v", added, err)
	}
	if _, err := c.RoleAdd(ctx, "r"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a role: %v", err)
	}
	must(c.UserChangePassword(ctx, "user0", "other"))(t)
	for i := range added - 1 {
		must(c.UserDelete(ctx, fmt.Sprintf("user%d", i)))(t)
	}
	must(c.RoleAdd(ctx, "r"))(t)
}
