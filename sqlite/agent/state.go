package agent

import (
	"fmt"
	"hash/crc64"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// known is what this disk knows of a replica: the file `state` beside the database (docs/formats/sqlite.md).
type known struct {
	Owner    uint64 // the owner that wrote to the replica from this disk
	Next     uint64 // the owner about to take over from this disk, which had compared itself with TXID and Checksum; 0: none
	TXID     replica.TXID
	Checksum replica.Checksum // of the database there
	Boot     string           // the kernel's boot id when it was written
	// Clean reports that the owner had stored everything and has nothing on its way, and that the database was made durable.
	Clean bool
	// Fenced reports that another agent took the replica over from this disk, whose files could not be renamed yet.
	Fenced bool
	// Replica is the replica's URL without credentials, Identity its identity. "": an earlier version wrote the state.
	Replica, Identity string
}

const (
	stateMagic  = "holdfast-sqlite-state 2"
	stateMagic1 = "holdfast-sqlite-state 1"
	// maxState bounds what is decoded, in bytes.
	maxState = 16 << 10
)

var iso = crc64.MakeTable(crc64.ISO)

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (k known) encode() []byte {
	identity := k.Identity
	if identity == "" {
		identity = "-"
	}
	text := fmt.Sprintf("%s\nowner %016x\nnext %016x\ntxid %016x\nchecksum %016x\nboot %s\nclean %s\nfenced %s\nreplica %s\nidentity %s\n", stateMagic, k.Owner, k.Next,
		uint64(k.TXID), uint64(k.Checksum), k.Boot, yes(k.Clean), yes(k.Fenced), strconv.QuoteToASCII(k.Replica), identity)
	return ended(text)
}

// encode1 is the text that an earlier version wrote.
func (k known) encode1() []byte {
	return ended(fmt.Sprintf("%s\nowner %016x\nnext %016x\ntxid %016x\nchecksum %016x\nboot %s\nclean %s\n", stateMagic1, k.Owner, k.Next, uint64(k.TXID), uint64(k.Checksum),
		k.Boot, yes(k.Clean)))
}

func ended(text string) []byte {
	return fmt.Appendf([]byte(text), "end %016x\n", crc64.Checksum([]byte(text), iso))
}

// decodeState reads what encode wrote, or an earlier version: ok reports whether it is whole.
func decodeState(b []byte) (k known, ok bool) {
	if len(b) > maxState {
		return k, false
	}
	lines := strings.Split(string(b), "\n")
	encode, words := known.encode, []string{"owner", "next", "txid", "checksum", "boot", "clean", "fenced", "replica", "identity", "end"}
	if lines[0] == stateMagic1 {
		encode, words = known.encode1, append(words[:6:6], "end")
	}
	if len(lines) != len(words)+2 {
		return k, false
	}
	value := map[string]string{}
	for i, word := range words {
		v, ok := strings.CutPrefix(lines[i+1], word+" ")
		if !ok {
			return k, false
		}
		value[word] = v
	}
	hex := func(word string) uint64 {
		n, _ := strconv.ParseUint(value[word], 16, 64) // anything else is another text when it is encoded again
		return n
	}
	k = known{Owner: hex("owner"), Next: hex("next"), TXID: replica.TXID(hex("txid")), Checksum: replica.Checksum(hex("checksum")), Boot: value["boot"],
		Clean: value["clean"] == "yes", Fenced: value["fenced"] == "yes"}
	if id := value["identity"]; id != "-" {
		k.Identity = id
	}
	if q, ok := value["replica"]; ok {
		var err error
		if k.Replica, err = strconv.Unquote(q); err != nil {
			return known{}, false
		}
	}
	return k, string(encode(k)) == string(b)
}

// bootID is another one after the machine was started anew: then what was written and not synced may be gone.
func bootID(fs disk.FS) string {
	b, err := fs.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
