package node

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/disk"
)

// FormatVersion is the version of the data directory this build reads and writes.
const FormatVersion = 1

// Identity is the small file that says whose data directory this is. Member ids are random and for all time; names are
// labels (DECISIONS A5).
type Identity struct {
	Format int    `json:"format"`
	Name   string `json:"name"`
	// Member is made before any other member is told of it. Cluster is 0 until the member belongs to one.
	Member  uint64 `json:"member,string"`
	Cluster uint64 `json:"cluster,string"`
	// Nonce proves to the cluster that this is the process that asked to join before.
	Nonce uint64 `json:"nonce,string"`
	// PeerAddr is this member's address for the others, "" if it cannot be reached.
	PeerAddr string `json:"peer_addr,omitempty"`
	// Peers are the members a joining member was told of: id → host:port.
	Peers map[uint64]string `json:"peers,omitempty"`
	// Making names the restore or import that fills this directory, "" once that has ended. A directory with an interrupted one
	// must not begin an empty cluster, as that of a first start may.
	Making string `json:"making,omitempty"`
}

// unfinished returns why a directory is refused whose restore or import did not end, nil for any other.
func (id *Identity) unfinished(dir string) error {
	if id.Making == "" {
		return nil
	}
	return fmt.Errorf("%s holds %s that did not end: remove the directory and begin that again", dir, id.Making)
}

// ErrNoIdentity: the directory holds no Holdfast data.
var ErrNoIdentity = errors.New("no data directory here")

func identityFile(dir string) string { return filepath.Join(dir, "identity.json") }

// ReadIdentity reads the identity of a data directory.
func ReadIdentity(f disk.FS, dir string) (*Identity, error) {
	b, err := f.ReadFile(identityFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", dir, ErrNoIdentity)
	}
	if notADirectory(err) {
		return nil, fmt.Errorf("%s is a file, or lies below one: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	var id Identity
	if err := json.Unmarshal(b, &id); err != nil || id.Format == 0 {
		return nil, fmt.Errorf("%s is damaged or of another program: %w; put it back from a copy of the directory, or give an empty directory",
			identityFile(dir), cmp.Or(err, ErrForeign))
	}
	if id.Format != FormatVersion {
		return nil, fmt.Errorf("%s has data format %d, this build reads %d: use the build that wrote it", dir, id.Format, FormatVersion)
	}
	return &id, nil
}

func (id *Identity) write(f disk.FS, dir string) error {
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	if err := f.WriteFileAtomic(identityFile(dir), append(b, '\n')); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

// newIdentity makes or reads the identity of a directory that does not belong to a cluster yet.
func (cfg *Config) newIdentity(name, peerAddr string) (*Identity, error) {
	id, err := cfg.newIdentityIn(name, peerAddr, "", false)
	if err == nil {
		err = id.unfinished(cfg.Dir)
	}
	if err != nil {
		return nil, err
	}
	return id, nil
}

// newIdentityIn is newIdentity for a directory that is made from a copy, named by making; besideEtcd allows etcd's directory
// member in it.
func (cfg *Config) newIdentityIn(name, peerAddr, making string, besideEtcd bool) (*Identity, error) {
	f, dir := cfg.FS, cfg.Dir
	id, err := ReadIdentity(f, dir)
	if err == nil {
		if peerAddr != "" || id.Cluster == 0 { // else the known address counts, if it is one of several
			id.PeerAddr = peerAddr
		}
		return id, nil
	}
	if !errors.Is(err, ErrNoIdentity) {
		return nil, err
	}
	var also []string
	if besideEtcd {
		also = []string{"member"}
	}
	if err := cfg.refuseForeign(also...); err != nil {
		return nil, err
	}
	if err := f.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	id = &Identity{Format: FormatVersion, Name: name, Member: randomID(), Nonce: randomID(), PeerAddr: peerAddr, Making: making}
	return id, id.write(f, dir)
}

// randomID is never 0.
func randomID() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:])
		if v := binary.LittleEndian.Uint64(b[:]); v != 0 && v>>62 == 0 { // small enough for tools that use signed numbers
			return v
		}
	}
}
