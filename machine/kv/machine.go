// Package kv is the deterministic key-value machine with etcd v3 semantics.
package kv

// Machine is the kv machine.
type Machine struct{}
