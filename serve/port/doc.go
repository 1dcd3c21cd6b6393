// Package port is a TCP port on which a door speaks several protocols, as the kv door gRPC, JSON over HTTP and plain HTTP/1.1. It looks at
// the first bytes of a connection, decides once who it belongs to, and hands it on whole.
//
//   - Cleartext that begins with the HTTP/2 preface is gRPC and goes to the gRPC server. On the way in, each message is counted from its
//     first bytes, and is cut short if there is no room for it (package intake). Everything else passes unchanged.
//   - Cleartext of any other kind is HTTP/1.1 and is served by fasthttp, which parses a request at half the cost of net/http.
//   - With TLS the handshake is made here. A client that negotiated h2 may be gRPC or curl: the content type of its first request decides.
//     Anything else is HTTP/1.1 inside TLS.
//
// It is not a router and no door: its handlers know the meaning of a request. It owns every bound on a connection outside the gRPC server.
// The bounds are the number of connections, their silence, the time for a request and an answer, and the bytes of unfinished requests. A
// client that breaks a bound gets an error or a closed connection; the others are not asked to wait for it. Common resources are divided by
// the clients' addresses, and a connection without progress makes room (ConnLimit, crowd.go).
package port
