package program

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// highestMany keeps the highest checkpoints of many logs in one file, so that those signed together are synced once. With a file for each,
// forty cost forty syncs, ten times the time and the processor. docs/formats/highest.md has the table. It is used from manyLogs logs on;
// notes in files for each log, of a server that had fewer, count as well.
//
// A log has two places, as in a file of its own. They are found by the origin in the notes, so nothing has to be removed or moved when a
// log goes.
type highestMany struct {
	path string

	mu      sync.Mutex
	file    *os.File         // guarded by mu, as all that follows: nil: not open
	reads   bool             // the open file can only be read
	inode   uint64           // of the open file
	counter uint64           // of the file as it was last read or written here
	pairs   map[string]int64 // by origin
	known   map[int64]manyNote
	lost    bool // there is a pair whose log cannot be told
	block   []byte
}

// manyNote is the state of a written pair.
type manyNote struct {
	last uint64
	next int64 // the place of the two to write to
}

const (
	// manyLogs is from how many logs on the shared file is used.
	manyLogs = 16
	// manyName is no log's: those have no underscore.
	manyName = "_logs.highest"
	manyHead = "holdfast highest of many 1 "
)

// errLost: a power cut leaves one torn place of a log, and the other whole.
var errLost = errors.New("what it has of a log is damaged; compare the logs with the last published checkpoints and remove the file")

// last reads the highest checkpoint under key, as readHighest does from a file of the log's own.
func (m *highestMany) last(key *tiles.Verifier) (c *tiles.Checkpoint, here bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err = m.locked(false, func() error {
		pair, there := m.pairs[key.Name]
		if !there {
			if m.lost {
				return errLost
			}
			return nil
		}
		c, here, _, err = m.read(pair, key)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		m.close()
		return nil, false, fmt.Errorf("read %s: %s", m.path, cli.Reason(err))
	}
	return c, here, nil
}

// note writes checkpoints and syncs them together. The errors are one for each.
func (m *highestMany) note(all []checkpoint.Noted) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := make([]error, len(all))
	wrote := map[int64]manyNote{}
	err := m.locked(true, func() error {
		for i := range all {
			n := &all[i]
			if len(highestHead)+21+len(n.Note) > highestSlot {
				errs[i] = fmt.Errorf("write %s: a note of %d bytes", m.path, len(n.Note))
				continue
			}
			pair, there := m.pairs[n.Key.Name]
			if !there {
				pair = int64(len(m.pairs))
				m.pairs[n.Key.Name] = pair
			}
			k, there := m.known[pair]
			if !there {
				c, _, at, err := m.read(pair, n.Key)
				if err != nil {
					errs[i] = fmt.Errorf("read %s: %w", m.path, err)
					continue
				}
				if c != nil {
					k = manyNote{last: c.Size, next: 1 - int64(at)}
				}
				m.known[pair] = k
			}
			if n.Size <= k.last {
				continue
			}
			m.block = appendHighest(m.block[:0], m.inode, n.Note)
			if _, err := m.file.WriteAt(m.block, (1+2*pair+k.next)*highestSlot); err != nil {
				return err
			}
			wrote[pair] = manyNote{last: n.Size, next: 1 - k.next}
		}
		if len(wrote) == 0 {
			return nil
		}
		// Others who share the file see by the counter that it has changed.
		if err := m.writeHead(m.counter + 1); err != nil {
			return err
		}
		return syscall.Fdatasync(int(m.file.Fd()))
	})
	if err != nil {
		m.close()
		for i := range errs {
			errs[i] = fmt.Errorf("write %s: %w", m.path, err)
		}
		return errs
	}
	for pair, k := range wrote { // any order: they are different pairs
		m.known[pair] = k
	}
	return errs
}

// locked does f with the file open, locked against other processes and as they have left it. Without create it is an error that there is none.
func (m *highestMany) locked(create bool, f func() error) error {
	if inode, err := inodeOf(m.path); m.file != nil && (err != nil || inode != m.inode) {
		m.close() // the file was removed or replaced
	}
	if create && m.reads {
		m.close()
	}
	if m.file == nil {
		if err := m.open(create); err != nil {
			return err
		}
	}
	unlock, err := lockFile(m.file)
	if err != nil {
		return err
	}
	defer unlock()
	counter, err := m.readHead()
	if err != nil {
		return err
	}
	if m.pairs == nil || counter != m.counter {
		if err := m.load(counter); err != nil {
			return err
		}
	}
	return f()
}

func (m *highestMany) open(create bool) (err error) {
	m.file, err = os.OpenFile(m.path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		if err = m.begin(); err == nil {
			m.file, err = os.OpenFile(m.path, os.O_RDWR, 0)
		}
	case err != nil && !create: // a server that may only read the keys still learns what was kept
		m.file, err = os.Open(m.path)
		m.reads = err == nil
	}
	if err != nil {
		m.file = nil
		return err
	}
	m.inode, err = inodeOf(m.path)
	return err
}

// begin makes the file, unless another process does so at the same time.
func (m *highestMany) begin() error {
	temp, err := os.CreateTemp(filepath.Dir(m.path), manyName+".")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // it has got the other name, or is of no use
	_, err = temp.Write(appendManyHead(nil, 0))
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), m.path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.OS().SyncDir(filepath.Dir(m.path))
}

func appendManyHead(dst []byte, counter uint64) []byte {
	from := len(dst)
	dst = append(strconv.AppendUint(append(dst, manyHead...), counter, 10), '\n')
	for len(dst)-from < highestSlot {
		dst = append(dst, 0)
	}
	return dst
}

func (m *highestMany) writeHead(counter uint64) error {
	m.block = appendManyHead(m.block[:0], counter)
	_, err := m.file.WriteAt(m.block, 0)
	if err == nil {
		m.counter = counter
	}
	return err
}

// readHead reads the counter. A head that was torn by a power cut counts as another one than before; the notes speak for themselves.
func (m *highestMany) readHead() (uint64, error) {
	var b [64]byte
	if _, err := m.file.ReadAt(b[:], 0); err != nil {
		return 0, err
	}
	rest, ok := strings.CutPrefix(string(b[:]), manyHead)
	if !ok {
		return 0, errors.New("it is not a file of this kind; remove it if it is none of yours")
	}
	number, _, _ := strings.Cut(rest, "\n")
	counter, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, nil
	}
	return counter, nil
}

// load finds out which pair is which log's.
func (m *highestMany) load(counter uint64) error {
	m.counter, m.pairs, m.known, m.lost = counter, map[string]int64{}, map[int64]manyNote{}, false
	b := make([]byte, 2*highestSlot)
	for pair := int64(0); ; pair++ {
		n, err := m.file.ReadAt(b, (1+2*pair)*highestSlot)
		if n == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		clear(b[n:])
		origin := ""
		for i := range 2 {
			if _, note, ok := parseHighest(b[i*highestSlot : (i+1)*highestSlot]); ok {
				origin, _, _ = strings.Cut(string(note), "\n")
				break
			}
		}
		if origin == "" {
			origin = fmt.Sprintf("\n%d", pair) // no origin has a newline
			// One that is empty was never synced: a power cut has left the one behind it.
			m.lost = m.lost || len(bytes.Trim(b, "\x00")) > 0
		}
		m.pairs[origin] = pair
	}
}

// read reads a pair: the highest checkpoint under key, whether it was written to this file, and which of the two places it is at.
func (m *highestMany) read(pair int64, key *tiles.Verifier) (c *tiles.Checkpoint, here bool, at int, err error) {
	b := make([]byte, 2*highestSlot)
	n, err := m.file.ReadAt(b, (1+2*pair)*highestSlot)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, 0, err
	}
	c, here, at, bad := pick(b[:n], m.inode, key)
	if c == nil && bad {
		return nil, false, 0, fmt.Errorf("%s: %w", key.Name, errLost)
	}
	return c, here, at, nil
}

// close forgets the open file; its written notes are durable.
func (m *highestMany) close() {
	if m.file != nil {
		_ = m.file.Close()
	}
	m.file, m.reads, m.pairs, m.known = nil, false, nil, nil
}

// Close closes the file.
func (m *highestMany) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.close()
}
