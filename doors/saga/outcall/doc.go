// Package outcall makes the calls to other people's services: over HTTP, gRPC and JSON-RPC, as DTM makes them to the branches of a
// global transaction. It is the only place that does. It bounds what is under way (in all, to one endpoint, in bytes), keeps a service
// that hangs or is gone from delaying any other, and judges every address before it is dialled, so that nobody can have this server
// call its own ports or a cloud's metadata service in their place.
//
// It knows nothing of transactions: whether a failure counts, when a call is tried again and what is written down is the caller's
// (doors/saga/advance). It tries nothing again but what never reached a service: a request on a kept connection that was closed meanwhile.
// There is no service discovery and no proxy: a URL names the host that is called.
package outcall
