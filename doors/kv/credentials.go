package kv

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
)

// portCredentials tell the gRPC server the port's findings about a connection. The port makes the TLS handshake, because its outcome
// decides whether the connection is gRPC at all.
type portCredentials struct{}

// ServerHandshake returns the state of c's TLS, with the client's certificate if it showed one; nothing for cleartext.
func (portCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	t, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return c, nil, nil
	}
	return c, credentials.TLSInfo{
		State:          t.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// ClientHandshake is not for servers.
func (portCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info implements credentials.TransportCredentials.
func (portCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (c portCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials; nothing here has a name.
func (portCredentials) OverrideServerName(string) error { return nil }
