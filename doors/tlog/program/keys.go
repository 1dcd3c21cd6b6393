package program

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// defaultLog is the log that answers at the root of the tlog address.
const defaultLog = "default"

// keyFiles are the private keys of transparency logs: files NAME.key in one directory, with NAME.vkey beside each. They are
// never in log, snapshot or archive. Its methods may be called from any goroutine.
type keyFiles struct {
	dir string
	// alone reports whether no other member needs the same file, so that a key may be made here; nil: no.
	alone func() bool

	mu     sync.Mutex
	keys   map[string]*tiles.Signer // guarded by mu
	looked map[string]time.Time     // guarded by mu: when a missing file was last looked for
	made   []string                 // guarded by mu: files and directories that create has made, in the order of removal

	// advice ends an error about the directory: the flag that names it.
	advice string
}

// lookAgain is how long a missing key file is not looked for again.
const lookAgain = time.Second

func newKeyFiles(dir string, alone func() bool) *keyFiles {
	return &keyFiles{dir: dir, alone: alone, keys: map[string]*tiles.Signer{}, looked: map[string]time.Time{}, advice: "give another --tlog-keys"}
}

func (k *keyFiles) file(name string) string { return filepath.Join(k.dir, name+".key") }

// get returns the key of a log, nil if its file is missing or unreadable. A file that appears later is found.
func (k *keyFiles) get(name string) *tiles.Signer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.keys[name]; s != nil {
		return s
	}
	if time.Since(k.looked[name]) < lookAgain {
		return nil
	}
	k.looked[name] = time.Now()
	s, err := readKey(k.file(name))
	if err != nil {
		return nil
	}
	k.keys[name] = s
	return s
}

// readKey reads one private key file.
func readKey(path string) (*tiles.Signer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := tiles.ParseSigner(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; write it with `holdfast tlog keygen`", path, err)
	}
	return s, nil
}

// check refuses key files that cannot be read: otherwise a log would become read-only without notice.
func (k *keyFiles) check() error {
	files, err := os.ReadDir(k.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--tlog-keys %s: %s; give a directory this user can read", k.dir, cli.Reason(err))
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".key")
		if !ok || !tlogpart.ValidName(name) {
			continue
		}
		s, err := readKey(filepath.Join(k.dir, f.Name()))
		if err != nil {
			return fmt.Errorf("--tlog-keys: %w", err)
		}
		k.mu.Lock()
		k.keys[name] = s
		k.mu.Unlock()
	}
	return nil
}

// create makes a key for a log and writes both files, durably. It refuses to overwrite: the old key may be the only one that
// can go on with a log.
func (k *keyFiles) create(name, origin string) (*tiles.Signer, error) {
	seed := make([]byte, 32)
	if _, err := rand.Read(seed); err != nil {
		return nil, err
	}
	s, err := tiles.NewSigner(origin, seed)
	if err != nil {
		return nil, fmt.Errorf("origin %q: it may have no space and no +, and not be empty; give one like log.example.org/2026", origin)
	}
	made := missing(k.dir)
	if err := disk.OS().MkdirAll(k.dir); err != nil {
		k.note(made)
		return nil, fmt.Errorf("make %s: %s; %s", k.dir, cli.Reason(err), k.advice)
	}
	err = writeNew(k.file(name), s.Private()+"\n", 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists; remove it only if no log was ever signed with it", k.file(name))
	}
	vkey := filepath.Join(k.dir, name+".vkey")
	k.note(append([]string{k.file(name), vkey}, made...))
	if err == nil {
		err = os.WriteFile(vkey, []byte(s.Verifier().String()+"\n"), 0o644) // can be had from the other at any time
	}
	if err == nil {
		err = disk.OS().SyncDir(k.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("write a key to %s: %s; %s", k.dir, cli.Reason(err), k.advice)
	}
	k.mu.Lock()
	k.keys[name] = s
	k.mu.Unlock()
	return s, nil
}

// missing lists dir and the directories above it that do not exist, dir first.
func missing(dir string) (all []string) {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return all
		}
		all = append(all, dir)
	}
}

// note remembers what create makes, for undo.
func (k *keyFiles) note(made []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made = append(k.made, made...)
}

// undo removes the files that create has made, and the directories that hold nothing else. It is for a start that was refused before
// the node had an identity: no log can have been signed with such a key.
func (k *keyFiles) undo() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range k.made {
		os.Remove(name) // a directory that holds something else stays, and so does what this user may not remove
	}
	k.made = nil
}

// writeNew writes a file that must not exist, and syncs it.
func writeNew(path, text string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	return err
}

// forNew returns the key for a log that an operator creates. A single member makes a missing one.
func (k *keyFiles) forNew(name, origin string) (*tiles.Verifier, error) {
	s := k.get(name)
	if s == nil && k.alone != nil && k.alone() {
		var err error
		if s, err = k.create(name, origin); err != nil {
			return nil, err
		}
	}
	switch {
	case s == nil:
		return nil, fmt.Errorf("there is no %s; make it with `holdfast tlog keygen %s --origin %s` and give every member that shall sign the same file",
			k.file(name), name, origin)
	case s.Verifier().Name != origin:
		return nil, fmt.Errorf("%s is a key for the origin %s; give that one", k.file(name), s.Verifier().Name)
	}
	return s.Verifier(), nil
}

// randomOrigin makes the origin of a log that was given none. Two of them must not have one origin, or they would look like two
// histories of one log.
func randomOrigin() string {
	b := make([]byte, 8)
	if _, err := rand.Read(b); err != nil {
		panic(err) // without randomness no key could be made either
	}
	return "holdfast.local/" + hex.EncodeToString(b)
}
