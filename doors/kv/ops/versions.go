package ops

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// Versions counts requests by the API version their client claims. Counting takes one look at a map. The map is replaced as a whole at the
// first use of a version, once per version. The zero value is ready.
type Versions struct {
	seen atomic.Pointer[map[string]*versionCount]
	mu   sync.Mutex // held to replace seen
}

type versionCount struct{ unary, stream meter.Counter }

const (
	noVersion = "unknown" // etcd's word for a client without one
	// maxVersions bounds the series a client can make by claiming versions; those beyond it count as otherVersions.
	maxVersions   = 16
	otherVersions = "other"
	// maxVersionBytes is longer than any version.
	maxVersionBytes = 32
)

// Unary counts a call of a client that says it is of version; Stream a stream.
func (v *Versions) Unary(version []string)  { v.of(version).unary.Inc() }
func (v *Versions) Stream(version []string) { v.of(version).stream.Inc() }

func (v *Versions) of(said []string) *versionCount {
	version := noVersion
	if len(said) > 0 {
		version = said[0]
	}
	if seen := v.seen.Load(); seen != nil {
		if n := (*seen)[version]; n != nil {
			return n
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := map[string]*versionCount{noVersion: {}}
	if old := v.seen.Load(); old != nil {
		seen = *old
	}
	if len(version) > maxVersionBytes || len(seen) >= maxVersions {
		version = otherVersions
	}
	if seen[version] == nil {
		seen = maps.Clone(seen)
		seen[version] = new(versionCount)
	}
	v.seen.Store(&seen)
	return seen[version]
}

// each calls fn with the counters in the order of the versions; clients without one are there from the start.
func (v *Versions) each(fn func(version string, unary, stream uint64)) {
	v.of(nil)
	seen := *v.seen.Load()
	for _, version := range slices.Sorted(maps.Keys(seen)) {
		fn(version, seen[version].unary.Load(), seen[version].stream.Load())
	}
}
