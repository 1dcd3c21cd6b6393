package restore

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

func init() {
	others = append(others, other{
		machine: func() machine.Machine { return sqlmachine.New() },
		part: func(i int) entry.Part { // a database with a table
			p := &sqlpart.Part{Kind: sqlpart.Define, Changes: []sqlpart.Change{
				{Verb: sqlpart.CreateDatabase, Name: fmt.Sprintf("d%d", i), Definition: []byte("utf8mb4_bin")},
				{Verb: sqlpart.CreateTable, Name: "t", Definition: fmt.Appendf(nil, "definition %d", i), Indexes: []sqlpart.Index{{ID: 1, State: sqlpart.Public}}},
			}}
			return entry.Part{Machine: sqlmachine.Spec.ID, Body: sqlpart.AppendPart(nil, p)}
		},
	})
}
