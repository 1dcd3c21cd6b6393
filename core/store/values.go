package store

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Where large values lie once SeparateValues was called. A flush writes them into files of their own, and the tables, which compactions
// rewrite again and again, refer to them. A value is rewritten only if its file has become mostly garbage. It is also rewritten if one
// table's values lie in so many files that a scan would jump between them.
const (
	// separateBytes is the least value that is kept apart. Smaller ones are cheaper to rewrite than to find twice, and lists of them are
	// read from one place. Of larger ones a list reads only the versions that it shows: those that lie between take blocks in the cache.
	separateBytes = 5 << 8
	// separateDepth is how many files may have values of one place in the order of keys.
	separateDepth = 1000
	// separateGarbage is the unreferenced share of all separated bytes at which files are rewritten, those with the largest share first.
	// Space is bounded by it: the live part is at least the rest.
	separateGarbage = 0.3
	// flushedFileBytes is the size, with its values, of a table that a flush makes; each has a file of values beside it. At Pebble's 2 MiB there were
	// three times as many files, and writing them anew could not keep up.
	flushedFileBytes = 8 << 20
	// compactedFileBytes is that of the first compaction after it. With values of 100 KB such a table has some kilobytes of its own, and a compaction
	// costs what making files does. Larger ones would have a compaction of small rows go on for seconds: it takes one, and all below it.
	compactedFileBytes = 16 << 20
	// separateRest is how long a file is left alone. Most overwritten values are overwritten soon, so a file may lose all its values
	// without any being copied.
	separateRest = 10 * time.Second
)

const (
	formatMajorVersion = pebble.FormatTableFormatV6 // pinned: a new Pebble must not make the data unreadable for the old binary
	// separateFormat is the format to which a directory is raised before it has values apart. Builds that know no level ValuesLevel of
	// package node may not be able to open it.
	separateFormat = pebble.FormatValueSeparation
)

// SeparateValues implements Store.
func (s *db) SeparateValues() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.separate.Store(true) // stores opened by Incoming from now on begin with it
	g := s.cur.Load()
	if g == nil {
		return ErrClosed
	}
	if g.pdb.FormatMajorVersion() >= separateFormat {
		return nil
	}
	if err := g.pdb.RatchetFormatMajorVersion(separateFormat); err != nil {
		return fmt.Errorf("separate values of store %s: %w", g.dir, err)
	}
	return nil
}

// format is the one of a directory that is opened or begun; one that has a higher one keeps it.
func (s *db) format() pebble.FormatMajorVersion {
	if s.separate.Load() {
		return separateFormat
	}
	return formatMajorVersion
}

// separation is Pebble's policy. It says nothing before the format allows it.
func (s *db) separation() pebble.ValueSeparationPolicy {
	return pebble.ValueSeparationPolicy{
		Enabled:               true,
		MinimumSize:           s.opts.separateBytes,
		MaxBlobReferenceDepth: separateDepth,
		RewriteMinimumAge:     s.opts.separateRest,
		TargetGarbageRatio:    separateGarbage,
	}
}
