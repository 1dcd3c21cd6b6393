// Package saga is the door to global transactions: DTM's protocol over HTTP, JSON-RPC and gRPC, so that its clients work unmodified. Beyond
// DTM it streams statuses as events, and begins a transaction in the same commit as a change of keys.
//
// It decodes, judges what can be judged before anything is proposed, proposes, waits and encodes. doors/saga/machine decides the state of a
// transaction and its allowed changes, doors/saga/advance the calls and their time. The door itself makes no calls and keeps no state but
// open watches. Topics are read from the machine with each message: a cache of them would go on sending to former subscribers.
//
// Errors are DTM's where its clients look. Final failures are 409, Aborted and -32901; transactions under way are 425, FailedPrecondition
// and -32902.
//
// No body of a success has the word FAILURE in it. Other errors tell the client whether to send the request again. They are 503 if it has
// provably had no effect, 500 with "it is not known" otherwise.
package saga
