package restore

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"
	"time"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

const (
	// workSuffix and journalSuffix are beside the target while it is being made.
	workSuffix    = ".restoring"
	journalSuffix = ".restoring-journal"
	lockSuffix    = ".restoring-lock"
	journalForm   = "holdfast-sqlite-restore 2"
)

// journal is the resume point of a restore that was killed: its goal, and the progress of the working file. Its content is durable in the
// working file, which may have more.
type journal struct {
	Form string    `json:"form"`
	From string    `json:"from"`
	TXID uint64    `json:"txid,omitempty"`
	Time time.Time `json:"time,omitzero"`

	Plan plan `json:"plan"`
	// Ended is the TXID at which the replica ended when the plan was made, EndedSum the database's checksum there (hex).
	Ended    string `json:"ended"`
	EndedSum string `json:"ended_sum"`
	// Next is which of the plan's files is being read, from the last one on downwards. Head is its header (hex) and At how far it was read, if it
	// was begun.
	Next int       `json:"next"`
	Head string    `json:"head,omitempty"`
	At   *progress `json:"at,omitempty"`
	// Seen has a bit for each page that is in the working file, XOR is of their checksums.
	Seen bitmap `json:"seen"`
	XOR  uint64 `json:"xor,string"`
	// Begins is the database's checksum before the files above Next, by the TXID there.
	Begins map[string]string `json:"begins"`
}

// readJournal reads the journal of a restore that did not end; nil if there is none that means the same.
func readJournal(fsys disk.FS, name string, how *Options) (*journal, error) {
	b, err := fsys.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j := &journal{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	same := func() bool {
		return j.Form == journalForm && j.From == how.From && j.TXID == uint64(how.Target.TXID) && j.Time.Equal(how.Target.Time)
	}
	if err := d.Decode(j); err != nil || !same() || !j.whole() || j.Begins == nil {
		return nil, nil // another restore's, or another version's: its work is done anew
	}
	return j, nil
}

// whole reports whether its parts belong together.
func (j *journal) whole() bool {
	p := &j.Plan
	if j.Next < 0 || j.Next >= len(p.Files) || !ltx.IsValidPageSize(p.PageSize) || len(j.Seen) != len(newBitmap(p.Pages)) {
		return false
	}
	if j.At == nil {
		return true
	}
	h, err := j.header()
	return err == nil && h.PageSize == p.PageSize && h.Validate() == nil && j.At.Offset >= ltx.HeaderSize && j.At.Offset <= p.Files[j.Next].Size
}

// ended is where the replica ended when the plan was made.
func (j *journal) ended() (at replica.TXID, sum replica.Checksum) {
	n, err := strconv.ParseUint(j.Ended, 16, 64)
	m, merr := strconv.ParseUint(j.EndedSum, 16, 64)
	if err != nil || merr != nil {
		return 0, 0 // a journal that was edited; no replica ends there
	}
	return replica.TXID(n), replica.Checksum(m)
}

// header is that of the file that was begun.
func (j *journal) header() (h ltx.Header, err error) {
	b, err := hex.DecodeString(j.Head)
	if err != nil {
		return h, err
	}
	return h, h.UnmarshalBinary(b)
}

func (j *journal) write(fsys disk.FS, name string) error {
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return fsys.WriteFileAtomic(name, append(b, '\n'))
}
