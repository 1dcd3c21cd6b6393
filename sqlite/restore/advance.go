package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// Advance brings a prepared database from its state to the newest one: commits stored while it was being prepared. After an error the next
// Prepare begins anew. ErrNotThere: no files lead from here to there, because they were compacted with others.
func (p *Prepared) Advance(ctx context.Context) (err error) {
	j := p.j
	c, err := j.r.Read(ctx)
	if err != nil {
		return err
	}
	from := j.out.TXID
	if c.Head.TXID == from {
		return nil
	}
	files := extend([]replica.File{{Max: from}}, c.Files, c.Head.TXID)[1:]
	if len(files) == 0 || reached(files) != c.Head.TXID {
		return fmt.Errorf("%w: no files go on from %s to %s", ErrNotThere, from, c.Head.TXID)
	}
	// The journal describes the working file. It goes first, durably: a restore that went on from it would take later pages for its own.
	if err := j.fs.Remove(j.how.To + journalSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := j.fs.SyncDir(filepath.Dir(j.how.To)); err != nil {
		return err
	}
	file, err := j.fs.Open(j.how.To + workSuffix)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
	}()
	pieces := make([]piece, len(files))
	for i, f := range files {
		pieces[i] = piece{File: f}
	}
	in := startFetch(ctx, j.r, pieces, j.how.Parallel)
	defer in.stop()
	l := &laid{file: file, pages: j.out.Pages, size: j.out.PageSize, xor: uint64(j.out.Checksum &^ ltx.ChecksumFlag)}
	for i := range pieces {
		if err := l.lay(in.file(i), j.r.Name(files[i]), files[i]); err != nil {
			return err
		}
		j.out.Bytes, j.out.Files = j.out.Bytes+files[i].Size, j.out.Files+1
	}
	j.out.TXID, j.out.Time, j.out.Pages, j.out.Checksum = c.Head.TXID, l.time, l.pages, databaseSum(l.xor)
	j.journal.Ended, j.journal.EndedSum = c.Head.TXID.String(), c.Head.Post.String()
	return file.Sync()
}

// laid is a database file over which later files are laid, oldest first. The checksum is kept from page to page.
type laid struct {
	file  disk.File
	pages uint32
	size  uint32 // of a page, in bytes
	xor   uint64
	time  time.Time
}

// lay writes the pages of one file.
func (l *laid) lay(in interface{ Read([]byte) (int, error) }, name string, f replica.File) error {
	d, err := newDecoder(in)
	if err != nil {
		return fault(name, err)
	}
	switch {
	case d.head.MinTXID != f.Min || d.head.MaxTXID != f.Max:
		return fault(name, fmt.Errorf("it is %s under another name", ltx.FormatFilename(d.head.MinTXID, d.head.MaxTXID)))
	case d.head.PageSize != l.size:
		return fmt.Errorf("%w: the size of a page has changed to %d bytes", ErrNotThere, d.head.PageSize)
	}
	old, data := make([]byte, l.size), make([]byte, l.size)
	before := func(page uint32) error {
		if page > l.pages || page == ltx.LockPgno(l.size) {
			return nil
		}
		if _, err := l.file.ReadAt(old, int64(page-1)*int64(l.size)); err != nil {
			return err
		}
		l.xor ^= pageSum(page, old)
		return nil
	}
	for page := d.head.Commit + 1; page <= l.pages; page++ { // cut off
		if err := before(page); err != nil {
			return err
		}
	}
	l.pages = min(l.pages, d.head.Commit)
	if err := l.file.Truncate(int64(d.head.Commit) * int64(l.size)); err != nil {
		return err
	}
	for {
		page, err := d.next(data)
		if err != nil {
			return fault(name, err)
		}
		if page == 0 {
			break
		}
		if err := before(page); err != nil {
			return err
		}
		if _, err := l.file.WriteAt(data, int64(page-1)*int64(l.size)); err != nil {
			return err
		}
		l.xor ^= pageSum(page, data)
	}
	if err := d.close(); err != nil {
		return fault(name, err)
	}
	l.pages, l.time = d.head.Commit, timeOf(d.head)
	if post := d.trailer.PostApplyChecksum; post != 0 && post != databaseSum(l.xor) {
		return fmt.Errorf("%s: with it the database's checksum is %s, and it says %s", name, databaseSum(l.xor), post)
	}
	return nil
}
