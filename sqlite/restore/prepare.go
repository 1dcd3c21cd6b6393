package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// Prepared is a database that is whole and durable under a working name. Everything that may fail for the disk or the store has been done.
// One goroutine uses it. It has to be closed.
type Prepared struct {
	j    *restore
	lock disk.Unlocker
}

// Prepare does all of Restore but for giving the database its name. Its errors are Restore's.
func Prepare(ctx context.Context, r *replica.Replica, how Options) (*Prepared, error) {
	if how.FS == nil {
		how.FS = disk.OS()
	}
	if how.Parallel <= 0 {
		how.Parallel = 8
	}
	if how.every == 0 {
		how.every = durableEvery
	}
	if how.Note == nil {
		how.Note = func(string) {}
	}
	j := &restore{r: r, how: &how, fs: how.FS, bad: map[string]bool{}, absent: map[string]bool{}, out: &Restored{}}
	if !how.Aside {
		if err := j.free(); err != nil {
			return nil, err
		}
	}
	lock, err := j.fs.Lock(how.To + lockSuffix)
	if errors.Is(err, disk.ErrLocked) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	p := &Prepared{j, lock}
	if err := j.all(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Restored is the result.
func (p *Prepared) Restored() Restored { return *p.j.out }

// Finish checks the file, gives it its name and removes what was beside it. ErrExists: a database was made there meanwhile; it stays.
func (p *Prepared) Finish(ctx context.Context) (*Restored, error) {
	j := p.j
	work := j.how.To + workSuffix
	how := j.how.Check
	if how == "" && !j.out.Proved {
		how = Quick
	}
	if err := check(ctx, work, how); err != nil {
		return nil, err
	}
	j.out.Checked = how
	if err := j.free(); err != nil { // an application may have made one meanwhile
		return nil, err
	}
	if j.how.Record {
		if err := j.record(ctx); err != nil {
			return nil, err
		}
	}
	for _, suffix := range beside { // they would be taken for the new one's
		if err := j.fs.Remove(j.how.To + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	// COMMIT POINT: the working file is durable since Prepare or Advance, and so is the record.
	if err := j.fs.Rename(work, j.how.To); err != nil {
		return nil, err
	}
	if err := j.fs.Remove(j.how.To + journalSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return j.out, j.fs.SyncDir(filepath.Dir(j.how.To))
}

// record leaves the record of the restore. It counts from the moment at which the working file has its name.
func (j *restore) record(ctx context.Context) error {
	identity, err := j.r.Identity(ctx, false)
	if err != nil {
		return err
	}
	o := j.out
	rec := &Record{Replica: Place(j.how.From), Identity: identity, TXID: o.TXID, Checksum: o.Checksum, Time: time.Now()}
	rec.Head, rec.HeadSum = j.journal.ended()
	if err := WriteRecord(j.fs, j.how.To, rec); err != nil {
		return fmt.Errorf("leave a record of the restore: %w", err)
	}
	return nil
}

// Close releases the restore. An unfinished one is resumed when it is prepared again.
func (p *Prepared) Close() error {
	// Before it is unlocked: the next restore locks a file of that name that is there.
	err := p.j.fs.Remove(p.j.how.To + lockSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, p.lock.Unlock())
}
