package kv

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
)

// Beside makes the parts of a Txn that another door is about to commit in one command with a part of its own: the Txn, which is refused and
// the command with it where a compare is false, and while authentication is on a pass before it, for the user of token. It judges what
// is judged of a Txn that comes by this door: form, size, quota, permissions. Errors are gRPC statuses in etcd's words. t is not kept.
//
// A command that is rejected because users or roles have changed (eident.OldRevision, eident.PassMissing) is to be made anew by another
// call.
func (d *Door) Beside(ctx context.Context, token string, t *ekv.Txn) ([]entry.Part, error) {
	if err := checkTxn(t, d.opts.MaxTxnOps); err != nil {
		return nil, err
	}
	body := ekv.Append(nil, &ekv.Part{Must: true, Txn: t})
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
		if parts, err = a.Permitted(body); err != nil {
			return nil, err
		}
	}
	return parts, d.admitWrite(ctx, costTxn(t))
}
