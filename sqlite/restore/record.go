package restore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"io/fs"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// Record says where a database file comes from: the file `restored` beside a database (docs/formats/sqlite.md). By it the agent tells a
// database that was restored on purpose from one that is behind.
type Record struct {
	Replica  string // URL without credentials (Place)
	Identity string // of the replica; "": it has none
	// TXID is the state that was restored, Checksum the database's there; both 0: a person chose the file (Choose).
	TXID     replica.TXID
	Checksum replica.Checksum
	// Head is where the replica ended then, HeadSum the database's checksum there; 0: Litestream's, or not known.
	Head    replica.TXID
	HeadSum replica.Checksum
	Time    time.Time // of the restore
}

const (
	recordMagic = "holdfast-sqlite-restored 1"
	// maxRecord bounds what is decoded, in bytes.
	maxRecord = 16 << 10
)

// Encode is the record's text.
func (r *Record) Encode() []byte {
	identity := r.Identity
	if identity == "" {
		identity = "-"
	}
	text := fmt.Sprintf("%s\nreplica %s\nidentity %s\ntxid %s\nchecksum %s\nhead %s\nheadsum %s\ntime %d\n", recordMagic, strconv.QuoteToASCII(r.Replica), identity,
		r.TXID, r.Checksum, r.Head, r.HeadSum, r.Time.UnixMilli())
	return fmt.Appendf([]byte(text), "end %016x\n", crc64.Checksum([]byte(text), iso))
}

// DecodeRecord reads what Encode wrote: ok reports whether it is whole.
func DecodeRecord(b []byte) (r *Record, ok bool) {
	if len(b) > maxRecord {
		return nil, false
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) != 10 || lines[0] != recordMagic || lines[9] != "" {
		return nil, false
	}
	value := map[string]string{}
	for i, word := range []string{"replica", "identity", "txid", "checksum", "head", "headsum", "time"} {
		v, ok := strings.CutPrefix(lines[i+1], word+" ")
		if !ok {
			return nil, false
		}
		value[word] = v
	}
	r = &Record{}
	var err error
	if r.Replica, err = strconv.Unquote(value["replica"]); err != nil {
		return nil, false
	}
	if r.Identity = value["identity"]; r.Identity == "-" {
		r.Identity = ""
	}
	hex := func(word string) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(value[word], 16, 64)
		}
		return n
	}
	r.TXID, r.Checksum, r.Head, r.HeadSum = replica.TXID(hex("txid")), replica.Checksum(hex("checksum")), replica.TXID(hex("head")), replica.Checksum(hex("headsum"))
	ms, terr := strconv.ParseInt(value["time"], 10, 64)
	r.Time = time.UnixMilli(ms).UTC()
	return r, err == nil && terr == nil && string(r.Encode()) == string(b)
}

// Beside is the directory that holds what is known of the database at path.
func Beside(path string) string {
	dir, name := filepath.Split(path)
	return filepath.Join(dir, "."+name+"-holdfast")
}

func recordName(path string) string { return filepath.Join(Beside(path), "restored") }

// ReadRecord returns the record beside the database at path, nil if there is none. A record whose restore has not ended says nothing: the file
// at path is then another one. ErrBadRecord: it is not whole.
func ReadRecord(fsys disk.FS, path string) (*Record, error) {
	b, err := fsys.ReadFile(recordName(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, ok := DecodeRecord(b)
	if !ok {
		return nil, fmt.Errorf("%s: %w", recordName(path), ErrBadRecord)
	}
	if f, err := fsys.Open(path + workSuffix); err == nil {
		return nil, f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return r, nil
}

// ErrBadRecord: the record of a restore is not as one was written.
var ErrBadRecord = errors.New("not a whole record of a restore")

// WriteRecord makes a record durable. The file at path must have its name after this returns, not before: see ReadRecord.
func WriteRecord(fsys disk.FS, path string, r *Record) error {
	if err := fsys.MkdirAll(Beside(path)); err != nil {
		return err
	}
	return fsys.WriteFileAtomic(recordName(path), r.Encode())
}

// RemoveRecord removes the record beside the database at path, if there is one.
func RemoveRecord(fsys disk.FS, path string) error {
	if err := fsys.Remove(recordName(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Place is a replica's URL without what says how to get there: credentials and other settings. Two spellings of one place may differ;
// the replica's identity tells then.
func Place(of string) string {
	u, err := url.Parse(of)
	if err != nil || u.Scheme == "" {
		return strings.TrimRight(of, "/")
	}
	kept := url.Values{}
	if e := u.Query().Get("endpoint"); e != "" {
		kept.Set("endpoint", e)
	}
	u.User, u.RawQuery, u.Fragment = nil, kept.Encode(), ""
	u.Path = strings.TrimRight(u.Path, "/")
	return u.String()
}

// Choose records a person's decision: the replica continues with the file at path, if the replica's end is still the returned one. The
// replica is at the URL of. disk.ErrLocked: an agent has the database. ErrEmpty: there is no replica.
func Choose(ctx context.Context, r *replica.Replica, fsys disk.FS, path, of string) (end replica.TXID, err error) {
	c, err := r.Read(ctx)
	var fault *replica.Fault
	if err != nil && (!errors.As(err, &fault) || c == nil) {
		return 0, err
	}
	if c.Head.Empty() {
		return 0, ErrEmpty
	}
	identity, err := r.Identity(ctx, false)
	if err != nil {
		return 0, err
	}
	if err := fsys.MkdirAll(Beside(path)); err != nil {
		return 0, err
	}
	lock, err := fsys.Lock(filepath.Join(Beside(path), "lock"))
	if err != nil {
		return 0, err
	}
	defer lock.Unlock() // nothing was written to it
	// A restore that did not end makes another file, and would keep the record from counting.
	for _, suffix := range []string{journalSuffix, workSuffix} {
		if err := fsys.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	rec := &Record{Replica: Place(of), Identity: identity, Head: c.Head.TXID, HeadSum: c.Head.Post, Time: time.Now()}
	return rec.Head, WriteRecord(fsys, path, rec)
}
