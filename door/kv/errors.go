package kv

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	"github.com/holdfastdb/holdfast/node"
)

// errAnswerTooLarge refuses a unary Range whose answer would not fit the memory a single answer may take.
var errAnswerTooLarge = status.Error(codes.ResourceExhausted,
	"etcdserver: range response is larger than this server buffers for one answer; use limit, or RangeStream, which has no bound")

// errTxnAnswerTooLarge: the same for a Txn that wrote; by then it is applied.
var errTxnAnswerTooLarge = status.Error(codes.ResourceExhausted,
	"etcdserver: the transaction was applied, but its answer is larger than this server buffers for one answer; limit its ranges")

// errMalformed answers a command this build's machine does not accept although the door let it pass.
var errMalformed = status.Error(codes.InvalidArgument, "etcdserver: malformed request")

// nodeErrors says which of etcd's errors a client hears for each of the node's. An unknown outcome is a time-out, which
// every etcd client knows to mean just that; a superseded command is provably dead, and "leader changed" is etcd's text
// for a request that may be sent again.
var nodeErrors = []struct{ from, to error }{
	{node.ErrOverloaded, rpctypes.ErrGRPCRequestTooManyRequests},
	{node.ErrUnknown, rpctypes.ErrGRPCTimeout},
	{node.ErrSuperseded, rpctypes.ErrGRPCLeaderChanged},
	{node.ErrNoLeader, rpctypes.ErrGRPCNoLeader},
	{node.ErrStopped, rpctypes.ErrGRPCStopped},
	{node.ErrTooLarge, rpctypes.ErrGRPCRequestTooLarge},
	{node.ErrNotLeader, rpctypes.ErrGRPCNotLeader},
	{node.ErrMemberNotFound, rpctypes.ErrGRPCMemberNotFound},
	{node.ErrMemberExists, rpctypes.ErrGRPCMemberExist},
	{node.ErrPeerAddrExists, rpctypes.ErrGRPCPeerURLExist},
	{node.ErrNotEnoughStarted, rpctypes.ErrGRPCMemberNotEnoughStarted},
	{node.ErrUnhealthy, rpctypes.ErrGRPCUnhealthy},
	{node.ErrLearnerNotReady, rpctypes.ErrGRPCLearnerNotReady},
	{node.ErrMemberNotLearner, rpctypes.ErrGRPCMemberNotLearner},
	{node.ErrTooManyLearners, rpctypes.ErrGRPCTooManyLearners},
	{node.ErrTransferTargetUnknown, rpctypes.ErrGRPCBadLeaderTransferee},
	{node.ErrTimeoutTransfer, status.Error(codes.Unavailable, "etcdserver: request timed out, leader transfer took too long")},
	{mkv.ErrCompacted, rpctypes.ErrGRPCCompacted},
	{mkv.ErrFutureRevision, rpctypes.ErrGRPCFutureRev},
	{mkv.ErrTooLarge, errAnswerTooLarge},
}

// grpcError translates an error of the node or the machine. What is a gRPC status already passes through.
func grpcError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for _, e := range nodeErrors {
		if errors.Is(err, e.from) {
			return e.to
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return rpctypes.ErrGRPCTimeout
	}
	if errors.Is(err, context.Canceled) {
		return rpctypes.ErrGRPCCanceled
	}
	return status.Error(codes.Unknown, err.Error())
}

// rejected translates the machine's refusal.
func rejected(r *entry.Rejection) error {
	switch r.Code {
	case ekv.KeyNotFound:
		return rpctypes.ErrGRPCKeyNotFound
	case ekv.LeaseNotFound:
		return rpctypes.ErrGRPCLeaseNotFound
	case ekv.LeaseExists:
		return rpctypes.ErrGRPCLeaseExist
	case ekv.Compacted:
		return rpctypes.ErrGRPCCompacted
	case ekv.FutureRevision:
		return rpctypes.ErrGRPCFutureRev
	case ekv.Malformed:
		return errMalformed
	case ekv.LeaseDenied:
		return rpctypes.ErrGRPCPermissionDenied
	}
	if r.Machine == entry.MachineIdent {
		return identError(r.Code)
	}
	return status.Error(codes.Unknown, r.Error())
}
