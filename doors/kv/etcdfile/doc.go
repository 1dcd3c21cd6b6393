// Package etcdfile reads and writes the database file of an etcd: one bbolt file with a bucket for each kind of thing. etcd's Snapshot call
// sends it, etcdutl takes it, and it lies in member/snap of an etcd's data directory. The byte table is docs/formats/etcd-db.md.
//
// It knows the file and nothing of this server: callers give and get the types below. It does not judge contents, and keeps no more of a
// file in memory than one transaction of bbolt's.
package etcdfile

import "errors"

// ErrDamaged: the file is no database of etcd's, or not a whole one.
var ErrDamaged = errors.New("damaged etcd database")

// Change is one version of a key, or its deletion, at the place where it was made.
type Change struct {
	Rev, Sub int64
	Deleted  bool // only Key counts
	Key      []byte
	// CreateRev is the revision since which the key exists, Version how often it was written since, Lease 0 for none.
	CreateRev, Version, Lease int64
	Value                     []byte
}

// Lease is a lease with the time it was granted, in seconds.
type Lease struct{ ID, TTL int64 }

// Alarm is an alarm of etcd's numbering, raised by a member.
type Alarm struct {
	Member uint64
	Type   int32
}

// User is one user. Password is a bcrypt hash; none if the user is known by certificate alone.
type User struct {
	Name       string
	Password   []byte
	NoPassword bool
	Roles      []string
}

// Role is one role.
type Role struct {
	Name        string
	Permissions []Permission
}

// Permission opens [Key, End) to a role: End empty is the one key, a zero byte everything from Key on. Access has etcd's
// numbering: 0 read, 1 write, 2 both.
type Permission struct {
	Access   uint8
	Key, End []byte
}

// Member is one member of the cluster the file was taken from. A restore does not use them: it names its own members.
type Member struct {
	ID                   uint64
	Name                 string
	PeerURLs, ClientURLs []string
	Learner              bool
}

// Head is a file's description of itself.
type Head struct {
	// Index and Term are those of the last entry of etcd's log that the contents have.
	Index, Term uint64
	// Voters and Learners are the configuration as of then; without any it is not in the file.
	Voters, Learners []uint64
	// Compacted is the revision below which history is gone, 0 if it is whole.
	Compacted int64
	// StorageVersion and ClusterVersion are etcd's, as 3.7.0; empty in files of versions that had none.
	StorageVersion, ClusterVersion string
	// AuthRevision counts the changes of users and roles; AuthOn: clients must say who they are.
	AuthOn       bool
	AuthRevision uint64
}
