// Package kv is the etcd door. It speaks etcd's gRPC services to unmodified etcd clients and turns them into commands for the log and reads
// of the kv machine. On the same port it answers HTTP: serve/port tells the protocols apart, and http.go assigns the paths.
//
// It decodes, validates as etcd does, proposes, and encodes; it decides nothing about keys. doors/kv/machine has the meaning of a command,
// node decides when it counts. The door keeps no state that a restart could lose. It has only open watches, the streams of clients and a
// cached view of the member's own status.
//
// The two hottest calls, Put and Range, never become protobuf structs. A codec of our own (codec.go) reads the wire bytes straight into the
// command and writes the answer straight into the transport's buffer. Reflection-based protobuf costs more than the rest of the door
// together.
//
// Txn and DeleteRange take the same way; everything else uses the generated types. The hand-written half is fuzzed against the generated
// one.
//
// doors/kv/auth judges permissions, doors/kv/watch brings events to watchers, and doors/kv/etcderr chooses etcd's errors: none of them
// knows this package. The JSON gateway (doors/kv/gateway) is a client of these services, and the operators' HTTP pages (doors/kv/ops) only
// read their numbers. Neither can do more than a gRPC client.
package kv
