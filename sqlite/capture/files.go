package capture

import (
	"time"

	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// Files are the open files of a database: a *walfile.DB, which has the contract of each method, or a model of one.
type Files interface {
	Close()
	IsOpen() bool
	PageSize() uint32
	WAL() bool
	Live() bool
	Moved() bool
	ID() place.ID
	Join() error
	Sync() error

	Header() (walfile.Header, error)
	Recover(before walfile.Header) (walfile.Header, error)
	Pages() (uint32, error)
	ReadPage(page uint32, p []byte) error
	FrameOffset(n uint32) int64
	Frames(from uint32, sum [2]uint32, h walfile.Header, each func(f walfile.Frame, page []byte) error) error
	ReadFrame(n uint32, p []byte) error

	Hold() error
	Held() bool
	Release() error
	Pin(frame uint32) error
	Unpin() error
	Rest() error
	Rouse() error
	LockWriters() error
	UnlockWriters() error
	Restart(read walfile.Position) error

	Alone() bool
	Read() bool
	Wanted() bool
	Checkpointing() bool
}

// Opener opens the files of databases. Any goroutine may call it.
type Opener interface {
	// Open and OpenExclusive are walfile's.
	Open(path string) (Files, error)
	OpenExclusive(path string) (Files, error)
	// Pause returns when d has passed.
	Pause(d time.Duration)
}

// Disk opens what is on this machine's disks.
var Disk Opener = osFiles{}

type osFiles struct{}

func (osFiles) Open(path string) (Files, error)          { return walfile.Open(path) }
func (osFiles) OpenExclusive(path string) (Files, error) { return walfile.OpenExclusive(path) }
func (osFiles) Pause(d time.Duration)                    { time.Sleep(d) }
