package auth

import (
	"context"
	"crypto/tls"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/holdfastdb/holdfast/serve/port"
)

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

// hostOf is the address a call came from, without its port. The JSON gateway calls from within this process and names the HTTP
// client it calls for; the same field from outside the process is ignored.
func hostOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if p.Addr.Network() == port.InProcess {
		if v := metadata.ValueFromIncomingContext(ctx, "x-forwarded-for"); len(v) > 0 {
			list := v[len(v)-1]
			return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
		}
	}
	return port.HostOf(p.Addr)
}
