package kv_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

	doorkv "github.com/holdfastdb/holdfast/door/kv"
	"github.com/holdfastdb/holdfast/internal/certtest"
)

// cheap makes passwords quick to check: these tests are not about guessing them.
var cheap = doorkv.Options{BcryptCost: 4}

// as connects as a user.
func (s *server) as(t testing.TB, user, password string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
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

// What alice, who may read and write a/ and read b/, may do and may not.
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

// A token is good at every member at once, and bad at every member once its password is changed.
func TestTokensAreKnownToEveryMember(t *testing.T) {
	t.Parallel()
	servers := serveThree(t, cheap)
	root, ctx := enableAuth(t, servers[0]), context.Background()
	token := func(s *server, password string) string {
		r, err := pb.NewAuthClient(s.wire(t)).Authenticate(ctx, &pb.AuthenticateRequest{Name: "alice", Password: password})
		if err != nil {
			t.Fatal(err)
		}
		return r.Token
	}
	try := func(s *server, token string) error {
		ctx := metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
		_, err := pb.NewKVClient(s.wire(t)).Put(ctx, &pb.PutRequest{Key: []byte("a/1")})
		return err
	}
	for i, from := range servers {
		tok := token(from, "alicepw")
		for j, at := range servers {
			if err := try(at, tok); err != nil {
				t.Errorf("token of member %d at member %d: %v", i, j, err)
			}
		}
	}
	tok := token(servers[1], "alicepw")
	must(root.UserChangePassword(ctx, "alice", "new"))(t)
	fresh := token(servers[2], "new")
	for i, at := range servers {
		// A member that has not heard of the change yet lets nothing through either: the log knows.
		if err := try(at, tok); err == nil && at == servers[0] {
			t.Errorf("member %d takes a token of an old password", i)
		}
		if err := try(at, fresh); err != nil {
			t.Errorf("member %d refuses the new token: %v", i, err)
		}
		if err := try(at, tok); !sameError(err, rpctypes.ErrGRPCInvalidAuthToken) {
			t.Errorf("member %d: %v", i, err)
		}
		for _, bad := range []string{"", "x", "x.y", "x.1", "x.18446744073709551615", tok + "1"} {
			if err := try(at, bad); !sameError(err, rpctypes.ErrGRPCInvalidAuthToken) {
				t.Errorf("token %q at member %d: %v", bad, i, err)
			}
		}
	}
}

// A token lives as long as it is used.
func TestTokenTimeToLive(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{BcryptCost: 4, AuthTokenTTL: 600 * time.Millisecond})
	enableAuth(t, s)
	c, ctx := s.wire(t), context.Background()
	r := must(pb.NewAuthClient(c).Authenticate(ctx, &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"}))(t)
	with := metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, r.Token)
	get := func() error {
		_, err := pb.NewKVClient(c).Range(with, &pb.RangeRequest{Key: []byte("a/1")})
		return err
	}
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := get(); err != nil {
			t.Fatalf("while it is used: %v", err)
		}
	}
	time.Sleep(700 * time.Millisecond)
	wantError(t, "after it was not used", get(), rpctypes.ErrGRPCInvalidAuthToken)
}

// While alice writes through every member as fast as she can, root takes her role away: no write that began afterwards
// succeeds, wherever it was sent.
func TestRevokedMeansRevokedEverywhere(t *testing.T) {
	t.Parallel()
	servers := serveThree(t, cheap)
	root, ctx := enableAuth(t, servers[0]), context.Background()
	var mu sync.Mutex
	var revoked time.Time
	var wg sync.WaitGroup
	stop, denied := make(chan struct{}), make(chan struct{}, 64)
	for _, s := range servers {
		for range 4 {
			alice := s.as(t, "alice", "alicepw")
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					began := time.Now()
					_, err := alice.Put(ctx, "a/1", "v")
					mu.Lock()
					late := !revoked.IsZero() && began.After(revoked)
					mu.Unlock()
					switch {
					case err == nil && late:
						t.Error("a write after the revocation succeeded")
						return
					case err != nil && !sameError(err, rpctypes.ErrGRPCPermissionDenied):
						t.Errorf("alice hears %v", err)
						return
					case err != nil:
						denied <- struct{}{}
						return
					}
				}
			})
		}
	}
	// Changes that do not concern alice go on all the time: her writes are judged anew and she does not notice.
	for i := range 20 {
		must(root.RoleAdd(ctx, fmt.Sprintf("r%d", i)))(t)
	}
	must(root.UserRevokeRole(ctx, "alice", "reader"))(t)
	mu.Lock()
	revoked = time.Now()
	mu.Unlock()
	for range 12 {
		select {
		case <-denied:
		case <-time.After(10 * time.Second):
			t.Error("somebody may still write")
		}
		if t.Failed() {
			break
		}
	}
	close(stop)
	wg.Wait()
}

func TestSignedTokens(t *testing.T) {
	t.Parallel()
	rsaKey := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	ecKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	edPub, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	private := func(k any) []byte { der, err := x509.MarshalPKCS8PrivateKey(k); return encode("PRIVATE KEY", der, err) }
	public := func(k any) []byte { der, err := x509.MarshalPKIXPublicKey(k); return encode("PUBLIC KEY", der, err) }
	files := map[string][]byte{"rsa": private(rsaKey), "rsa.pub": public(&rsaKey.PublicKey), "ec": private(ecKey), "ec.pub": public(&ecKey.PublicKey),
		"ed": private(edKey), "ed.pub": public(edPub), "secret": []byte("a secret of some length"), "empty": nil}
	read := func(name string) ([]byte, error) {
		if b, ok := files[name]; ok {
			return b, nil
		}
		return nil, os.ErrNotExist
	}
	for _, c := range []struct{ spec, problem string }{
		{"simple", ""}, {"jwt,sign-method=RS256,pub-key=rsa.pub,priv-key=rsa,ttl=3s", ""}, {"jwt,sign-method=PS512,priv-key=rsa", ""},
		{"jwt,sign-method=ES256,pub-key=ec.pub,priv-key=ec", ""}, {"jwt,sign-method=EdDSA,pub-key=ed.pub,priv-key=ed", ""},
		{"jwt,sign-method=HS384,priv-key=secret", ""}, {"jwt,sign-method=RS256,pub-key=rsa.pub", ""},
		{"", "neither"}, {"magic", "neither"}, {"jwt", "sign-method"}, {"jwt,sign-method=none,priv-key=rsa", "sign-method none"},
		{"jwt,sign-method=RS256", "missing key"}, {"jwt,sign-method=HS256,pub-key=secret", "missing key"},
		{"jwt,sign-method=RS256,priv-key=no", "priv-key"}, {"jwt,sign-method=RS256,priv-key=ec", "priv-key"}, {"jwt,sign-method=RS256,priv-key=empty", "missing key"},
		{"jwt,sign-method=RS256,pub-key=ec.pub,priv-key=rsa", "pub-key"}, {"jwt,sign-method=EdDSA,priv-key=rsa", "priv-key"},
		{"jwt,sign-method=RS256,priv-key=rsa,ttl=x", "ttl"}, {"jwt,sign-method=RS256,sign-method=RS256", "sign-method"}, {"jwt,x", "x"},
	} {
		err := doorkv.CheckAuthToken(c.spec, read)
		if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%q: %v", c.spec, err)
		}
	}
	for _, spec := range []string{"RS256,pub-key=rsa.pub,priv-key=rsa", "ES256,priv-key=ec", "EdDSA,priv-key=ed", "HS256,priv-key=secret"} {
		s := serve(t, doorkv.Options{BcryptCost: 4, ReadFile: read, AuthToken: "jwt,ttl=2s,sign-method=" + spec})
		root, ctx := enableAuth(t, s), context.Background()
		c := s.wire(t)
		r := must(pb.NewAuthClient(c).Authenticate(ctx, &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"}))(t)
		try := func(token string) error {
			with := metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameSwagger, "Bearer "+token)
			_, err := pb.NewKVClient(c).Range(with, &pb.RangeRequest{Key: []byte("a/1")})
			return err
		}
		if err := try(r.Token); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		broken := []byte(r.Token)
		broken[len(broken)-10] ^= 1
		wantError(t, spec+": a broken token", try(string(broken)), rpctypes.ErrGRPCInvalidAuthToken)
		admin := must(pb.NewAuthClient(c).Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: "rootpw"}))(t)
		must(root.RoleAdd(ctx, "another"))(t)
		wantError(t, spec+": after a change", try(r.Token), rpctypes.ErrGRPCAuthOldRevision)
		old := metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, admin.Token)
		for what, call := range map[string]func() error{
			"add a user": func() error {
				_, err := pb.NewAuthClient(c).UserAdd(old, &pb.AuthUserAddRequest{Name: "mallory", Password: "m"})
				return err
			},
			"grant": func() error {
				_, err := pb.NewAuthClient(c).UserGrantRole(old, &pb.AuthUserGrantRoleRequest{User: "alice", Role: "root"})
				return err
			},
			"list users": func() error { _, err := pb.NewAuthClient(c).UserList(old, &pb.AuthUserListRequest{}); return err },
			"look at himself": func() error {
				_, err := pb.NewAuthClient(c).UserGet(old, &pb.AuthUserGetRequest{Name: "root"})
				return err
			},
			"save a snapshot": func() error {
				s, err := pb.NewMaintenanceClient(c).Snapshot(old, &pb.SnapshotRequest{})
				if err == nil {
					_, err = s.Recv()
				}
				return err
			},
			"list members": func() error { _, err := pb.NewClusterClient(c).MemberList(old, &pb.MemberListRequest{}); return err },
			"grant a lease": func() error {
				_, err := pb.NewLeaseClient(c).LeaseGrant(old, &pb.LeaseGrantRequest{TTL: 60})
				return err
			},
			"list leases":   func() error { _, err := pb.NewLeaseClient(c).LeaseLeases(old, &pb.LeaseLeasesRequest{}); return err },
			"compact":       func() error { _, err := pb.NewKVClient(c).Compact(old, &pb.CompactionRequest{Revision: 1}); return err },
			"switch it off": func() error { _, err := pb.NewAuthClient(c).AuthDisable(old, &pb.AuthDisableRequest{}); return err },
		} {
			if err := call(); status.Convert(err).Message() != status.Convert(rpctypes.ErrGRPCAuthOldRevision).Message() {
				t.Errorf("%s: with root's token from before the change, to %s: %v", spec, what, err)
			}
		}
		put(t, s.as(t, "alice", "alicepw"), "a/1", "v") // a client that asks for a new one
		if strings.HasPrefix(spec, "HS") {
			time.Sleep(3 * time.Second)
			wantError(t, spec+": after its time", try(r.Token), rpctypes.ErrGRPCInvalidAuthToken)
		}
	}
	// A member with only the public key judges tokens and issues none.
	s := serve(t, doorkv.Options{BcryptCost: 4, ReadFile: read, AuthToken: "jwt,sign-method=RS256,pub-key=rsa.pub"})
	c, ctx := s.client(t), context.Background()
	must(c.UserAdd(ctx, "root", "rootpw"))(t)
	must(c.UserGrantRole(ctx, "root", "root"))(t)
	must(c.AuthEnable(ctx))(t)
	_, err = c.Authenticate(ctx, "root", "rootpw")
	if status.Convert(err).Message() != "auth: token signing attempted with verify-only key" {
		t.Errorf("%v", err)
	}
}

// Where certificates are asked for, their name is the user's, unless a token says otherwise.
func TestCertificateIsAUser(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	s := serve(t, doorkv.Options{BcryptCost: 4, ClientCertAuth: true, TLS: ca.Server()})
	ctx := context.Background()
	as := func(name string) *clientv3.Client {
		c := must(clientv3.New(clientv3.Config{Endpoints: []string{"https://" + s.addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
			TLS: ca.Config(ca.Issue(name))}))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
	root, alice, bob := as("root"), as("alice"), as("bob")
	must(root.UserAddWithOptions(ctx, "root", "", &clientv3.UserAddOptions{NoPassword: true}))(t)
	must(root.UserGrantRole(ctx, "root", "root"))(t)
	must(root.UserAdd(ctx, "alice", "alicepw"))(t)
	must(root.RoleAdd(ctx, "reader"))(t)
	must(root.RoleGrantPermission(ctx, "reader", "a", "", clientv3.PermissionType(clientv3.PermReadWrite)))(t)
	must(root.UserGrantRole(ctx, "alice", "reader"))(t)
	must(root.AuthEnable(ctx))(t)
	put(t, root, "b", "v")
	put(t, alice, "a", "v")
	_, err := alice.Put(ctx, "b", "v")
	wantError(t, "alice", err, rpctypes.ErrGRPCPermissionDenied)
	_, err = bob.Put(ctx, "a", "v")
	wantError(t, "bob, who does not exist", err, rpctypes.ErrGRPCPermissionDenied)
	_, err = bob.UserList(ctx)
	wantError(t, "bob administers", err, rpctypes.ErrGRPCUserNotFound)
	// A gateway's certificate is the gateway's.
	_, err = root.Put(metadata.AppendToOutgoingContext(ctx, "grpcgateway-accept", "*/*"), "b", "v")
	wantError(t, "through a gateway", err, rpctypes.ErrGRPCUserEmpty)
	r := must(pb.NewAuthClient(root.ActiveConnection()).Authenticate(ctx, &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"}))(t)
	_, err = root.Put(metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, r.Token), "b", "v")
	wantError(t, "root's certificate with alice's token", err, rpctypes.ErrGRPCPermissionDenied)
}

// TestGatewayTellsWhoShowsACertificate: the name in it could not count, so the request is refused; as the original does.
func TestGatewayTellsWhoShowsACertificate(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	secure := ca.Server()
	secure.NextProtos = []string{"h2", "http/1.1"}
	s := serve(t, doorkv.Options{BcryptCost: 4, ClientCertAuth: true, TLS: secure})
	ask := func(http2 bool, name, path, token string) string {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: ca.Config(ca.Issue(name)), ForceAttemptHTTP2: http2}
		defer transport.CloseIdleConnections()
		req := must(http.NewRequest("POST", "https://"+s.addr+path, strings.NewReader(`{"key":"YQ=="}`)))(t)
		if token != "" {
			req.Header.Set("Authorization", token)
		}
		resp := must(transport.RoundTrip(req))(t)
		defer resp.Body.Close()
		return fmt.Sprintf("%d %s", resp.StatusCode, must(io.ReadAll(resp.Body))(t))
	}
	c := must(clientv3.New(clientv3.Config{Endpoints: []string{"https://" + s.addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		TLS: ca.Config(ca.Issue("root"))}))(t)
	defer c.Close()
	const told = "400 CommonName of client sending a request against gateway will be ignored and not used as expected\n"
	for _, http2 := range []bool{false, true} {
		if got := ask(http2, "root", "/v3/kv/range", ""); !strings.HasPrefix(got, "200 ") {
			t.Errorf("HTTP/2 %v, users off: %s", http2, got)
		}
	}
	ctx := context.Background()
	must(c.UserAdd(ctx, "root", "pw"))(t)
	must(c.UserGrantRole(ctx, "root", "root"))(t)
	must(c.AuthEnable(ctx))(t)
	token := must(pb.NewAuthClient(c.ActiveConnection()).Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: "pw"}))(t).Token
	for _, http2 := range []bool{false, true} {
		for _, path := range []string{"/v3/kv/range", "/v3beta/kv/range", "/v3/nosuch"} {
			if got := ask(http2, "root", path, token); got != told {
				t.Errorf("HTTP/2 %v, %s: %s", http2, path, got)
			}
		}
		if got := ask(http2, "", "/v3/kv/range", token); !strings.HasPrefix(got, "200 ") {
			t.Errorf("HTTP/2 %v, a certificate without a name and a token: %s", http2, got)
		}
		if got := ask(http2, "", "/v3/kv/range", ""); !strings.Contains(got, "user name is empty") {
			t.Errorf("HTTP/2 %v, a certificate without a name: %s", http2, got)
		}
		if got := ask(http2, "root", "/health", ""); strings.HasPrefix(got, "400 ") {
			t.Errorf("HTTP/2 %v, not the gateway's: %s", http2, got)
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

// TestARightPasswordBesideGuessers: two hundred guess from other addresses without a pause, at the user's name and at others.
func TestARightPasswordBesideGuessers(t *testing.T) {
	if testing.Short() {
		t.Skip("passwords at full price")
	}
	s := serve(t, doorkv.Options{})
	enableAuth(t, s)
	from := func(host string) pb.AuthClient {
		dial := func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).DialContext(ctx, "tcp", addr)
		}
		c := must(grpc.NewClient("passthrough:///"+s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial)))(t)
		t.Cleanup(func() { c.Close() })
		return pb.NewAuthClient(c)
	}
	median := func(host string) time.Duration {
		c, took := from(host), make([]time.Duration, 9)
		for i := range took {
			began := time.Now()
			must(c.Authenticate(context.Background(), &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"}))(t)
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	alone := median("127.0.1.1")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var guesses atomic.Int64
	for i := range 200 {
		c, name := from(fmt.Sprintf("127.0.2.%d", i+1)), []string{"alice", "root", "nobody"}[i%3]
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := c.Authenticate(ctx, &pb.AuthenticateRequest{Name: name, Password: "guess"})
				if err == nil {
					t.Error("a guess was right")
				}
				guesses.Add(1)
			}
		})
	}
	for guesses.Load() < 3 {
		time.Sleep(10 * time.Millisecond)
	}
	for _, host := range []string{"127.0.1.1", "127.0.1.2"} {
		if beside := median(host); beside > 4*alone {
			t.Errorf("from %s a right password takes %v beside guessers, %v alone", host, beside, alone)
		} else {
			t.Logf("from %s %v, alone %v, %d guesses", host, beside, alone, guesses.Load())
		}
	}
}

// TestEveryNameCostsTheSame: a refusal takes as long as comparing a password, for every name.
func TestEveryNameCostsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("passwords at full price")
	}
	s := serve(t, doorkv.Options{})
	root := enableAuth(t, s)
	must(root.UserAddWithOptions(context.Background(), "cert", "", &clientv3.UserAddOptions{NoPassword: true}))(t)
	c := pb.NewAuthClient(s.client(t).ActiveConnection())
	least := func(f func()) time.Duration {
		took := time.Hour
		for range 4 {
			began := time.Now()
			f()
			took = min(took, time.Since(began))
		}
		return took
	}
	for _, how := range []struct {
		name string
		ask  func(user string)
	}{
		{"Authenticate", func(user string) {
			_, _ = c.Authenticate(context.Background(), &pb.AuthenticateRequest{Name: user, Password: "x"}) // refused
		}},
		{"Basic", func(user string) { s.door.RootBasic("192.0.2."+user, user, "x") }},
	} {
		known := least(func() { how.ask("root") })
		for _, user := range []string{"nobody", "alice", "cert"} {
			if took := least(func() { how.ask(user) }); took < known/2 {
				t.Errorf("%s: %s takes %v, root %v", how.name, user, took, known)
			}
		}
	}
}

// TestUsersAreBoundedByMemory: every member has all users and roles in memory. What would add to them beyond this server's share is
// refused with what to do; taking away still works.
func TestUsersAreBoundedByMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, doorkv.Options{BcryptCost: 4, MaxIdentBytes: 200})
	c, ctx := s.client(t), context.Background()
	added := 0
	var err error
	for ; added < 50 && err == nil; added++ {
		_, err = c.UserAdd(ctx, fmt.Sprintf("user%d", added), "secret")
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "--memory of this server has room for 200") || added < 2 || added > 5 {
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
