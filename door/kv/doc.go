// Package kv is the etcd v3 door: it speaks etcd's gRPC services to unmodified etcd clients and turns them into commands
// for the log and reads of the kv machine.
//
// It decodes, validates as etcd does, proposes, and encodes; it decides nothing about keys. What a command means is in
// machine/kv, when it counts is in node. The door keeps no state a restart could lose: open watches, the streams of
// clients and a cached view of the member's own status are all it has.
//
// The two hottest calls, Put and Range, never become protobuf structs: a codec of our own (codec.go) reads the wire bytes
// straight into the command and writes the answer straight into the transport's buffer, because reflection-based
// protobuf costs more than the rest of the door together. Txn and DeleteRange take the same way; everything else uses the
// generated types. The hand-written half is fuzzed against the generated one.
//
// HTTP/1.1 (the JSON gateway, the v2 keys API) is not spoken here; Serve takes any listener, so a sniffer can be put in
// front of it.
package kv
