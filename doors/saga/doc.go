// Package saga is the door to global transactions: DTM's protocol over HTTP, JSON-RPC and gRPC, so that its clients work unmodified, and
// what DTM has no path for: statuses as a stream of events, and a transaction that begins in the same commit as a change of keys.
//
// It decodes, judges what can be judged before anything is proposed, proposes, waits and encodes. What a transaction is and which change
// of status is allowed is decided in doors/saga/machine, whom to call and when in doors/saga/advance. The door makes no call to anybody, and keeps no
// state but open watches: topics, above all, are read from the machine with each message, because a cache of them goes on sending
// to subscribers who have left.
//
// Errors are DTM's where its clients look: 409, Aborted and -32901 for what has failed for good, 425, FailedPrecondition and -32902 for
// what is under way. No body of a success has the word FAILURE in it. What DTM has no answer for is said so that a client knows whether
// to send the request again: 503 for what has provably had no effect, 500 with "it is not known" otherwise.
package saga
