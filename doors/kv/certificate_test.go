package kv_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// Where certificates are asked for, their name is the user's, unless a token says otherwise.
func TestCertificateIsAUser(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	s := serve(t, doorkv.Options{BcryptCost: 4, ClientCertAuth: true, TLS: ca.Server()})
	ctx := context.Background()
	as := func(name string) *clientv3.Client {
		c := must(clientv3.New(clientv3.Config{Endpoints: []string{"https://" + s.addr}, DialTimeout: wait.Limit(t), Logger: zap.NewNop(),
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
	c := must(clientv3.New(clientv3.Config{Endpoints: []string{"https://" + s.addr}, DialTimeout: wait.Limit(t), Logger: zap.NewNop(),
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
