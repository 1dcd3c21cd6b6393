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
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/wait"
)

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
	const life = 600 * time.Millisecond
	s := serve(t, doorkv.Options{BcryptCost: 4, AuthTokenTTL: life})
	enableAuth(t, s)
	c, ctx := s.wire(t), context.Background()
	var with context.Context
	var began time.Time
	begin := func() {
		began = time.Now()
		r := must(pb.NewAuthClient(c).Authenticate(ctx, &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"}))(t)
		with = metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, r.Token)
	}
	get := func() error {
		_, err := pb.NewKVClient(c).Range(with, &pb.RangeRequest{Key: []byte("a/1")})
		return err
	}
	end := time.Now().Add(wait.Limit(t))
	for begin(); time.Since(began) < 5*life/2; time.Sleep(life / 12) {
		err := get()
		if err == nil {
			continue
		}
		if time.Now().After(end) {
			t.Fatalf("no token that is used lives longer than one that is not: %v", err)
		}
		begin() // a busy machine notes the use too late
	}
	time.Sleep(life + life/6)
	wantError(t, "after it was not used", get(), rpctypes.ErrGRPCInvalidAuthToken)
}

// While alice writes through every member as fast as she can, root takes her role away. No write that began afterwards succeeds, wherever
// it was sent.
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
		case <-time.After(wait.Limit(t)):
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
		s := serve(t, doorkv.Options{BcryptCost: 4, ReadFile: read, AuthToken: "jwt,ttl=1h,sign-method=" + spec})
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
	}
	// A token has its time.
	short := serve(t, doorkv.Options{BcryptCost: 4, ReadFile: read, AuthToken: "jwt,ttl=1s,sign-method=HS256,priv-key=secret"})
	enableAuth(t, short)
	conn := short.wire(t)
	brief := must(pb.NewAuthClient(conn).Authenticate(context.Background(), &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"}))(t)
	wait.Until(t, "a token of one second ends", func() bool {
		with := metadata.AppendToOutgoingContext(context.Background(), rpctypes.TokenFieldNameSwagger, "Bearer "+brief.Token)
		_, err := pb.NewKVClient(conn).Range(with, &pb.RangeRequest{Key: []byte("a/1")})
		if err != nil && status.Convert(err).Message() != status.Convert(rpctypes.ErrGRPCInvalidAuthToken).Message() {
			t.Fatal(err)
		}
		return err != nil
	})
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
