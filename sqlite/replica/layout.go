package replica

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/superfly/ltx"
)

// Layout is how the names of files are made. Both are Litestream's.
type Layout int

// The layouts. Every kind of store of Litestream has one of them.
const (
	Bucket    Layout = iota // LLLL/min-max.ltx, in a bucket of S3
	Directory               // ltx/L/min-max.ltx, in a directory
)

// Levels: commits, compacted files, and snapshots.
const (
	levels        = 10
	SnapshotLevel = levels - 1
)

// LayoutOf is the layout of a new replica at a URL that objstore.Open takes.
func LayoutOf(url string) Layout {
	if strings.HasPrefix(url, "s3://") {
		return Bucket
	}
	return Directory
}

func (l Layout) String() string {
	if l == Bucket {
		return "bucket"
	}
	return "directory"
}

// folder is the prefix of all files of a level, without a slash at its end.
func (l Layout) folder(level int) string {
	if l == Bucket {
		return fmt.Sprintf("%04x", level)
	}
	return "ltx/" + strconv.Itoa(level)
}

// Name is a file's name below the replica's prefix.
func (l Layout) Name(f File) string {
	return l.folder(f.Level) + "/" + ltx.FormatFilename(f.Min, f.Max)
}

// Parse is the inverse of Name: the level and the TXIDs of a file. It reports false for any other name.
func (l Layout) Parse(name string) (f File, ok bool) {
	folder, base, ok := cutLast(name)
	if !ok {
		return File{}, false
	}
	for f.Level = 0; f.Level < levels; f.Level++ {
		if l.folder(f.Level) == folder {
			var err error
			f.Min, f.Max, err = ltx.ParseFilename(base)
			return f, err == nil && f.Min != 0 && f.Min <= f.Max
		}
	}
	return File{}, false
}

func cutLast(name string) (before, after string, ok bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}
