package machine

import (
	"encoding/binary"
	"fmt"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// head is what changes of a transaction, as Apply has it.
type head struct {
	status           sagapart.Status
	created, updated int64 // Unix ns
	begun            int64 // the tick of created
	due, interval    int64 // due: Never once it has ended
	retries          int64
	passes           uint32
	chunks           uint32 // rows of branches
	size             int64  // bytes of all branches, as encoded
	reason, result   string
	branches         []branch
}

// branch is what changes of a branch.
type branch struct {
	status           sagapart.Status
	created, updated int64 // Unix ns
}

// Flag bits of a head.
const (
	headRetries = 1 << iota
	headPasses
	headChunks
	headReason
	headResult
	allHead = 1<<iota - 1
)

// Bits of a branch in a head, above its status.
const (
	branchStatus  = 7      // mask
	branchJoined  = 1 << 3 // created later than the transaction
	branchWith    = 1 << 4 // updated when the head was
	branchUpdated = 1 << 5 // updated at a time of its own
	allBranch     = branchStatus | branchJoined | branchWith | branchUpdated
)

// appendHead encodes a head: status, flags, created u64, updated-created u, begun u, [due-begun u], interval z, size u, [retries z],
// [passes u], [chunks u], [reason], [result]. Then u branches, each: status and bits, [created-created of the transaction u],
// [updated-created u].
func appendHead(dst []byte, h *head) []byte {
	dst = append(dst, byte(h.status), wire.Bit(h.retries != 0, headRetries)|wire.Bit(h.passes != 0, headPasses)|
		wire.Bit(h.chunks != 0, headChunks)|wire.Bit(h.reason != "", headReason)|wire.Bit(h.result != "", headResult))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.created))
	dst = binary.AppendUvarint(dst, uint64(h.updated-h.created))
	dst = binary.AppendUvarint(dst, uint64(h.begun))
	if !h.status.Final() {
		dst = binary.AppendUvarint(dst, uint64(h.due-h.begun))
	}
	dst = binary.AppendVarint(dst, h.interval)
	dst = binary.AppendUvarint(dst, uint64(h.size))
	if h.retries != 0 {
		dst = binary.AppendVarint(dst, h.retries)
	}
	if h.passes != 0 {
		dst = binary.AppendUvarint(dst, uint64(h.passes))
	}
	if h.chunks != 0 {
		dst = binary.AppendUvarint(dst, uint64(h.chunks))
	}
	if h.reason != "" {
		dst = wire.AppendBytes(dst, h.reason)
	}
	if h.result != "" {
		dst = wire.AppendBytes(dst, h.result)
	}
	dst = binary.AppendUvarint(dst, uint64(len(h.branches)))
	for i := range h.branches {
		b := &h.branches[i]
		joined, moved := b.created != h.created, b.updated != b.created
		with := moved && b.updated == h.updated
		dst = append(dst, byte(b.status)|wire.Bit(joined, branchJoined)|wire.Bit(with, branchWith)|wire.Bit(moved && !with, branchUpdated))
		if joined {
			dst = binary.AppendUvarint(dst, uint64(b.created-h.created))
		}
		if moved && !with {
			dst = binary.AppendUvarint(dst, uint64(b.updated-b.created))
		}
	}
	return dst
}

// decodeHead is its inverse, into memory of its own.
func decodeHead(row []byte) (h head, err error) {
	r := wire.NewReader(row)
	h.status = sagapart.Status(r.Byte())
	flags := r.Flags(allHead, errCorrupt)
	h.created = int64(r.Uint64())
	h.updated = h.created + int64(r.Uvarint())
	h.begun = int64(r.Uvarint())
	h.due = Never
	if !h.status.Final() {
		h.due = h.begun + int64(r.Uvarint())
	}
	h.interval, h.size = r.Varint(), int64(r.Uvarint())
	if flags&headRetries != 0 {
		h.retries = r.Varint()
	}
	if flags&headPasses != 0 {
		h.passes = uint32(r.Uvarint())
	}
	if flags&headChunks != 0 {
		h.chunks = uint32(r.Uvarint())
	}
	if flags&headReason != 0 {
		h.reason = r.Text()
	}
	if flags&headResult != 0 {
		h.result = r.Text()
	}
	if n := r.Count(sagapart.MaxBranches, 1); n > 0 {
		h.branches = make([]branch, n)
		for i := range h.branches {
			takeBranch(&r, &h, &h.branches[i])
		}
	}
	if r.End() != nil || h.status == 0 || h.status > sagapart.Failed || h.begun < 0 || h.due < Never || h.due == Never && !h.status.Final() ||
		h.chunks > sagapart.MaxBranches {
		return head{}, fmt.Errorf("head %x: %w", clip(row), errCorrupt)
	}
	return h, nil
}

func takeBranch(r *wire.Reader, h *head, b *branch) {
	bits := r.Byte()
	b.status, b.created = sagapart.Status(bits&branchStatus), h.created
	if bits&branchJoined != 0 {
		b.created += int64(r.Uvarint())
	}
	b.updated = b.created
	switch {
	case bits&branchWith != 0:
		b.updated = h.updated
	case bits&branchUpdated != 0:
		b.updated += int64(r.Uvarint())
	}
	final := b.status.Final() || b.status == sagapart.Prepared
	if bits&^allBranch != 0 || !final || bits&branchWith != 0 && bits&branchUpdated != 0 {
		r.Fail(errCorrupt)
	}
}

// view is what others see of a head.
func (h *head) view() Head {
	v := Head{Status: h.status, Created: h.created, Updated: h.updated, CreatedTick: h.begun, DueTick: h.due, IntervalMs: h.interval,
		Retries: h.retries, Passes: h.passes, Result: h.result, Reason: h.reason}
	switch h.status { // nothing changes a transaction after it has ended
	case sagapart.Succeed:
		v.Finished = h.updated
	case sagapart.Failed:
		v.RolledBack = h.updated
	}
	return v
}
