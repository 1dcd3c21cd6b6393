package node

// Node is one member.
type Node struct{}
