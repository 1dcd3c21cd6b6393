package kv

import (
	"context"
	"encoding/base64"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/door/port"
	"github.com/holdfastdb/holdfast/entry"
	eident "github.com/holdfastdb/holdfast/entry/ident"
	"github.com/holdfastdb/holdfast/node"
)

// authServer is etcdserverpb.Auth in front of the identity machine. Changes are commands that name who asks for them and are
// judged where they are applied; questions are answered from this member's state after a read round.
type authServer struct {
	pb.UnsafeAuthServer
	d *Door
}

// errPasswordForNone is etcd's error for a password given for a user without one. It is not in etcd's table of codes.
var errPasswordForNone = status.Error(codes.Unknown, "auth: authentication failed, password was given for no password user")

// administer carries a change of users, roles or the switch through the log.
func (d *Door) administer(ctx context.Context, p eident.Part) error {
	a, err := d.accessNow(ctx)
	if err != nil {
		return err
	}
	if a != nil {
		p.Actor = a.name
	}
	res, err := d.node.Propose(d.bounded(ctx), node.LaneSystem, identPart(&p))
	if err != nil {
		return grpcError(err)
	}
	if res.Rejection != nil {
		return rejected(res.Rejection)
	}
	return nil
}

func identPart(p *eident.Part) entry.Part {
	return entry.Part{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, p)}
}

// consult is called first for every read of users and roles. The answer is for the access returned, which is nil while
// authentication is off; the state to read is d.users.State() then.
func (d *Door) consult(ctx context.Context) (*access, error) {
	if err := d.node.Linearize(d.bounded(ctx)); err != nil {
		return nil, grpcError(err)
	}
	return d.access(ctx)
}

func (s *authServer) AuthEnable(ctx context.Context, _ *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	if why := s.d.opts.RefuseAuthEnable; why != "" && !s.d.users.State().Enabled {
		return nil, status.Error(codes.FailedPrecondition, "auth enable: "+why)
	}
	if err := s.d.administer(ctx, eident.Part{Enable: &eident.Enable{}}); err != nil {
		return nil, err
	}
	return &pb.AuthEnableResponse{Header: s.d.pbHeader(0)}, nil
}

func (s *authServer) AuthDisable(ctx context.Context, _ *pb.AuthDisableRequest) (*pb.AuthDisableResponse, error) {
	if err := s.d.administer(ctx, eident.Part{Disable: &eident.Disable{}}); err != nil {
		return nil, err
	}
	return &pb.AuthDisableResponse{Header: s.d.pbHeader(0)}, nil
}

// AuthStatus is open to everybody, but a token that is sent must be good.
func (s *authServer) AuthStatus(ctx context.Context, _ *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	if _, err := s.d.consult(ctx); err != nil {
		return nil, err
	}
	st := s.d.users.State()
	return &pb.AuthStatusResponse{Header: s.d.pbHeader(0), Enabled: st.Enabled, AuthRevision: st.Revision}, nil
}

// Authenticate compares the password outside the log and has the log confirm that it was still the one.
func (s *authServer) Authenticate(ctx context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	d := s.d
	if err := d.node.Linearize(d.bounded(ctx)); err != nil {
		return nil, grpcError(err)
	}
	for {
		st := d.users.State()
		if !st.Enabled {
			return nil, rpctypes.ErrGRPCAuthNotEnabled
		}
		u := st.User(r.Name)
		var hash []byte
		if u != nil && !u.NoPassword {
			hash = u.Verifier(eident.Bcrypt)
		}
		switch ok, err := d.passwords.matches(d.bounded(ctx), hostOf(ctx), r.Name, hash, r.Password); {
		case err != nil:
			return nil, err
		case u != nil && u.NoPassword:
			return nil, errPasswordForNone
		case !ok:
			return nil, rpctypes.ErrGRPCAuthFailed
		}
		token, again, err := d.tokens.issue(ctx, st, u)
		if err != nil {
			return nil, err
		}
		if !again {
			return &pb.AuthenticateResponse{Header: d.pbHeader(0), Token: token}, nil
		}
	}
}

// hostOf is the address a call came from, without its port. The JSON gateway calls from within this process and names the HTTP
// client it calls for; the same field from outside the process is ignored.
func hostOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if p.Addr.Network() == inProcess {
		if v := metadata.ValueFromIncomingContext(ctx, "x-forwarded-for"); len(v) > 0 {
			list := v[len(v)-1]
			return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
		}
	}
	return port.HostOf(p.Addr)
}

// inProcess is the network of a net.Pipe.
const inProcess = "pipe"

// verifiers derives what the log keeps of a password: nothing but a hash leaves this function.
func (s *authServer) verifiers(ctx context.Context, password string) ([]eident.Verifier, error) {
	// Hashing is expensive on purpose, so the permission is checked first.
	if err := s.d.mayAdminister(ctx); err != nil {
		return nil, err
	}
	hash, err := s.d.passwords.hash(s.d.bounded(ctx), password)
	if err != nil {
		return nil, err
	}
	return []eident.Verifier{{Scheme: eident.Bcrypt, Data: hash}}, nil
}

func (s *authServer) UserAdd(ctx context.Context, r *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	add := eident.UserAdd{Name: r.Name, NoPassword: r.Options.GetNoPassword()}
	if !add.NoPassword {
		var err error
		if add.Verifiers, err = s.verifiers(ctx, r.Password); err != nil {
			return nil, err
		}
	}
	if err := s.d.administer(ctx, eident.Part{UserAdd: &add}); err != nil {
		return nil, err
	}
	return &pb.AuthUserAddResponse{Header: s.d.pbHeader(0)}, nil
}

// UserChangePassword: an empty password is one that nothing matches. As with etcd a client may bring the hash itself.
func (s *authServer) UserChangePassword(ctx context.Context, r *pb.AuthUserChangePasswordRequest) (*pb.AuthUserChangePasswordResponse, error) {
	change := eident.UserPassword{Name: r.Name}
	switch {
	case r.Password != "":
		var err error
		if change.Verifiers, err = s.verifiers(ctx, r.Password); err != nil {
			return nil, err
		}
	case r.HashedPassword != "":
		hash, err := base64.StdEncoding.DecodeString(r.HashedPassword)
		if err != nil || len(hash) > eident.MaxVerifierBytes {
			return nil, errPasswordForNone
		}
		change.Verifiers = []eident.Verifier{{Scheme: eident.Bcrypt, Data: hash}}
	}
	if err := s.d.administer(ctx, eident.Part{UserPassword: &change}); err != nil {
		return nil, err
	}
	return &pb.AuthUserChangePasswordResponse{Header: s.d.pbHeader(0)}, nil
}

func (s *authServer) UserDelete(ctx context.Context, r *pb.AuthUserDeleteRequest) (*pb.AuthUserDeleteResponse, error) {
	if err := s.d.administer(ctx, eident.Part{UserDelete: &eident.UserDelete{Name: r.Name}}); err != nil {
		return nil, err
	}
	return &pb.AuthUserDeleteResponse{Header: s.d.pbHeader(0)}, nil
}

// UserGet: every user may read its own entry.
func (s *authServer) UserGet(ctx context.Context, r *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	a, err := s.d.consult(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.admin(); err != nil && r.Name != a.name {
		return nil, err
	}
	u := s.d.users.State().User(r.Name)
	if u == nil {
		return nil, rpctypes.ErrGRPCUserNotFound
	}
	return &pb.AuthUserGetResponse{Header: s.d.pbHeader(0), Roles: u.Roles}, nil
}

func (s *authServer) UserList(ctx context.Context, _ *pb.AuthUserListRequest) (*pb.AuthUserListResponse, error) {
	a, err := s.d.consult(ctx)
	if err == nil {
		err = a.admin()
	}
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserListResponse{Header: s.d.pbHeader(0), Users: s.d.users.State().Users()}, nil
}

func (s *authServer) UserGrantRole(ctx context.Context, r *pb.AuthUserGrantRoleRequest) (*pb.AuthUserGrantRoleResponse, error) {
	if err := s.d.administer(ctx, eident.Part{UserGrant: &eident.UserGrant{Name: r.User, Role: r.Role}}); err != nil {
		return nil, err
	}
	return &pb.AuthUserGrantRoleResponse{Header: s.d.pbHeader(0)}, nil
}

func (s *authServer) UserRevokeRole(ctx context.Context, r *pb.AuthUserRevokeRoleRequest) (*pb.AuthUserRevokeRoleResponse, error) {
	if err := s.d.administer(ctx, eident.Part{UserRevoke: &eident.UserRevoke{Name: r.Name, Role: r.Role}}); err != nil {
		return nil, err
	}
	return &pb.AuthUserRevokeRoleResponse{Header: s.d.pbHeader(0)}, nil
}

func (s *authServer) RoleAdd(ctx context.Context, r *pb.AuthRoleAddRequest) (*pb.AuthRoleAddResponse, error) {
	if err := s.d.administer(ctx, eident.Part{RoleAdd: &eident.RoleAdd{Name: r.Name}}); err != nil {
		return nil, err
	}
	return &pb.AuthRoleAddResponse{Header: s.d.pbHeader(0)}, nil
}

func (s *authServer) RoleDelete(ctx context.Context, r *pb.AuthRoleDeleteRequest) (*pb.AuthRoleDeleteResponse, error) {
	if err := s.d.administer(ctx, eident.Part{RoleDelete: &eident.RoleDelete{Name: r.Role}}); err != nil {
		return nil, err
	}
	return &pb.AuthRoleDeleteResponse{Header: s.d.pbHeader(0)}, nil
}

// everything is the permission shown for the role root, which has none stored.
var everything = &authpb.Permission{PermType: authpb.READWRITE, Key: []byte{}, RangeEnd: []byte{0}}

// RoleGet: every user may read the roles it has.
func (s *authServer) RoleGet(ctx context.Context, r *pb.AuthRoleGetRequest) (*pb.AuthRoleGetResponse, error) {
	a, err := s.d.consult(ctx)
	if err != nil {
		return nil, err
	}
	st := s.d.users.State()
	if err := a.admin(); err != nil {
		if u := st.User(a.name); u == nil || !u.Has(r.Role) {
			return nil, err
		}
	}
	role := st.Role(r.Role)
	if role == nil {
		return nil, rpctypes.ErrGRPCRoleNotFound
	}
	resp := &pb.AuthRoleGetResponse{Header: s.d.pbHeader(0)}
	if role.Name == eident.Root {
		resp.Perm = []*authpb.Permission{everything}
		return resp, nil
	}
	for i := range role.Permissions {
		p := &role.Permissions[i]
		resp.Perm = append(resp.Perm, &authpb.Permission{PermType: authpb.Permission_Type(p.Access), Key: p.Key, RangeEnd: p.End})
	}
	return resp, nil
}

func (s *authServer) RoleList(ctx context.Context, _ *pb.AuthRoleListRequest) (*pb.AuthRoleListResponse, error) {
	a, err := s.d.consult(ctx)
	if err == nil {
		err = a.admin()
	}
	if err != nil {
		return nil, err
	}
	return &pb.AuthRoleListResponse{Header: s.d.pbHeader(0), Roles: s.d.users.State().Roles()}, nil
}

func (s *authServer) RoleGrantPermission(ctx context.Context, r *pb.AuthRoleGrantPermissionRequest) (*pb.AuthRoleGrantPermissionResponse, error) {
	if r.Perm == nil {
		return nil, s.refuse(ctx, rpctypes.ErrGRPCPermissionNotGiven)
	}
	if r.Perm.PermType < authpb.READ || r.Perm.PermType > authpb.READWRITE {
		return nil, s.refuse(ctx, rpctypes.ErrGRPCInvalidAuthMgmt) // etcd stores it, although it permits nothing
	}
	grant := eident.RoleGrant{Name: r.Name, Permission: eident.Permission{Access: eident.Access(r.Perm.PermType), Key: r.Perm.Key, End: r.Perm.RangeEnd}}
	if err := s.d.administer(ctx, eident.Part{RoleGrant: &grant}); err != nil {
		return nil, err
	}
	return &pb.AuthRoleGrantPermissionResponse{Header: s.d.pbHeader(0)}, nil
}

// refuse returns err for a request that makes no sense, unless the client lacks the permission to ask: then it hears that
// first.
func (s *authServer) refuse(ctx context.Context, reason error) error {
	if err := s.d.mayAdminister(ctx); err != nil {
		return err
	}
	return reason
}

func (s *authServer) RoleRevokePermission(ctx context.Context, r *pb.AuthRoleRevokePermissionRequest) (*pb.AuthRoleRevokePermissionResponse, error) {
	revoke := eident.RoleRevoke{Name: r.Role, Key: r.Key, End: r.RangeEnd}
	if err := s.d.administer(ctx, eident.Part{RoleRevoke: &revoke}); err != nil {
		return nil, err
	}
	return &pb.AuthRoleRevokePermissionResponse{Header: s.d.pbHeader(0)}, nil
}
