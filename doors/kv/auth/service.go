package auth

import (
	"context"
	"encoding/base64"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/etcderr"
)

// service is etcdserverpb.Auth in front of the identity machine. Changes are commands that name their user and are judged where they are
// applied. Questions are answered from this member's state after a read round.
type service struct {
	pb.UnsafeAuthServer
	u *Users
}

// Service answers etcd's Auth service.
func (u *Users) Service() pb.AuthServer { return &service{u: u} }

// errPasswordForNone is etcd's error for a password given for a user without one. It is not in etcd's table of codes.
var errPasswordForNone = status.Error(codes.Unknown, "auth: authentication failed, password was given for no password user")

// administer carries a change of users, roles or the switch through the log.
func (u *Users) administer(ctx context.Context, p eident.Part) error {
	a, err := u.accessNow(ctx)
	if err != nil {
		return err
	}
	if a != nil {
		p.Actor = a.name
	}
	if u.opts.MaxBytes != nil && grows(&p) {
		if taken, room := u.machine.State().Bytes(), u.opts.MaxBytes(); taken >= room {
			return status.Errorf(codes.ResourceExhausted, "etcdserver: users and roles take %d bytes, and the least --memory of a member has room for %d; "+
				"remove some, or start the members with more", taken, room)
		}
	}
	bound := u.opts.Bounded(ctx)
	res, err := u.opts.Member.Propose(bound, node.LaneSystem, Part(&p))
	if err == nil && u.opts.Written != nil {
		err = u.opts.Written(ctx, bound, res)
	}
	if err != nil {
		return etcderr.Of(err)
	}
	if res.Rejection != nil {
		return etcderr.Rejected(res.Rejection)
	}
	return nil
}

// grows reports whether a change adds to what users and roles take.
func grows(p *eident.Part) bool {
	return p.UserAdd != nil || p.UserGrant != nil || p.RoleAdd != nil || p.RoleGrant != nil
}

// Part is a part for the identity machine.
func Part(p *eident.Part) entry.Part {
	return entry.Part{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, p)}
}

// consult is called first for every read of users and roles. The answer is for the access returned, which is nil while
// authentication is off; the state to read is the catalogue of the moment then.
func (u *Users) consult(ctx context.Context) (*Access, error) {
	if err := u.opts.Member.Linearize(u.opts.Bounded(ctx)); err != nil {
		return nil, etcderr.Of(err)
	}
	return u.Access(ctx)
}

func (s *service) AuthEnable(ctx context.Context, _ *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	if why := s.u.opts.RefuseEnable; why != "" && !s.u.machine.State().Enabled {
		return nil, status.Error(codes.FailedPrecondition, "auth enable: "+why)
	}
	if err := s.u.administer(ctx, eident.Part{Enable: &eident.Enable{}}); err != nil {
		return nil, err
	}
	return &pb.AuthEnableResponse{Header: s.u.opts.Header()}, nil
}

func (s *service) AuthDisable(ctx context.Context, _ *pb.AuthDisableRequest) (*pb.AuthDisableResponse, error) {
	if err := s.u.administer(ctx, eident.Part{Disable: &eident.Disable{}}); err != nil {
		return nil, err
	}
	return &pb.AuthDisableResponse{Header: s.u.opts.Header()}, nil
}

// AuthStatus is open to everybody, but a token that is sent must be good.
func (s *service) AuthStatus(ctx context.Context, _ *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	if _, err := s.u.consult(ctx); err != nil {
		return nil, err
	}
	st := s.u.machine.State()
	return &pb.AuthStatusResponse{Header: s.u.opts.Header(), Enabled: st.Enabled, AuthRevision: st.Revision}, nil
}

// Authenticate compares the password outside the log and has the log confirm that it was still the one.
func (s *service) Authenticate(ctx context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	users := s.u
	if err := users.opts.Member.Linearize(users.opts.Bounded(ctx)); err != nil {
		return nil, etcderr.Of(err)
	}
	for {
		st := users.machine.State()
		if !st.Enabled {
			return nil, rpctypes.ErrGRPCAuthNotEnabled
		}
		u := st.User(r.Name)
		var hash []byte
		if u != nil && !u.NoPassword {
			hash = u.Verifier(eident.Bcrypt)
		}
		switch ok, err := users.matches(ctx, hostOf(ctx), r.Name, hash, r.Password); {
		case err != nil:
			return nil, err
		case u != nil && u.NoPassword:
			return nil, errPasswordForNone
		case !ok:
			return nil, rpctypes.ErrGRPCAuthFailed
		}
		token, again, err := users.tokens.issue(ctx, st, u)
		if err != nil {
			return nil, err
		}
		if !again {
			return &pb.AuthenticateResponse{Header: users.opts.Header(), Token: token}, nil
		}
	}
}

// verifiers derives what the log keeps of a password: nothing but a hash leaves this function.
func (s *service) verifiers(ctx context.Context, password string) ([]eident.Verifier, error) {
	// Hashing is expensive on purpose, so the permission is checked first.
	if err := s.u.MayAdminister(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.u.opts.RequestTimeout)
	defer cancel()
	hash, err := s.u.passwords.hash(ctx, password)
	if err != nil {
		return nil, err
	}
	return []eident.Verifier{{Scheme: eident.Bcrypt, Data: hash}}, nil
}

func (s *service) UserAdd(ctx context.Context, r *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	add := eident.UserAdd{Name: r.Name, NoPassword: r.Options.GetNoPassword()}
	if !add.NoPassword {
		var err error
		if add.Verifiers, err = s.verifiers(ctx, r.Password); err != nil {
			return nil, err
		}
	}
	if err := s.u.administer(ctx, eident.Part{UserAdd: &add}); err != nil {
		return nil, err
	}
	return &pb.AuthUserAddResponse{Header: s.u.opts.Header()}, nil
}

// UserChangePassword: an empty password is one that nothing matches. As with etcd a client may bring the hash itself.
func (s *service) UserChangePassword(ctx context.Context, r *pb.AuthUserChangePasswordRequest) (*pb.AuthUserChangePasswordResponse, error) {
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
	if err := s.u.administer(ctx, eident.Part{UserPassword: &change}); err != nil {
		return nil, err
	}
	return &pb.AuthUserChangePasswordResponse{Header: s.u.opts.Header()}, nil
}

func (s *service) UserDelete(ctx context.Context, r *pb.AuthUserDeleteRequest) (*pb.AuthUserDeleteResponse, error) {
	if err := s.u.administer(ctx, eident.Part{UserDelete: &eident.UserDelete{Name: r.Name}}); err != nil {
		return nil, err
	}
	return &pb.AuthUserDeleteResponse{Header: s.u.opts.Header()}, nil
}

// UserGet: every user may read its own entry.
func (s *service) UserGet(ctx context.Context, r *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	a, err := s.u.consult(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.Admin(); err != nil && r.Name != a.name {
		return nil, err
	}
	u := s.u.machine.State().User(r.Name)
	if u == nil {
		return nil, rpctypes.ErrGRPCUserNotFound
	}
	return &pb.AuthUserGetResponse{Header: s.u.opts.Header(), Roles: u.Roles}, nil
}

func (s *service) UserList(ctx context.Context, _ *pb.AuthUserListRequest) (*pb.AuthUserListResponse, error) {
	a, err := s.u.consult(ctx)
	if err == nil {
		err = a.Admin()
	}
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserListResponse{Header: s.u.opts.Header(), Users: s.u.machine.State().Users()}, nil
}

func (s *service) UserGrantRole(ctx context.Context, r *pb.AuthUserGrantRoleRequest) (*pb.AuthUserGrantRoleResponse, error) {
	if err := s.u.administer(ctx, eident.Part{UserGrant: &eident.UserGrant{Name: r.User, Role: r.Role}}); err != nil {
		return nil, err
	}
	return &pb.AuthUserGrantRoleResponse{Header: s.u.opts.Header()}, nil
}

func (s *service) UserRevokeRole(ctx context.Context, r *pb.AuthUserRevokeRoleRequest) (*pb.AuthUserRevokeRoleResponse, error) {
	if err := s.u.administer(ctx, eident.Part{UserRevoke: &eident.UserRevoke{Name: r.Name, Role: r.Role}}); err != nil {
		return nil, err
	}
	return &pb.AuthUserRevokeRoleResponse{Header: s.u.opts.Header()}, nil
}

func (s *service) RoleAdd(ctx context.Context, r *pb.AuthRoleAddRequest) (*pb.AuthRoleAddResponse, error) {
	if err := s.u.administer(ctx, eident.Part{RoleAdd: &eident.RoleAdd{Name: r.Name}}); err != nil {
		return nil, err
	}
	return &pb.AuthRoleAddResponse{Header: s.u.opts.Header()}, nil
}

func (s *service) RoleDelete(ctx context.Context, r *pb.AuthRoleDeleteRequest) (*pb.AuthRoleDeleteResponse, error) {
	if err := s.u.administer(ctx, eident.Part{RoleDelete: &eident.RoleDelete{Name: r.Role}}); err != nil {
		return nil, err
	}
	return &pb.AuthRoleDeleteResponse{Header: s.u.opts.Header()}, nil
}

// everything is the permission shown for the role root, which has none stored.
var everything = &authpb.Permission{PermType: authpb.READWRITE, Key: []byte{}, RangeEnd: []byte{0}}

// RoleGet: every user may read the roles it has.
func (s *service) RoleGet(ctx context.Context, r *pb.AuthRoleGetRequest) (*pb.AuthRoleGetResponse, error) {
	a, err := s.u.consult(ctx)
	if err != nil {
		return nil, err
	}
	st := s.u.machine.State()
	if err := a.Admin(); err != nil {
		if u := st.User(a.name); u == nil || !u.Has(r.Role) {
			return nil, err
		}
	}
	role := st.Role(r.Role)
	if role == nil {
		return nil, rpctypes.ErrGRPCRoleNotFound
	}
	resp := &pb.AuthRoleGetResponse{Header: s.u.opts.Header()}
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

func (s *service) RoleList(ctx context.Context, _ *pb.AuthRoleListRequest) (*pb.AuthRoleListResponse, error) {
	a, err := s.u.consult(ctx)
	if err == nil {
		err = a.Admin()
	}
	if err != nil {
		return nil, err
	}
	return &pb.AuthRoleListResponse{Header: s.u.opts.Header(), Roles: s.u.machine.State().Roles()}, nil
}

func (s *service) RoleGrantPermission(ctx context.Context, r *pb.AuthRoleGrantPermissionRequest) (*pb.AuthRoleGrantPermissionResponse, error) {
	if r.Perm == nil {
		return nil, s.refuse(ctx, rpctypes.ErrGRPCPermissionNotGiven)
	}
	if r.Perm.PermType < authpb.READ || r.Perm.PermType > authpb.READWRITE {
		return nil, s.refuse(ctx, rpctypes.ErrGRPCInvalidAuthMgmt) // etcd stores it, although it permits nothing
	}
	grant := eident.RoleGrant{Name: r.Name, Permission: eident.Permission{Access: eident.Access(r.Perm.PermType), Key: r.Perm.Key, End: r.Perm.RangeEnd}}
	if err := s.u.administer(ctx, eident.Part{RoleGrant: &grant}); err != nil {
		return nil, err
	}
	return &pb.AuthRoleGrantPermissionResponse{Header: s.u.opts.Header()}, nil
}

// refuse returns err for a request that makes no sense, unless the client lacks the permission to ask: then it hears that
// first.
func (s *service) refuse(ctx context.Context, reason error) error {
	if err := s.u.MayAdminister(ctx); err != nil {
		return err
	}
	return reason
}

func (s *service) RoleRevokePermission(ctx context.Context, r *pb.AuthRoleRevokePermissionRequest) (*pb.AuthRoleRevokePermissionResponse, error) {
	revoke := eident.RoleRevoke{Name: r.Role, Key: r.Key, End: r.RangeEnd}
	if err := s.u.administer(ctx, eident.Part{RoleRevoke: &revoke}); err != nil {
		return nil, err
	}
	return &pb.AuthRoleRevokePermissionResponse{Header: s.u.opts.Header()}, nil
}
