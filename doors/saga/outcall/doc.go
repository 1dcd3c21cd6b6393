// Package outcall makes the calls to other people's services: over HTTP, gRPC and JSON-RPC, as DTM makes them to the branches of a global
// transaction. It is the only place that does. It bounds the calls in flight: in all, to one endpoint, and in bytes. A service that hangs
// or is down delays no other. Every address is judged before it is dialled, so that no client can have this server call its own ports or a
// cloud's metadata service.
//
// It knows nothing of transactions. The caller (doors/saga/advance) decides whether a failure counts, when a call is repeated, and what is
// logged.
//
// It repeats only requests that never reached a service: on a kept connection that was closed meanwhile. There is no service discovery and
// no proxy: a URL names the host that is called.
package outcall
