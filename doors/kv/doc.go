// Package kv is the etcd door: it speaks etcd's gRPC services to unmodified etcd clients and turns them into commands for
// the log and reads of the kv machine. On the same port it answers HTTP: serve/port tells the protocols apart, http.go
// says who answers which path.
//
// It decodes, validates as etcd does, proposes, and encodes; it decides nothing about keys. What a command means is in
// doors/kv/machine, when it counts is in node. The door keeps no state a restart could lose: open watches, the streams of
// clients and a cached view of the member's own status are all it has.
//
// The two hottest calls, Put and Range, never become protobuf structs: a codec of our own (codec.go) reads the wire bytes
// straight into the command and writes the answer straight into the transport's buffer, because reflection-based
// protobuf costs more than the rest of the door together. Txn and DeleteRange take the same way; everything else uses the
// generated types. The hand-written half is fuzzed against the generated one.
//
// Who may what is doors/kv/auth's, how events find their watchers doors/kv/watch's, and which of etcd's errors a client hears
// doors/kv/etcderr's: none of them knows this package.
//
// The JSON gateway (doors/kv/gateway) is a client of these services and what operators ask over HTTP (doors/kv/ops) only reads
// their numbers: neither can do what a gRPC client cannot.
package kv
