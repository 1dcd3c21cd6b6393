package replica

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc64"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// ManifestName is the manifest's name below the replica's prefix, in both layouts.
	ManifestName = "holdfast/manifest"
	// maxManifest bounds what is decoded. A manifest has about 130 bytes for a file.
	maxManifest = 64 << 20
	magic       = "holdfast-sqlite 1"
)

// Manifest is an owner's description of its replica. docs/formats/sqlite.md has the lines.
type Manifest struct {
	Owner uint64
	Epoch uint64 // takeovers before and with this owner, from 1
	// Head is where the chain of level 0 ended when this was written. Its Owner is the manifest's.
	Head Head
	// Files is every file that a restore may need, by level, then by Min.
	Files []File
}

// ErrBadManifest: the object is not a manifest as one was written.
var ErrBadManifest = errors.New("not a whole manifest")

var iso = crc64.MakeTable(crc64.ISO)

// Encode is the manifest's text.
func (m *Manifest) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nowner %016x epoch %d\n", magic, m.Owner, m.Epoch)
	h := m.Head
	fmt.Fprintf(&b, "head %s %s %s %d %d %d\n", h.TXID, kind(h.Fence), h.Post, h.Pages, h.PageSize, h.Time.UnixMilli())
	for _, f := range m.Files {
		fmt.Fprintf(&b, "file %d %s %s %d %s %s %s %d\n", f.Level, f.Min, f.Max, f.Size, f.Pre, f.Post, kind(f.Fence), f.Time.UnixMilli())
	}
	fmt.Fprintf(&b, "end %016x\n", crc64.Checksum(b.Bytes(), iso))
	return b.Bytes()
}

func kind(fence bool) string {
	if fence {
		return "fence"
	}
	return "group"
}

// ByPlace is the order of files in a manifest: by level, then by Min.
func ByPlace(a, b File) int {
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Min, b.Min), cmp.Compare(a.Max, b.Max))
}

// DecodeManifest reads what Encode wrote, and refuses everything else.
func DecodeManifest(b []byte) (*Manifest, error) {
	if len(b) > maxManifest {
		return nil, fmt.Errorf("%w: %d bytes", ErrBadManifest, len(b))
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 5 || lines[0] != magic || lines[len(lines)-1] != "" {
		return nil, fmt.Errorf("%w: does not begin with %q, or does not end", ErrBadManifest, magic)
	}
	last := lines[len(lines)-2]
	if want := fmt.Sprintf("end %016x", crc64.Checksum(b[:len(b)-len(last)-1], iso)); last != want {
		return nil, fmt.Errorf("%w: its checksum is another", ErrBadManifest)
	}
	m := &Manifest{}
	for i, line := range lines[1 : len(lines)-2] {
		f := fields{rest: strings.Split(line, " ")}
		switch i {
		case 0:
			f.word("owner")
			m.Owner = f.hex()
			f.word("epoch")
			m.Epoch = f.number(math.MaxUint64)
		case 1:
			f.word("head")
			h := &m.Head
			h.TXID, h.Fence, h.Post = TXID(f.hex()), f.kind(), Checksum(f.hex())
			h.Pages, h.PageSize, h.Time, h.Owner = uint32(f.number(math.MaxUint32)), uint32(f.number(1<<16)), f.time(), m.Owner
		default:
			f.word("file")
			m.Files = append(m.Files, File{Level: int(f.number(levels - 1)), Min: TXID(f.hex()), Max: TXID(f.hex()), Size: int64(f.number(math.MaxInt64)),
				Pre: Checksum(f.hex()), Post: Checksum(f.hex()), Fence: f.kind(), Time: f.time()})
		}
		if f.bad || len(f.rest) > 0 {
			return nil, fmt.Errorf("%w: line %d", ErrBadManifest, i+2)
		}
	}
	return m, m.check(b)
}

// check refuses what no owner writes: a list out of order, another form of the same numbers, a head that no file ends at.
func (m *Manifest) check(b []byte) error {
	if !bytes.Equal(m.Encode(), b) || !slices.IsSortedFunc(m.Files, ByPlace) {
		return fmt.Errorf("%w: not in its form", ErrBadManifest)
	}
	ends := false
	for _, f := range m.Files {
		if f.Min == 0 || f.Min > f.Max || f.Max > m.Head.TXID {
			return fmt.Errorf("%w: %s", ErrBadManifest, f)
		}
		ends = ends || f.Level == 0 && f.Max == m.Head.TXID && f.Post == m.Head.Post && f.Fence == m.Head.Fence
	}
	if !ends {
		return fmt.Errorf("%w: no file of level 0 ends at its head", ErrBadManifest)
	}
	return nil
}

// fields takes a line apart; the first that is not as it should be makes it bad.
type fields struct {
	rest []string
	bad  bool
}

func (f *fields) next() string {
	if len(f.rest) == 0 {
		f.bad = true
		return ""
	}
	s := f.rest[0]
	f.rest = f.rest[1:]
	return s
}

func (f *fields) word(w string) { f.bad = f.next() != w || f.bad }

func (f *fields) hex() uint64 {
	s := f.next()
	n, err := strconv.ParseUint(s, 16, 64)
	f.bad = f.bad || err != nil || len(s) != 16
	return n
}

func (f *fields) number(most uint64) uint64 {
	n, err := strconv.ParseUint(f.next(), 10, 64)
	f.bad = f.bad || err != nil || n > most
	return n
}

func (f *fields) time() time.Time { return time.UnixMilli(int64(f.number(math.MaxInt64))).UTC() }

func (f *fields) kind() bool {
	switch f.next() {
	case "fence":
		return true
	case "group":
		return false
	}
	f.bad = true
	return false
}
