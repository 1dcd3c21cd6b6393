package crash

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestUsersHold: users, a role and tokens are on every member, and stay over kill -9 of each and of all. A member that lost its
// disk, was removed and joined again has them from a snapshot alone.
func TestUsersHold(t *testing.T) {
	processTest(t, false)
	beside(t)
	rounds := count("USER_ROUNDS", 1, 8)
	r := rng(t)
	c := start(t, 3)
	cli := dial(t, c.Endpoints()...)
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(cli.UserAdd(ctx, "root", "rootpw"))
	must(cli.UserGrantRole(ctx, "root", "root"))
	must(cli.RoleAdd(ctx, "writer"))
	must(cli.RoleGrantPermission(ctx, "writer", "a/", "a0", clientv3.PermissionType(clientv3.PermReadWrite)))
	must(cli.UserAdd(ctx, "alice", "alicepw"))
	must(cli.UserGrantRole(ctx, "alice", "writer"))
	must(cli.AuthEnable(ctx))
	u := &users{}
	for _, n := range c.Nodes { // each from another member
		res, err := pb.NewAuthClient(conn(t, n.KV)).Authenticate(ctx, &pb.AuthenticateRequest{Name: "alice", Password: "alicepw"})
		if err != nil {
			t.Fatal(err)
		}
		u.tokens = append(u.tokens, res.Token)
	}
	root := u.root(t, c)
	status, err := root.AuthStatus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	u.revision = status.AuthRevision
	kills, wiped := 0, 0
	for range rounds {
		for _, n := range c.Nodes {
			kill(t, n)
			kills++
			if err := c.Restart(n); err != nil {
				t.Fatal(err)
			}
			u.hold(t, n)
		}
		for _, n := range c.Nodes {
			kill(t, n)
			kills++
		}
		for _, n := range c.Nodes {
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
		for _, n := range c.Nodes {
			u.hold(t, n)
		}
		n := c.Nodes[r.IntN(3)]
		u.rejoin(t, c, n, other(r, c, n))
		wiped++
		for _, n := range c.Nodes {
			u.hold(t, n)
		}
	}
	summary(t, "users: %d kills, %d members wiped and joined by snapshot; users, role, %d tokens held at all of %d checks", kills, wiped, len(u.tokens), u.checks)
}

// users is what must hold.
type users struct {
	tokens   []string // alice's
	revision uint64
	checks   int
}

// root is a client with the user root, which has all permissions.
func (u *users) root(t *testing.T, c *proctest.Cluster) *clientv3.Client {
	t.Helper()
	cli, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: wait.Limit(t), Logger: zap.NewNop(), Username: "root", Password: "rootpw"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Close() })
	return cli
}

// hold checks on one member everything that must be there.
func (u *users) hold(t *testing.T, n *proctest.Node) {
	t.Helper()
	u.checks++
	cc, ctx := conn(t, n.KV), wait.Context(t)
	with := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
	}
	put := func(ctx context.Context, key string) error {
		_, err := pb.NewKVClient(cc).Put(ctx, &pb.PutRequest{Key: []byte(key), Value: []byte("v")})
		return rpctypes.Error(err)
	}
	for i, token := range u.tokens {
		if err := put(with(token), "a/1"); err != nil {
			t.Errorf("%s: alice's token %d: %v", n.Name, i, err)
		}
		if err := put(with(token), "b/1"); err != rpctypes.ErrPermissionDenied {
			t.Errorf("%s: alice writes what she may not: %v", n.Name, err)
		}
	}
	if err := put(ctx, "a/1"); err != rpctypes.ErrUserEmpty {
		t.Errorf("%s: nobody writes: %v", n.Name, err)
	}
	res, err := pb.NewAuthClient(cc).Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: "rootpw"})
	if err != nil {
		t.Fatalf("%s: root's password: %v", n.Name, err)
	}
	as, auth := with(res.Token), pb.NewAuthClient(cc)
	list, err := auth.UserList(as, &pb.AuthUserListRequest{})
	if err != nil || strings.Join(list.Users, " ") != "alice root" {
		t.Errorf("%s: users %v, %v", n.Name, list, err)
	}
	role, err := auth.RoleGet(as, &pb.AuthRoleGetRequest{Role: "writer"})
	if err != nil || len(role.Perm) != 1 || string(role.Perm[0].Key) != "a/" || string(role.Perm[0].RangeEnd) != "a0" {
		t.Errorf("%s: role %v, %v", n.Name, role, err)
	}
	if st, err := auth.AuthStatus(as, &pb.AuthStatusRequest{}); err != nil || !st.Enabled || st.AuthRevision != u.revision {
		t.Errorf("%s: status %v, %v, want revision %d", n.Name, st, err, u.revision)
	}
	for user, want := range map[string]int{"": http.StatusUnauthorized, "alice": http.StatusUnauthorized, "root": http.StatusOK} {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+n.KV+"/v2/keys/k", strings.NewReader("value=v"))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if user != "" {
			req.SetBasicAuth(user, user+"pw")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want && !(want == http.StatusOK && res.StatusCode == http.StatusCreated) {
			t.Errorf("%s: v2 as %q: %s", n.Name, user, res.Status)
		}
	}
}

// rejoin takes a member's disk away, removes it and joins it again through another one, and waits until it votes.
func (u *users) rejoin(t *testing.T, c *proctest.Cluster, n, through *proctest.Node) {
	t.Helper()
	root := u.root(t, c)
	res, err := root.MemberList(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(res.Members, func(m *pb.Member) bool { return m.Name == n.Name })
	kill(t, n)
	wipe(t, n)
	if _, err := root.MemberRemove(wait.Context(t), res.Members[i].ID); err != nil {
		t.Fatal(err)
	}
	bin, err := proctest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	n.Process = proctest.NewProcess(filepath.Join(c.Dir, n.Name+".log"), bin, "serve", "--data", n.Dir, "--name", n.Name,
		"--kv", n.KV, "--admin", n.Admin, "--peer", n.Peer, "--join", through.Peer)
	if err := c.Restart(n); err != nil {
		t.Fatal(err)
	}
	votes := func() bool { // a learner answers no such question
		_, err := pb.NewAuthClient(conn(t, n.KV)).Authenticate(within(t, 5*time.Second), &pb.AuthenticateRequest{Name: "root", Password: "rootpw"})
		return err == nil
	}
	if !eventually(t, votes) {
		t.Fatalf("%s did not become a voter again in 30 s", n.Name)
	}
	if got, _ := metric(t, n, "holdfast_snapshots_installed_total"); got < 1 {
		t.Errorf("%s joined without a snapshot", n.Name)
	}
}
