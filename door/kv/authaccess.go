package kv

import (
	"context"
	"crypto/tls"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/holdfastdb/holdfast/entry"
	eident "github.com/holdfastdb/holdfast/entry/ident"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
	mident "github.com/holdfastdb/holdfast/machine/ident"
)

// access is who asks and the catalogue by which that is judged. A nil access means that authentication is off: its methods then
// allow everything, so that callers need no check of their own.
//
// A catalogue can change between judging and doing. A write carries the catalogue's revision into the log and is refused there
// if it is another by then (propose). A read looks again when it is done (stands). In both cases the door repeats the request,
// where etcd answers "revision of auth store is old".
type access struct {
	st    *mident.State
	name  string
	given bool // the request named a user, by a token or certificate
	// revision is that of the catalogue at which the client proved its identity: the state's own, except for signed tokens,
	// which are good only until the catalogue changes.
	revision uint64
}

// access finds out who asks. It is one atomic load while authentication is off.
func (d *Door) access(ctx context.Context) (*access, error) {
	if !d.users.State().Enabled {
		return nil, nil
	}
	a := &access{}
	if token, ok := tokenOf(ctx); ok {
		if a.name, a.revision, a.given = d.tokens.owner(ctx, token); !a.given {
			if !d.users.State().Enabled {
				return nil, nil // authentication was switched off meanwhile
			}
			return nil, rpctypes.ErrGRPCInvalidAuthToken
		}
	} else if d.opts.ClientCertAuth {
		a.name, a.given = commonName(ctx)
	}
	// Taken only now, because this member may have learned of the user while it looked for the token.
	if a.st = d.users.State(); !a.st.Enabled {
		return nil, nil
	}
	if a.revision == 0 && a.given {
		a.revision = a.st.Revision
	}
	if a.given && a.revision < a.st.Revision {
		return nil, rpctypes.ErrGRPCAuthOldRevision // whatever is asked: the user may have been removed or replaced since
	}
	return a, nil
}

// accessNow is access by a catalogue that has everything acknowledged before: a signed token is good for one revision only, and
// a member that is behind would judge it by an older one. It is for calls that administer, of which there are few.
func (d *Door) accessNow(ctx context.Context) (*access, error) {
	if _, signed := d.tokens.(*signedTokens); signed && d.users.State().Enabled {
		if err := d.node.Linearize(d.bounded(ctx)); err != nil {
			return nil, grpcError(err)
		}
	}
	return d.access(ctx)
}

// tokenOf returns the token a request carries. HTTP clients send it in another field, some as a bearer token.
func tokenOf(ctx context.Context) (string, bool) {
	v := metadata.ValueFromIncomingContext(ctx, rpctypes.TokenFieldNameGRPC)
	if len(v) == 0 {
		v = metadata.ValueFromIncomingContext(ctx, rpctypes.TokenFieldNameSwagger)
	}
	if len(v) == 0 {
		return "", false
	}
	return strings.TrimPrefix(v[0], "Bearer "), true
}

// commonName returns the name in the certificate the client showed. A request that came through a JSON gateway shows the
// gateway's own certificate, which says nothing about the client.
func commonName(ctx context.Context) (string, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", false
	}
	if len(metadata.ValueFromIncomingContext(ctx, "grpcgateway-accept")) > 0 {
		return "", false
	}
	var state tls.ConnectionState
	switch info := p.AuthInfo.(type) {
	case credentials.TLSInfo:
		state = info.State
	default:
		return "", false
	}
	for _, chain := range state.VerifiedChains {
		if len(chain) > 0 {
			return chain[0].Subject.CommonName, true
		}
	}
	return "", false
}

// stands reports whether a request judged by a would be judged the same way now. A nil a means that authentication was off.
func (d *Door) stands(a *access) bool {
	now := d.users.State()
	if a == nil {
		return !now.Enabled
	}
	return now == a.st || !now.Enabled || now.Revision == a.st.Revision
}

// reading runs read, which looks at the state. before judges the request, after judges what was read; both may be nil, and
// neither is called while authentication is off. If the catalogue has changed by the end, all is done again.
func (d *Door) reading(ctx context.Context, before func(*access) error, read func() error, after func(*access) error) error {
	for {
		a, err := d.access(ctx)
		if err == nil && a != nil && before != nil {
			err = before(a)
		}
		if err == nil && read != nil {
			err = read()
		}
		if err == nil && a != nil && after != nil {
			err = after(a)
		}
		if err != nil || d.stands(a) {
			return err
		}
	}
}

// mayAsk refuses requests without a user, for questions open to every user.
func (d *Door) mayAsk(ctx context.Context) error {
	a, err := d.access(ctx)
	if err != nil {
		return err
	}
	return a.named()
}

// mayAdminister refuses users without the role root. A change of members or of leadership that was permitted a moment before
// the role is taken away goes through, as in etcd: only root could arrange that.
func (d *Door) mayAdminister(ctx context.Context) error {
	a, err := d.accessNow(ctx)
	if err != nil {
		return err
	}
	return a.admin()
}

// rangeFor answers a linearizable Range that a recipe makes for its client, with the client's permissions.
func (d *Door) rangeFor(ctx context.Context, r *ekv.Range) (res *ekv.RangeResult, revision int64, err error) {
	if err := d.node.Linearize(d.bounded(ctx)); err != nil {
		return nil, 0, grpcError(err)
	}
	err = d.reading(ctx, func(a *access) error { return a.may(eident.Read, r.Key, r.End) }, func() (err error) {
		res, revision, err = d.read(r, d.opts.MaxResultBytes)
		return grpcError(err)
	}, nil)
	return res, revision, err
}

// named refuses requests without a user.
func (a *access) named() error {
	if a != nil && !a.given {
		return rpctypes.ErrGRPCUserEmpty
	}
	return nil
}

// admin refuses users without the role root.
func (a *access) admin() error {
	if a == nil {
		return nil
	}
	if code := a.st.Admin(a.name); code != 0 {
		return identError(code)
	}
	return nil
}

// may refuses users without permission for all of [key, end).
func (a *access) may(what eident.Access, key, end []byte) error {
	switch {
	case a == nil:
		return nil
	case !a.given || a.revision == 0:
		return rpctypes.ErrGRPCUserEmpty
	case a.revision < a.st.Revision:
		return rpctypes.ErrGRPCAuthOldRevision
	case !a.st.Permits(a.name, what, key, end):
		return rpctypes.ErrGRPCPermissionDenied
	}
	return nil
}

// mayTxn judges both branches whatever they compare, as etcd does, down to the last nested Txn. It also reports whether a put
// attaches a key to a lease.
func (a *access) mayTxn(t *ekv.Txn) (leased bool, err error) {
	for i := range t.Compare {
		if err := a.may(eident.Read, t.Compare[i].Key, t.Compare[i].End); err != nil {
			return false, err
		}
	}
	for _, branch := range [2][]ekv.Op{t.Then, t.Else} {
		for i := range branch {
			var inner bool
			switch op := &branch[i]; {
			case op.Range != nil:
				err = a.may(eident.Read, op.Range.Key, op.Range.End)
			case op.Put != nil:
				inner, err = op.Put.Lease != 0, a.mayPut(op.Put)
			case op.Delete != nil:
				err = a.mayDelete(op.Delete)
			case op.Txn != nil:
				inner, err = a.mayTxn(op.Txn)
			}
			if err != nil {
				return false, err
			}
			leased = leased || inner
		}
	}
	return leased, nil
}

func (a *access) mayPut(p *ekv.Put) error {
	err := a.may(eident.Write, p.Key, nil)
	if err == nil && p.PrevKV {
		err = a.may(eident.Read, p.Key, nil)
	}
	return err
}

func (a *access) mayDelete(del *ekv.DeleteRange) error {
	err := a.may(eident.Write, del.Key, del.End)
	if err == nil && del.PrevKV {
		err = a.may(eident.Read, del.Key, del.End)
	}
	return err
}

// mayLease refuses users who lack permission for one of the lease's keys. For a user with all permissions the keys are not
// read.
func (d *Door) mayLease(a *access, what eident.Access, lease int64) error {
	if a == nil || a.admin() == nil {
		return nil
	}
	if err := a.named(); err != nil {
		return err
	}
	var refusal error
	err := d.kv.EachLeaseKey(lease, func(key []byte) bool {
		refusal = a.may(what, key, nil)
		return refusal == nil
	})
	if err != nil {
		return grpcError(err)
	}
	return refusal
}

// permitted judges a part that is about to be proposed and returns the command: the part with a pass for what was judged.
func (a *access) permitted(body []byte) ([]entry.Part, error) {
	part, err := ekv.Decode(body)
	if err != nil {
		return nil, errMalformed // cannot be: the door has encoded it itself
	}
	leased := false
	switch {
	case part.Put != nil:
		leased, err = part.Put.Lease != 0, a.mayPut(part.Put)
	case part.Delete != nil:
		err = a.mayDelete(part.Delete)
	case part.Txn != nil:
		leased, err = a.mayTxn(part.Txn)
	case part.Grant != nil:
		err = a.named()
	case part.Revoke != nil:
		leased, err = true, a.named()
	default: // compaction, alarms
		err = a.admin()
	}
	if err != nil {
		return nil, err
	}
	if leased {
		if body, err = a.limited(part, body); err != nil {
			return nil, err
		}
	}
	pass := identPart(&eident.Part{Pass: &eident.Pass{Revision: a.st.Revision}})
	return []entry.Part{pass, {Machine: entry.MachineKV, Body: body}}, nil
}

// limited adds to a part that has to do with leases which keys the user may write: the lease may have other keys by the time
// the part is applied.
func (a *access) limited(part *ekv.Part, body []byte) ([]byte, error) {
	spans, all := a.st.Writable(a.name)
	if all {
		return body, nil
	}
	if len(spans) > ekv.MaxSpans {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	part.Within = &ekv.Within{Spans: make([]ekv.Span, len(spans))}
	for i, s := range spans {
		part.Within.Spans[i] = ekv.Span{From: []byte(s.From), To: []byte(s.To)}
	}
	return ekv.Append(make([]byte, 0, len(body)+32*len(spans)), part), nil
}

// outdated reports whether a command was refused only because the catalogue is not what the door judged by.
func outdated(r *entry.Rejection) bool {
	return r != nil && r.Machine == entry.MachineIdent && (r.Code == eident.OldRevision || r.Code == eident.PassMissing)
}

// identError says which of etcd's errors a client hears for a refusal of the identity machine.
func identError(code entry.Code) error {
	switch code {
	case eident.UserEmpty, eident.PassMissing:
		return rpctypes.ErrGRPCUserEmpty
	case eident.UserNotFound:
		return rpctypes.ErrGRPCUserNotFound
	case eident.UserExists:
		return rpctypes.ErrGRPCUserAlreadyExist
	case eident.RoleEmpty:
		return rpctypes.ErrGRPCRoleEmpty
	case eident.RoleNotFound:
		return rpctypes.ErrGRPCRoleNotFound
	case eident.RoleExists:
		return rpctypes.ErrGRPCRoleAlreadyExist
	case eident.RoleNotGranted:
		return rpctypes.ErrGRPCRoleNotGranted
	case eident.PermissionNotGranted:
		return rpctypes.ErrGRPCPermissionNotGranted
	case eident.RootUserMissing:
		return rpctypes.ErrGRPCRootUserNotExist
	case eident.RootRoleMissing:
		return rpctypes.ErrGRPCRootRoleNotExist
	case eident.ManagementRefused:
		return rpctypes.ErrGRPCInvalidAuthMgmt
	case eident.Denied:
		return rpctypes.ErrGRPCPermissionDenied
	case eident.OldRevision:
		return rpctypes.ErrGRPCAuthOldRevision
	case eident.NotEnabled:
		return rpctypes.ErrGRPCAuthNotEnabled
	case eident.TokenNotFound:
		return rpctypes.ErrGRPCInvalidAuthToken
	case eident.Full:
		return rpctypes.ErrGRPCNoSpace
	}
	return errMalformed
}
