package kv

import (
	"encoding/base64"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/doors/kv/auth"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// ErrForeignRequest: a request of etcd's log that no etcd up to 3.7 writes.
var ErrForeignRequest = errors.New("a request of a kind that etcd 3.7 does not have")

// minReplayTTL is the shortest lease an etcd with its default timeouts grants, in seconds.
const minReplayTTL = 2

// Replay translates one request out of an etcd's log (etcdserverpb.InternalRaftRequest) into the command with the same effects here. It
// judges by the users and alarms at that place of the log, because etcd logs first and judges when it applies. No parts: the request
// changes nothing, or etcd refused it. It is for imports, and belongs to their goroutine.
func Replay(data []byte, users *mident.State, alarms []kvpart.AlarmState) ([]entry.Part, error) {
	var r pb.InternalRaftRequest
	if err := proto.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrForeignRequest, err)
	}
	part, err := replayKV(&r)
	if err != nil {
		return nil, err
	}
	if part != nil {
		return replayed(&r, part, users, alarms)
	}
	p, err := replayAuth(&r)
	if p == nil || err != nil {
		return nil, err
	}
	a := auth.Of(users, r.GetHeader().GetUsername(), r.GetHeader().GetAuthRevision())
	if users.Enabled && (a.Admin() != nil || r.GetHeader().GetAuthRevision() < users.Revision) {
		return nil, nil
	}
	if users.Enabled {
		p.Actor = a.Name()
	}
	return []entry.Part{auth.Part(p)}, nil
}

// replayed puts a part for the kv machine together with a pass, where there are users.
func replayed(r *pb.InternalRaftRequest, part *kvpart.Part, users *mident.State, alarms []kvpart.AlarmState) ([]entry.Part, error) {
	for _, a := range alarms {
		// With either alarm etcd takes nothing that adds data; with a corrupt member nothing that changes any.
		corrupt := pb.AlarmType(a.Type) == pb.AlarmType_CORRUPT
		if part.Put != nil || part.Grant != nil || part.Txn != nil && (corrupt || puts(part.Txn)) ||
			corrupt && part.Alarm == nil {
			return nil, nil
		}
	}
	body := kvpart.Append(nil, part)
	if !users.Enabled {
		return []entry.Part{{Machine: entry.MachineKV, Body: body}}, nil
	}
	if part.Compact != nil || part.Alarm != nil { // members make these themselves, and those of clients were judged before they were logged
		return []entry.Part{auth.Part(&eident.Part{Pass: &eident.Pass{Revision: users.Revision}}), {Machine: entry.MachineKV, Body: body}}, nil
	}
	parts, err := auth.Of(users, r.GetHeader().GetUsername(), r.GetHeader().GetAuthRevision()).Permitted(part, body)
	if err != nil {
		return nil, nil // so did etcd
	}
	return parts, nil
}

// puts reports whether a branch of a Txn may write a key.
func puts(t *kvpart.Txn) bool {
	for _, branch := range [2][]kvpart.Op{t.Then, t.Else} {
		for i := range branch {
			if branch[i].Put != nil || branch[i].Txn != nil && puts(branch[i].Txn) {
				return true
			}
		}
	}
	return false
}

func replayKV(r *pb.InternalRaftRequest) (*kvpart.Part, error) {
	again := func(m proto.Message, decode func(b []byte) error) error {
		b, err := proto.Marshal(m)
		if err == nil {
			err = decode(b)
		}
		return err
	}
	p := &kvpart.Part{}
	var err error
	switch {
	case r.Put != nil:
		p.Put = &kvpart.Put{}
		err = again(r.Put, func(b []byte) error { return decodePut(b, p.Put) })
	case r.DeleteRange != nil:
		p.Delete = &kvpart.DeleteRange{}
		err = again(r.DeleteRange, func(b []byte) error { return decodeDelete(b, p.Delete) })
	case r.Txn != nil:
		p.Txn = &kvpart.Txn{}
		err = again(r.Txn, func(b []byte) error { return decodeTxn(b, p.Txn, &txnTraits{}) })
	case r.Compaction != nil:
		p.Compact = &kvpart.Compact{Revision: r.Compaction.Revision}
	case r.LeaseGrant != nil:
		p.Grant = &kvpart.LeaseGrant{ID: r.LeaseGrant.ID, TTL: max(r.LeaseGrant.TTL, minReplayTTL)}
	case r.LeaseRevoke != nil:
		p.Revoke = &kvpart.LeaseRevoke{IDs: []int64{r.LeaseRevoke.ID}}
	case r.Alarm != nil && r.Alarm.Action != pb.AlarmRequest_GET:
		p.Alarm = &kvpart.Alarm{On: r.Alarm.Action == pb.AlarmRequest_ACTIVATE, Member: r.Alarm.MemberID, Type: kvpart.AlarmType(r.Alarm.Alarm)}
	default:
		return nil, nil
	}
	return p, err
}

func replayAuth(r *pb.InternalRaftRequest) (*eident.Part, error) {
	switch {
	case r.AuthEnable != nil:
		return &eident.Part{Enable: &eident.Enable{}}, nil
	case r.AuthDisable != nil:
		return &eident.Part{Disable: &eident.Disable{}}, nil
	case r.AuthUserAdd != nil:
		u := r.AuthUserAdd
		no := u.GetOptions().GetNoPassword()
		v, err := replayPassword(no, u.Password, u.HashedPassword)
		return &eident.Part{UserAdd: &eident.UserAdd{Name: u.Name, NoPassword: no, Verifiers: v}}, err
	case r.AuthUserChangePassword != nil:
		u := r.AuthUserChangePassword
		v, err := replayPassword(false, u.Password, u.HashedPassword)
		return &eident.Part{UserPassword: &eident.UserPassword{Name: u.Name, Verifiers: v}}, err
	case r.AuthUserDelete != nil:
		return &eident.Part{UserDelete: &eident.UserDelete{Name: r.AuthUserDelete.Name}}, nil
	case r.AuthUserGrantRole != nil:
		return &eident.Part{UserGrant: &eident.UserGrant{Name: r.AuthUserGrantRole.User, Role: r.AuthUserGrantRole.Role}}, nil
	case r.AuthUserRevokeRole != nil:
		return &eident.Part{UserRevoke: &eident.UserRevoke{Name: r.AuthUserRevokeRole.Name, Role: r.AuthUserRevokeRole.Role}}, nil
	case r.AuthRoleAdd != nil:
		return &eident.Part{RoleAdd: &eident.RoleAdd{Name: r.AuthRoleAdd.Name}}, nil
	case r.AuthRoleDelete != nil:
		return &eident.Part{RoleDelete: &eident.RoleDelete{Name: r.AuthRoleDelete.Role}}, nil
	case r.AuthRoleGrantPermission != nil:
		g := r.AuthRoleGrantPermission
		if g.Perm == nil || g.Perm.PermType < authpb.READ || g.Perm.PermType > authpb.READWRITE {
			return nil, nil // etcd refuses it
		}
		return &eident.Part{RoleGrant: &eident.RoleGrant{Name: g.Name,
			Permission: eident.Permission{Access: eident.Access(g.Perm.PermType), Key: g.Perm.Key, End: g.Perm.RangeEnd}}}, nil
	case r.AuthRoleRevokePermission != nil:
		v := r.AuthRoleRevokePermission
		return &eident.Part{RoleRevoke: &eident.RoleRevoke{Name: v.Role, Key: v.Key, End: v.RangeEnd}}, nil
	}
	return nil, nil
}

// replayPassword takes the hash that etcd logs, in base64, or makes one of the password that 3.4 logged.
func replayPassword(none bool, password, hash string) ([]eident.Verifier, error) {
	var b []byte
	var err error
	switch {
	case none:
		return nil, nil
	case hash != "" && password == "":
		if b, err = base64.StdEncoding.DecodeString(hash); err != nil {
			return nil, fmt.Errorf("%w: a password's hash: %v", ErrForeignRequest, err)
		}
	default:
		if b, err = bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost); err != nil {
			return nil, nil // etcd refuses it
		}
	}
	return []eident.Verifier{{Scheme: eident.Bcrypt, Data: b}}, nil
}
