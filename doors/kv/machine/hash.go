package machine

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// hashOfNothing is etcd's hash of no keys, which is the hash of the bucket's name. It is not 0, which JSON would leave out.
var hashOfNothing = crc32.Checksum([]byte("key"), castagnoli)

// HashKV hashes exactly what is visible at rev (0 = current): the same before and after a compaction at rev, the same on all members.
// compactRevision is -1 if nothing was ever compacted, as in etcd. It walks all keys.
//
// etcd hashes the versions between the compacted revision and rev as well; a compaction's effect then depends on when it was made. Here two
// members can be compared at any revision both still have.
func (m *Machine) HashKV(rev int64) (hash uint32, hashRevision, compactRevision, currentRevision int64, err error) {
	p := m.pin()
	defer p.view.Close()
	if rev, err = p.at(rev); err != nil {
		return 0, 0, p.compacted, p.rev, err
	}
	sc, err := p.scan(nil, []byte{0}, rev)
	if err != nil {
		return 0, 0, p.compacted, p.rev, err
	}
	defer sc.close()
	var head []byte
	empty := true
	for {
		ok, err := sc.next()
		if err != nil {
			return 0, 0, p.compacted, p.rev, err
		}
		if !ok {
			if empty {
				hash = hashOfNothing
			}
			return hash, rev, p.compacted, p.rev, nil
		}
		empty = false
		v, err := sc.version()
		if err != nil {
			return 0, 0, p.compacted, p.rev, err
		}
		value, err := sc.value()
		if err != nil {
			return 0, 0, p.compacted, p.rev, err
		}
		head = binary.AppendUvarint(head[:0], uint64(len(v.key)))
		head = append(head, v.key...)
		for _, n := range [...]int64{v.create, v.mod, v.meta.version, v.lease, int64(len(value))} {
			head = binary.AppendVarint(head, n)
		}
		hash = crc32.Update(crc32.Update(hash, castagnoli, head), castagnoli, value)
	}
}
