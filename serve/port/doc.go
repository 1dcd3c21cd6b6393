// Package port is a TCP port on which a door speaks several protocols, as the kv door gRPC, JSON over HTTP and plain HTTP/1.1.
// It looks at the first bytes of a connection, decides once who it belongs to, and hands it on whole.
//
//   - Cleartext that begins with the HTTP/2 preface is gRPC and goes to the gRPC server. On the way in, each message is counted
//     from its first bytes, and one there is no room for is cut short (package intake); everything else passes as it is.
//   - Cleartext of any other kind is HTTP/1.1 and is served by fasthttp, which parses a request at half the cost of net/http.
//   - With TLS the handshake is made here. A client that negotiated h2 may be gRPC or curl: the content type of its first
//     request decides. Anything else is HTTP/1.1 inside TLS.
//
// It is not a router and no door: what a request means is in the handlers it is given. What it does own is
// every bound on a connection that does not belong to the gRPC server: how many there are, how long they may be silent,
// how long a request may take to arrive and an answer to leave, and how many bytes of unfinished requests are in memory.
// A client that breaks a bound gets an error or a closed connection; the others are not asked to wait for it. What clients share is shared by
// their addresses, and what makes no progress makes room (ConnLimit, crowd.go).
package port
