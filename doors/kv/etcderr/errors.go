// Package etcderr maps errors of the node and rejections of a machine to etcd's errors, with etcd's codes and texts. It decides nothing:
// its callers decide about refusals.
package etcderr

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/node"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// AnswerTooLarge refuses a unary Range whose answer would not fit the memory a single answer may take.
var AnswerTooLarge = status.Error(codes.ResourceExhausted,
	"etcdserver: range response is larger than this server buffers for one answer; use limit, or RangeStream, which has no bound, or give it more --memory")

// TxnAnswerTooLarge: the same for a Txn that wrote; by then it is applied.
var TxnAnswerTooLarge = status.Error(codes.ResourceExhausted,
	"etcdserver: the transaction was applied, but its answer is larger than this server buffers for one answer; limit its ranges")

// Malformed answers a command this build's machine does not accept although the door let it pass.
var Malformed = status.Error(codes.InvalidArgument, "etcdserver: malformed request")

// nodeErrors maps each of the node's errors to etcd's. An unknown outcome is a time-out, which every etcd client knows to mean just that. A
// superseded command is provably dead, and "leader changed" is etcd's text for a request that may be sent again.
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
	{kvmachine.ErrCompacted, rpctypes.ErrGRPCCompacted},
	{kvmachine.ErrFutureRevision, rpctypes.ErrGRPCFutureRev},
	{kvmachine.ErrTooLarge, AnswerTooLarge},
}

// Of translates an error of the node or of the kv machine. A gRPC status passes through, and nil stays nil.
func Of(err error) error {
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

// Rejected translates the rejection of a command. It is never nil.
func Rejected(r *entry.Rejection) error {
	switch r.Code {
	case kvpart.KeyNotFound:
		return rpctypes.ErrGRPCKeyNotFound
	case kvpart.LeaseNotFound:
		return rpctypes.ErrGRPCLeaseNotFound
	case kvpart.LeaseExists:
		return rpctypes.ErrGRPCLeaseExist
	case kvpart.Compacted:
		return rpctypes.ErrGRPCCompacted
	case kvpart.FutureRevision:
		return rpctypes.ErrGRPCFutureRev
	case kvpart.Malformed:
		return Malformed
	case kvpart.LeaseDenied:
		return rpctypes.ErrGRPCPermissionDenied
	}
	if r.Machine == entry.MachineIdent {
		return Ident(r.Code)
	}
	return status.Error(codes.Unknown, r.Error())
}

// Ident is Rejected for a refusal of the identity machine, by its code.
func Ident(code entry.Code) error {
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
	return Malformed
}
