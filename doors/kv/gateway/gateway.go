// Package gateway is etcd's JSON gateway: it turns a POST of JSON below /v3/ into a gRPC call and the answer into JSON.
//
// It has no semantics of its own. Paths and message types are those that etcd generates for its own gateway. The calls go to the gRPC
// server of this process, so checks, limits and error texts are those of gRPC clients. Streams are newline JSON, {"result":{…}} a message.
package gateway

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	etcdgw "go.etcd.io/etcd/api/v3/etcdserverpb/gw"
	electiongw "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb/gw"
	lockgw "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb/gw"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/port"
)

const (
	prefix = "/v3/"
	// oldPrefix was the gateway's in etcd 3.3; etcd still takes it for the new one.
	oldPrefix = "/v3beta/"
)

// AskerKey is the metadata that names the HTTP request a call is made for (port.AskerOf). A client may send it too: the last
// value is the gateway's.
const AskerKey = "holdfast-asker"

// Prefixes of the paths the gateway answers.
var Prefixes = []string{prefix, oldPrefix}

// Gateway is an http.Handler. It may be called from several goroutines.
type Gateway struct {
	mux  *runtime.ServeMux
	most int
}

// New makes a gateway whose calls go over conn. conn stays the caller's to close. A message of a body may have at most mostValues values.
func New(conn *grpc.ClientConn, mostValues int) (*Gateway, error) {
	// JSON as etcd's gateway has it: proto names, zero fields left out, unknown fields of a request ignored.
	asker := func(ctx context.Context, r *http.Request) metadata.MD {
		md := metadata.MD{}
		if level := r.Header.Get(ack.Header); level != "" {
			md.Set(ack.Metadata, level)
		}
		if n, ok := port.AskerOf(ctx); ok {
			md.Set(AskerKey, strconv.FormatUint(n, 10))
		}
		return md
	}
	mux := runtime.NewServeMux(runtime.WithMetadata(asker), runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.HTTPBodyMarshaler{
		Marshaler: &runtime.JSONPb{
			MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true},
			UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true},
		},
	}))
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		etcdgw.RegisterKVHandler,
		etcdgw.RegisterWatchHandler,
		etcdgw.RegisterLeaseHandler,
		etcdgw.RegisterClusterHandler,
		etcdgw.RegisterMaintenanceHandler,
		etcdgw.RegisterAuthHandler,
		lockgw.RegisterLockHandler,
		electiongw.RegisterElectionHandler,
	} {
		if err := register(context.Background(), mux, conn); err != nil {
			return nil, err
		}
	}
	return &Gateway{mux: mux, most: mostValues}, nil
}

// ServeHTTP implements http.Handler. A header Authorization becomes the call's metadata "authorization", where the auth of
// the gRPC services looks for a token.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, oldPrefix); ok {
		u := *r.URL
		u.Path = prefix + rest
		moved := *r
		moved.URL = &u
		r = &moved
	}
	if r.Body != nil {
		with := *r
		with.Body = &judged{ReadCloser: r.Body, most: g.most}
		r = &with
	}
	g.mux.ServeHTTP(w, r)
}
