package server

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// room watches how much is free on the file systems that the member writes to. It raises an alarm while one is nearly full: a status
// field, a metric and log lines. Nothing is refused and nothing is replicated. Its methods may be called from any goroutine.
type room struct {
	log *slog.Logger
	now func() time.Time
	// statfs returns the size of dir's file system and the bytes free for this user; a test has its own.
	statfs func(dir string) (size, free uint64, err error)

	mu    sync.Mutex
	disks []*diskRoom // guarded by mu: that of the data directory, and that of --wal-dir if it is another
}

// diskRoom is one file system. room.mu guards it.
type diskRoom struct {
	field, dir string
	full       bool
	told       time.Time // of the last log line while full
}

const (
	// roomEvery separates two looks, roomAgain two log lines of one alarm.
	roomEvery = 5 * time.Second
	roomAgain = time.Hour
	// leastRoom bounds what 5 % of a large file system come to.
	leastRoom = 1 << 30
)

// roomLimit is below how many free bytes a file system of that size is nearly full: 5 %, or 1 GiB if that is less.
func roomLimit(size uint64) uint64 { return min(size/20, leastRoom) }

func newRoom(dir, walDir string, log *slog.Logger) *room {
	r := &room{log: log, now: time.Now, statfs: statfs, disks: []*diskRoom{{field: "disk", dir: dir}}}
	if walDir != "" && filepath.Clean(walDir) != filepath.Join(dir, "wal") {
		r.disks = append(r.disks, &diskRoom{field: "log_disk", dir: walDir})
	}
	return r
}

func statfs(dir string) (size, free uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return st.Blocks * uint64(st.Bsize), st.Bavail * uint64(st.Bsize), nil
}

// run looks until ctx ends.
func (r *room) run(ctx context.Context) {
	every := time.NewTicker(roomEvery)
	defer every.Stop()
	for {
		r.look()
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// look measures each file system and returns the changes. One that cannot be asked keeps its alarm and is left out of the answer.
func (r *room) look() (found []diskStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for _, d := range r.disks {
		size, free, err := r.statfs(d.dir)
		if err != nil {
			continue
		}
		limit := roomLimit(size)
		was := d.full
		d.full = free < limit || was && free < limit+limit/10 // without the margin a file system at the limit would be told of for ever
		st := diskStatus{field: d.field, Dir: d.dir, Bytes: size, FreeBytes: free}
		if d.full {
			st.Alarm = fmt.Sprintf("the file system of %s is nearly full: %s of %s are left; make room, the member stops when it is full",
				d.dir, cli.SizeString(int64(free)), cli.SizeString(int64(size)))
			if !was || now.Sub(d.told) >= roomAgain {
				d.told = now
				r.log.Warn(st.Alarm)
			}
		} else if was {
			r.log.Info("there is room again on the file system of "+d.dir, "free", cli.SizeString(int64(free)))
		}
		found = append(found, st)
	}
	return found
}

// diskStatus is one file system in the answer of GET /v1/status.
type diskStatus struct {
	field     string
	Dir       string `json:"dir"`
	Bytes     uint64 `json:"bytes"`
	FreeBytes uint64 `json:"free_bytes"` // for this user
	// Alarm says that it is nearly full and what to do, "" while it is not.
	Alarm string `json:"alarm,omitempty"`
}

var (
	descDiskBytes = admin.NewDesc("disk_bytes", "Size of the file system of the data directory, and of the log where that has its own.", "of")
	descDiskFree  = admin.NewDesc("disk_free_bytes", "Bytes free for this user there.", "of")
	descDiskAlarm = admin.NewDesc("disk_nearly_full", "1 while less than 5 % or 1 GiB, the smaller of the two, are free there.", "of")
)

// section is the file systems' part of the operator's port.
func (r *room) section() admin.Section {
	return admin.Section{
		Status: func(context.Context) (fields []admin.Field) {
			for _, d := range r.look() {
				fields = append(fields, admin.Field{Name: d.field, Value: d})
			}
			return fields
		},
		Collect: func(m *admin.Metrics) {
			for _, d := range r.look() {
				of := map[string]string{"disk": "data", "log_disk": "log"}[d.field]
				m.Gauge(descDiskBytes, float64(d.Bytes), of)
				m.Gauge(descDiskFree, float64(d.FreeBytes), of)
				m.Flag(descDiskAlarm, d.Alarm != "", of)
			}
		},
		Notes: func(context.Context) (notes []string) {
			for _, d := range r.look() {
				if d.Alarm != "" {
					notes = append(notes, d.Alarm)
				}
			}
			return notes
		},
	}
}
