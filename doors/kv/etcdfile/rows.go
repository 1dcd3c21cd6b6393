package etcdfile

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The buckets, and the keys of those that have fixed ones (etcd: server/storage/schema/bucket.go).
var (
	bucketKey            = []byte("key")
	bucketMeta           = []byte("meta")
	bucketLease          = []byte("lease")
	bucketAlarm          = []byte("alarm")
	bucketCluster        = []byte("cluster")
	bucketMembers        = []byte("members")
	bucketMembersRemoved = []byte("members_removed")
	bucketAuth           = []byte("auth")
	bucketAuthUsers      = []byte("authUsers")
	bucketAuthRoles      = []byte("authRoles")

	buckets = [][]byte{bucketKey, bucketMeta, bucketLease, bucketAlarm, bucketCluster, bucketMembers, bucketMembersRemoved,
		bucketAuth, bucketAuthUsers, bucketAuthRoles}

	metaIndex          = []byte("consistent_index")
	metaTerm           = []byte("term")
	metaConf           = []byte("confState")
	metaStorageVersion = []byte("storageVersion")
	metaScheduled      = []byte("scheduledCompactRev")
	metaFinished       = []byte("finishedCompactRev")
	clusterVersionKey  = []byte("clusterVersion")
	authEnabledKey     = []byte("authEnabled")
	authRevisionKey    = []byte("authRevision")
)

// revBytes is the length of a revision in a key: revision, '_', place within it. A deletion has a 't' behind.
const (
	revBytes  = 17
	tombstone = 't'
)

func appendRev(b []byte, rev, sub int64) []byte {
	b = append(binary.BigEndian.AppendUint64(b, uint64(rev)), '_')
	return binary.BigEndian.AppendUint64(b, uint64(sub))
}

func parseRev(k []byte) (rev, sub int64, deleted bool, err error) {
	if len(k) != revBytes && (len(k) != revBytes+1 || k[revBytes] != tombstone) || k[8] != '_' {
		return 0, 0, false, fmt.Errorf("%w: revision %.40x", ErrDamaged, k)
	}
	rev, sub = int64(binary.BigEndian.Uint64(k)), int64(binary.BigEndian.Uint64(k[9:]))
	if rev < 0 || sub < 0 {
		return 0, 0, false, fmt.Errorf("%w: revision %d.%d", ErrDamaged, rev, sub)
	}
	return rev, sub, len(k) > revBytes, nil
}

// changeRow is a change as a row of the bucket key. Nothing of c's memory is kept.
func changeRow(c *Change) (key, value []byte, err error) {
	key = appendRev(make([]byte, 0, revBytes+1), c.Rev, c.Sub)
	kv := mvccpb.KeyValue{Key: c.Key}
	if c.Deleted {
		key = append(key, tombstone)
	} else {
		kv = mvccpb.KeyValue{Key: c.Key, CreateRevision: c.CreateRev, ModRevision: c.Rev, Version: c.Version, Value: c.Value, Lease: c.Lease}
	}
	value, err = proto.Marshal(&kv)
	return key, value, err
}

// parseChange is its inverse; the change's memory is its own.
func parseChange(k, v []byte, c *Change) error {
	var kv mvccpb.KeyValue
	var err error
	if c.Rev, c.Sub, c.Deleted, err = parseRev(k); err != nil {
		return err
	}
	if err := proto.Unmarshal(v, &kv); err != nil {
		return fmt.Errorf("%w: version at revision %d.%d: %v", ErrDamaged, c.Rev, c.Sub, err)
	}
	c.Key, c.Value, c.CreateRev, c.Version, c.Lease = kv.Key, kv.Value, kv.CreateRevision, kv.Version, kv.Lease
	if len(c.Key) > 0 && !c.Deleted && (kv.ModRevision != c.Rev || c.CreateRev <= 0 || c.CreateRev > c.Rev || c.Version <= 0) {
		return fmt.Errorf("%w: the version at revision %d.%d says revision %d, created %d, version %d",
			ErrDamaged, c.Rev, c.Sub, kv.ModRevision, kv.CreateRevision, kv.Version)
	}
	return nil
}

// leaseRow is etcd's leasepb.Lease: 1 id, 2 granted time. The remaining time (3) is not written: a restore gives every lease
// its whole time again.
func leaseRow(l *Lease) (key, value []byte) {
	value = protowire.AppendTag(nil, 1, protowire.VarintType)
	value = protowire.AppendVarint(value, uint64(l.ID))
	value = protowire.AppendTag(value, 2, protowire.VarintType)
	value = protowire.AppendVarint(value, uint64(l.TTL))
	return binary.BigEndian.AppendUint64(nil, uint64(l.ID)), value
}

func parseLease(v []byte) (l Lease, err error) {
	for len(v) > 0 {
		num, typ, n := protowire.ConsumeTag(v)
		if n < 0 {
			return l, fmt.Errorf("%w: lease: %v", ErrDamaged, protowire.ParseError(n))
		}
		v = v[n:]
		if typ != protowire.VarintType {
			if n = protowire.ConsumeFieldValue(num, typ, v); n < 0 {
				return l, fmt.Errorf("%w: lease: %v", ErrDamaged, protowire.ParseError(n))
			}
			v = v[n:]
			continue
		}
		x, n := protowire.ConsumeVarint(v)
		if n < 0 {
			return l, fmt.Errorf("%w: lease: %v", ErrDamaged, protowire.ParseError(n))
		}
		v = v[n:]
		switch num {
		case 1:
			l.ID = int64(x)
		case 2:
			l.TTL = int64(x)
		}
	}
	if l.ID == 0 {
		return l, fmt.Errorf("%w: a lease without an id", ErrDamaged)
	}
	return l, nil
}

// An alarm is a key without a value.
func alarmRow(a *Alarm) ([]byte, error) {
	return proto.Marshal(&pb.AlarmMember{MemberID: a.Member, Alarm: pb.AlarmType(a.Type)})
}

func parseAlarm(k []byte) (Alarm, error) {
	var a pb.AlarmMember
	if err := proto.Unmarshal(k, &a); err != nil {
		return Alarm{}, fmt.Errorf("%w: alarm: %v", ErrDamaged, err)
	}
	return Alarm{Member: a.MemberID, Type: int32(a.Alarm)}, nil
}

func userRow(u *User) ([]byte, error) {
	return proto.Marshal(&authpb.User{Name: []byte(u.Name), Password: u.Password, Roles: u.Roles,
		Options: &authpb.UserAddOptions{NoPassword: u.NoPassword}})
}

func parseUser(v []byte) (User, error) {
	var u authpb.User
	if err := proto.Unmarshal(v, &u); err != nil {
		return User{}, fmt.Errorf("%w: user: %v", ErrDamaged, err)
	}
	return User{Name: string(u.Name), Password: u.Password, NoPassword: u.GetOptions().GetNoPassword(), Roles: u.Roles}, nil
}

func roleRow(r *Role) ([]byte, error) {
	out := &authpb.Role{Name: []byte(r.Name)}
	for i := range r.Permissions {
		p := &r.Permissions[i]
		out.KeyPermission = append(out.KeyPermission, &authpb.Permission{PermType: authpb.Permission_Type(p.Access), Key: p.Key, RangeEnd: p.End})
	}
	return proto.Marshal(out)
}

func parseRole(v []byte) (Role, error) {
	var r authpb.Role
	if err := proto.Unmarshal(v, &r); err != nil {
		return Role{}, fmt.Errorf("%w: role: %v", ErrDamaged, err)
	}
	out := Role{Name: string(r.Name)}
	for _, p := range r.KeyPermission {
		if p.PermType < authpb.READ || p.PermType > authpb.READWRITE {
			return Role{}, fmt.Errorf("%w: role %q has a permission of kind %d", ErrDamaged, r.Name, p.PermType)
		}
		out.Permissions = append(out.Permissions, Permission{Access: uint8(p.PermType), Key: p.Key, End: p.RangeEnd})
	}
	return out, nil
}

// memberText is how etcd writes a member: JSON.
type memberText struct {
	ID         uint64   `json:"id"`
	PeerURLs   []string `json:"peerURLs"`
	Learner    bool     `json:"isLearner,omitempty"`
	Name       string   `json:"name,omitempty"`
	ClientURLs []string `json:"clientURLs,omitempty"`
}

func memberKey(id uint64) []byte { return strconv.AppendUint(nil, id, 16) }

func memberRow(m *Member) (key, value []byte, err error) {
	value, err = json.Marshal(memberFields(m))
	return memberKey(m.ID), value, err
}

func memberFields(m *Member) memberText {
	return memberText{ID: m.ID, PeerURLs: m.PeerURLs, Learner: m.Learner, Name: m.Name, ClientURLs: m.ClientURLs}
}

func parseMember(v []byte) (Member, error) {
	var m memberText
	if err := json.Unmarshal(v, &m); err != nil {
		return Member{}, fmt.Errorf("%w: member: %v", ErrDamaged, err)
	}
	return Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.Learner}, nil
}

// confText is raft's configuration as etcd writes it: JSON.
type confText struct {
	Voters    []uint64 `json:"voters,omitempty"`
	Learners  []uint64 `json:"learners,omitempty"`
	AutoLeave bool     `json:"auto_leave"`
}
