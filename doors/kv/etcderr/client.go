package etcderr

import (
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ThroughClient returns what a client of etcd's Lock and Election services hears for err. etcd runs these services on its own client
// library, which keeps the text of etcd's errors and loses their code: the client hears Unknown. Every other error stays as it is.
func ThroughClient(err error) error {
	var known rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &known) {
		return status.Error(codes.Unknown, known.Error())
	}
	return err
}
