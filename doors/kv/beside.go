package kv

import (
	"context"
	"net/http"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// Beside makes the parts of a Txn that another door commits in one command with a part of its own. A false compare refuses the Txn and the
// whole command. While authentication is on, a pass for the user of token comes first. Beside judges form, size, quota and permissions as
// for a Txn through this door. If code, an HTTP status, is not 0, there are no parts and text has the reason in etcd's words; 503 may be
// tried again. t is not kept.
//
// If a command is rejected because users or roles have changed (eident.OldRevision, eident.PassMissing), call Beside again.
func (d *Door) Beside(ctx context.Context, token string, t *kvpart.Txn) (parts []entry.Part, code int, text string) {
	parts, err := d.beside(ctx, token, t)
	if err == nil {
		return parts, 0, ""
	}
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unauthenticated:
		code = http.StatusUnauthorized
	case codes.PermissionDenied:
		code = http.StatusForbidden
	case codes.InvalidArgument, codes.FailedPrecondition:
		code = http.StatusBadRequest
	case codes.ResourceExhausted, codes.Unavailable:
		code = http.StatusServiceUnavailable
	default:
		code = http.StatusInternalServerError
	}
	return nil, code, s.Message()
}

func (d *Door) beside(ctx context.Context, token string, t *kvpart.Txn) ([]entry.Part, error) {
	if err := checkTxn(t, d.opts.MaxTxnOps); err != nil {
		return nil, err
	}
	part := &kvpart.Part{Must: true, Txn: t}
	body := kvpart.Append(nil, part)
	if len(body) > d.opts.MaxRequestBytes {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	if token != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(rpctypes.TokenFieldNameSwagger, token))
	}
	a, err := d.users.Access(ctx)
	if err != nil {
		return nil, err
	}
	parts := []entry.Part{{Machine: entry.MachineKV, Body: body}}
	if a != nil {
		if parts, err = a.Permitted(part, body); err != nil {
			return nil, err
		}
	}
	return parts, d.admitWrite(ctx, costTxn(t))
}
