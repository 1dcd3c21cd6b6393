package ship

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/holdfastdb/holdfast/core/disk"
)

// IdentityName is the object that tells one archive from every other place (objstore.Identity).
const IdentityName = "identity"

// KnownFile is the file of a data directory in which a member keeps its Known.
const KnownFile = "archive.json"

// knownForm is the version of that file.
const knownForm = 1

// Known is a member's memory of its archive across restarts. A store without this identity is not that archive, however empty it is. Byte
// table: docs/formats/archive.md.
type Known struct {
	Form int `json:"form"`
	// URL is --archive without its options: with another one the operator has chosen another place.
	URL string `json:"url"`
	// Identity is the archive's; "": none is known.
	Identity string `json:"identity"`
	// Archived is the index up to which the archive had the log at the last look; 0: no look has ended well.
	Archived uint64 `json:"archived"`
}

// ReadKnown reads the file of a data directory. A missing file is a zero Known.
func ReadKnown(f disk.FS, dir string) (k Known, err error) {
	name := filepath.Join(dir, KnownFile)
	b, err := f.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Known{}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	switch {
	case err != nil:
		return Known{}, fmt.Errorf("read %s: %w; if --archive names the right archive, remove this file", name, err)
	case k.Form != knownForm:
		return Known{}, fmt.Errorf("%s has form %d, this build reads %d: use the build that wrote it", name, k.Form, knownForm)
	}
	return k, nil
}

// write makes the file durable.
func (k Known) write(f disk.FS, dir string) error {
	k.Form = knownForm
	b, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	return f.WriteFileAtomic(filepath.Join(dir, KnownFile), append(b, '\n'))
}

// place is a URL without its options and the slashes at its end.
func place(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return strings.TrimRight(url, "/")
}

// known returns what this member remembers of the archive at its URL: nothing if it remembers one at another URL.
func (w *Worker) known() Known {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.memory.URL != place(w.opt.URL) {
		return Known{}
	}
	return w.memory
}

// remember keeps an identity, and how far its archive is, across a restart. The error is the disk's.
func (w *Worker) remember(identity string, archived uint64) error {
	k := Known{Form: knownForm, URL: place(w.opt.URL), Identity: identity, Archived: archived}
	w.mu.Lock()
	same := w.memory == k
	w.mu.Unlock()
	if same {
		return nil
	}
	w.saving.Lock()
	defer w.saving.Unlock()
	if w.opt.FS != nil {
		if err := k.write(w.opt.FS, w.opt.Dir); err != nil {
			return fmt.Errorf("remember the archive's identity: %w", err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memory = k
	return nil
}
