package program

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// highestFiles keep, beside the keys, the highest checkpoint signed with each: NAME.highest. They are in no log and no snapshot, so a
// member started on an older copy of a data directory still finds its last signatures. docs/formats/highest.md has the table. Its methods
// may be called from any goroutine.
//
// A file has two places for a note, written in turn, so that a torn write leaves the other one. It is not replaced each time: that costs a
// file system two journal commits, this one flush, and clients wait for the checkpoint.
type highestFiles struct {
	dir  string
	log  *slog.Logger
	many highestMany // the logs' where there are many

	mu    sync.Mutex
	files map[string]*highestFile // guarded by mu
	told  bool                    // guarded by mu: that nothing can be kept here
}

// highestFile is one log's. Its fields are guarded by mu.
type highestFile struct {
	path string

	mu    sync.Mutex
	file  disk.File // nil: not open
	inode uint64    // of the open file
	locks *os.File  // the same file, to lock it: members on one machine may share a directory of keys
	seen  []byte    // the file's content at the last read or write
	next  int       // the place to write to
	last  uint64    // size that is noted
	block []byte    // the buffer of direct writes
}

const (
	// highestSlot is the room for one note.
	highestSlot = disk.BlockBytes
	// highestHead begins what is written; the inode number after it tells a copy from the file that was written.
	highestHead = "holdfast highest 1 "
)

func newHighestFiles(dir string, log *slog.Logger) *highestFiles {
	return &highestFiles{dir: dir, log: log, many: highestMany{path: filepath.Join(dir, manyName)}, files: map[string]*highestFile{}}
}

func (h *highestFiles) of(name string) *highestFile {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.files[name]
	if f == nil {
		f = &highestFile{path: filepath.Join(h.dir, name+".highest")}
		h.files[name] = f
	}
	return f
}

// Last implements checkpoint.Highest.
func (h *highestFiles) Last(name string, key *tiles.Verifier) (*tiles.Checkpoint, bool, error) {
	f := h.of(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	c, here, _, err := readHighest(f.path, key)
	if err != nil {
		return nil, false, err
	}
	shared, at, err := h.many.last(key)
	if err != nil {
		return nil, false, err
	}
	if shared != nil && (c == nil || shared.Size > c.Size || shared.Size == c.Size && at) {
		return shared, at, nil
	}
	return c, here, nil
}

// readHighest reads a file: the highest checkpoint under key, whether it was written where it lies, and which place it is at.
func readHighest(path string, key *tiles.Verifier) (c *tiles.Checkpoint, here bool, at int, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, 0, nil
	}
	if err != nil {
		return nil, false, 0, fmt.Errorf("read %s: %s", path, cli.Reason(err))
	}
	inode, err := inodeOf(path)
	if err != nil {
		return nil, false, 0, fmt.Errorf("read %s: %s", path, cli.Reason(err))
	}
	c, here, at, bad := pick(b, inode, key)
	if c == nil && bad { // a power cut leaves one torn place, and the other whole
		return nil, false, 0, fmt.Errorf("%s is damaged; compare the log with the last published checkpoint and remove the file", path)
	}
	return c, here, at, nil
}

// pick finds the highest checkpoint under key in places, which lie one behind the other. here: it was written to the file with that inode
// number. at is its place. bad reports that a place is neither empty nor good, nor another key's.
func pick(b []byte, inode uint64, key *tiles.Verifier) (c *tiles.Checkpoint, here bool, at int, bad bool) {
	for i := 0; i*highestSlot < len(b); i++ {
		place := b[i*highestSlot : min((i+1)*highestSlot, len(b))]
		of, note, ok := parseHighest(place)
		if !ok {
			bad = bad || len(bytes.Trim(place, "\x00")) > 0
			continue
		}
		got, _, err := tiles.OpenCheckpoint(note, key)
		if err != nil {
			if n, err := tiles.ParseNote(note); err == nil && otherKey(n, key) {
				continue // of an earlier log of this name
			}
			bad = true
			continue
		}
		if c == nil || got.Size > c.Size {
			c, here, at = got, of == inode, i
		}
	}
	return c, here, at, bad
}

// otherKey reports whether no line of a note is of this key.
func otherKey(n *tiles.Note, key *tiles.Verifier) bool {
	for _, s := range n.Sigs {
		if s.Name == key.Name && s.KeyID == key.ID() {
			return false
		}
	}
	return true
}

// parseHighest takes one place of a file apart: the number of the file it was written to, and the note.
func parseHighest(b []byte) (inode uint64, note []byte, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(highestHead))
	if !ok {
		return 0, nil, false
	}
	number, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return 0, nil, false
	}
	inode, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0, nil, false
	}
	note, _, _ = bytes.Cut(rest, []byte{0})
	return inode, note, len(note) > 0
}

// appendHighest is the reverse, filled with zeros to the length of a place.
func appendHighest(dst []byte, inode uint64, note []byte) []byte {
	from := len(dst)
	dst = append(append(strconv.AppendUint(append(dst, highestHead...), inode, 10), '\n'), note...)
	for len(dst)-from < highestSlot {
		dst = append(dst, 0)
	}
	return dst
}

// Note implements checkpoint.Highest. If the directory cannot be written to, as some operators give keys to a server, no note is kept and
// one log line says so. The log is then guarded by its places of publication.
func (h *highestFiles) Note(all []checkpoint.Noted) []error {
	h.mu.Lock()
	many := len(h.files) > manyLogs
	h.mu.Unlock()
	var errs []error
	if many {
		errs = h.many.note(all)
	} else {
		errs = make([]error, len(all))
		var work sync.WaitGroup
		for i := range all { // each waits for a disk: together they wait about as long as one
			work.Go(func() { errs[i] = h.noteOne(&all[i]) })
		}
		work.Wait()
	}
	for i, err := range errs {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			errs[i] = nil
			h.mu.Lock()
			if !h.told {
				h.told = true
				h.log.Warn("the highest signed checkpoint is not kept: this user cannot write beside the keys", "dir", h.dir, "err", err)
			}
			h.mu.Unlock()
		}
	}
	return errs
}

func (h *highestFiles) noteOne(n *checkpoint.Noted) error {
	f := h.of(n.Log)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.put(n.Key, n.Size, n.Note); err != nil {
		f.close()
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

func (f *highestFile) put(key *tiles.Verifier, size uint64, note []byte) error {
	if len(highestHead)+21+len(note) > highestSlot {
		return fmt.Errorf("a note of %d bytes", len(note))
	}
	if inode, err := inodeOf(f.path); f.file != nil && (err != nil || inode != f.inode) {
		f.close() // the file was removed or replaced
	}
	if f.file == nil {
		return f.open(key, size, note)
	}
	unlock, err := lockFile(f.locks)
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.look(key); err != nil || size <= f.last {
		return err
	}
	f.block = appendHighest(f.block[:0], f.inode, note)
	if _, err := f.file.WriteAt(f.block, int64(f.next)*highestSlot); err != nil {
		return err
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	copy(f.seen[f.next*highestSlot:], f.block)
	f.last, f.next = size, 1-f.next
	return nil
}

// lockFile waits for an exclusive lock on a file, which other processes respect that take it too.
func lockFile(f *os.File) (unlock func(), err error) {
	for { // a signal may interrupt the wait
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return func() { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }, nil // giving a lock back does not fail
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, err
		}
	}
}

// look takes in what another process may have written. The caller holds the lock.
func (f *highestFile) look(key *tiles.Verifier) error {
	b := make([]byte, 2*highestSlot)
	if _, err := f.locks.ReadAt(b, 0); err != nil {
		return err
	}
	if bytes.Equal(b, f.seen) {
		return nil
	}
	c, _, at, err := readHighest(f.path, key)
	if err != nil {
		return err
	}
	f.seen = b
	if c != nil {
		f.last, f.next = c.Size, 1-at
	}
	return nil
}

// hold opens the file that lies there, to write to it.
func (f *highestFile) hold() (err error) {
	if f.file, err = disk.OS().OpenDirect(f.path); err != nil {
		return err
	}
	if f.locks, err = os.Open(f.path); err != nil {
		return err
	}
	f.inode, err = inodeOf(f.path)
	return err
}

// open begins a file with a note, or goes on with one that was written here. It is replaced as a whole: a crash leaves the old one.
func (f *highestFile) open(key *tiles.Verifier, size uint64, note []byte) error {
	was, here, at, err := readHighest(f.path, key)
	if err != nil {
		return err
	}
	if was != nil && was.Size > size {
		return nil // it is ahead of the note: the signer has asked the places before
	}
	if f.block == nil {
		f.block = disk.Blocks(highestSlot)
	}
	if was != nil && here {
		if err := f.hold(); err != nil {
			return err
		}
		f.last, f.next = was.Size, 1-at
		return f.put(key, size, note)
	}
	fsys, temp := disk.OS(), f.path+".new"
	file, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	inode, err := inodeOf(temp)
	if err == nil {
		err = file.Preallocate(2 * highestSlot)
	}
	if err == nil {
		_, err = file.WriteAt(appendHighest(nil, inode, note), 0)
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = fsys.Rename(temp, f.path)
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(f.path))
	}
	if err != nil {
		return err
	}
	f.last, f.next = size, 1
	return f.hold()
}

// close forgets the open file; its written notes are durable.
func (f *highestFile) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
	if f.locks != nil {
		_ = f.locks.Close()
		f.locks = nil
	}
	f.seen = nil
}

// Close closes all files.
func (h *highestFiles) Close() {
	h.many.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.files { // any order: all are closed
		f.mu.Lock()
		f.close()
		f.mu.Unlock()
	}
}

// inodeOf is the number by which the file system knows a file. A copy has another number.
func inodeOf(path string) (uint64, error) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s: the file system has no numbers for files", path)
	}
	return s.Ino, nil
}
