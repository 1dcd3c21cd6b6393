package part

import (
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// NewLog makes the part that creates a log, for another door that adds to it in commands of its own. seed is the key's seed, 32 random
// bytes, and origin the key's name.
func NewLog(name, origin string, seed []byte) (entry.Part, error) {
	key, err := tiles.NewSigner(origin, seed)
	if err != nil {
		return entry.Part{}, err
	}
	return entry.Part{Machine: entry.MachineTlog, Body: AppendPart(nil, &Part{Kind: Create, Spec: LogSpec{Name: name, Key: *key.Verifier()}})}, nil
}

// AddEntry makes the part that adds one entry to the log of that number. The entry must not be longer than tiles.MaxEntryBytes.
func AddEntry(log uint64, data []byte) entry.Part {
	return entry.Part{Machine: entry.MachineTlog, Body: AppendPart(nil, &Part{Kind: Append, Log: log, Entries: tiles.AppendEntry(nil, data)})}
}
