package agent

import (
	"fmt"
	"hash/crc64"
	"strings"

	"github.com/holdfastdb/holdfast/disk"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// known is what this disk knows of a replica: the file `state` beside the database (docs/formats/sqlite.md).
type known struct {
	Owner    uint64 // who wrote to the replica from this disk
	Next     uint64 // who was about to take it over from this disk; 0: nobody
	TXID     replica.TXID
	Checksum replica.Checksum // of the database there
	Boot     string           // the kernel's boot id when it was written
	// Clean reports that the owner had stored everything and has nothing on its way, and that the database was made durable.
	Clean bool
}

const stateMagic = "holdfast-sqlite-state 1"

var iso = crc64.MakeTable(crc64.ISO)

func (k known) encode() []byte {
	clean := "no"
	if k.Clean {
		clean = "yes"
	}
	text := fmt.Sprintf("%s\nowner %016x\nnext %016x\ntxid %016x\nchecksum %016x\nboot %s\nclean %s\n", stateMagic, k.Owner, k.Next, uint64(k.TXID), uint64(k.Checksum), k.Boot, clean)
	return fmt.Appendf([]byte(text), "end %016x\n", crc64.Checksum([]byte(text), iso))
}

// decodeState reads what encode wrote: ok reports whether it is whole.
func decodeState(b []byte) (k known, ok bool) {
	if len(b) > 1024 {
		return k, false
	}
	var clean string
	var end, txid, sum uint64
	lines := strings.SplitAfter(string(b), "\n")
	if len(lines) != 9 || lines[8] != "" || lines[0] != stateMagic+"\n" {
		return k, false
	}
	for i, scan := range []struct {
		form string
		to   any
	}{{"owner %016x\n", &k.Owner}, {"next %016x\n", &k.Next}, {"txid %016x\n", &txid}, {"checksum %016x\n", &sum}, {"boot %s\n", &k.Boot}, {"clean %s\n", &clean}, {"end %016x\n", &end}} {
		if _, err := fmt.Sscanf(lines[i+1], scan.form, scan.to); err != nil {
			return k, false
		}
	}
	k.TXID, k.Checksum, k.Clean = replica.TXID(txid), replica.Checksum(sum), clean == "yes"
	return k, string(b) == string(k.encode())
}

// bootID is another one after the machine was started anew: then what was written and not synced may be gone.
func bootID(fs disk.FS) string {
	b, err := fs.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
