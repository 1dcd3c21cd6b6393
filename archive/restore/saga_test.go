package restore

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

func init() {
	others = append(others, other{
		machine: func() machine.Machine {
			return sagamachine.New(sagamachine.Options{CacheBytes: 256 << 10, FilterBytes: 64 << 10, RecentTimers: 64})
		},
		part: func(i int) entry.Part {
			p := &sagapart.Part{Kind: sagapart.Begin, Begin: &sagapart.BeginPart{Status: sagapart.Submitted, IntervalMs: 10_000, Branches: []sagapart.Branch{},
				Definition: sagapart.Definition{Gid: fmt.Sprintf("gid-%d", i), Mode: sagapart.Msg, Protocol: "http"}}}
			return entry.Part{Machine: sagamachine.Spec.ID, Body: sagapart.Append(nil, p)}
		},
	})
}
