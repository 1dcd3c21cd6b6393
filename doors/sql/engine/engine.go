package engine

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/core/node"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// Version is what clients are told: programs decide by it what they may send.
const Version = "8.0.36-holdfast"

// Options of New.
type Options struct {
	// Catalogue returns the catalogue at the applied index. *sqlmachine.Machine's Catalogue is one.
	Catalogue func() *sqlmachine.Catalogue
	// NoPlans has every statement take the full path. Tests compare with it.
	NoPlans bool
	// NoExecutor has every statement planned by the library. Tests compare with it.
	NoExecutor bool
	// MaxPacket is what @@max_allowed_packet says, in bytes; 0: 64 MiB. The library keeps it for all engines of a process.
	MaxPacket int
	// MaxKept bounds what a statement keeps in memory to sort, group or lock it, in bytes; 0: as much as four of the largest packets, and 64 MiB at least.
	MaxKept int
	// MaxAllKept bounds what all statements together keep so, in bytes, and is no less than MaxKept; 0: twice that.
	MaxAllKept int64
	// Operate answers what operators ask.
	Operate Operate
}

// Engine plans and runs statements for the sessions of one member. Any goroutine.
type Engine struct {
	opt      Options
	sql      *sqle.Engine
	schemaDB sql.Database
	ownDB    *ownDatabase
	plans    plans
	pool     pool
	directed atomic.Uint64 // statements that the executor has run

	variables map[string]sql.SystemVarValue // with which sessions begin; it does not change

	mu     sync.RWMutex
	tables map[tableKey]*table // of definitions; guarded by mu

	references *references // of the newest catalogue that was asked for; guarded by mu; nil: none was
}

type tableKey struct{ id, version uint64 }

// New returns an engine.
func New(opt Options) *Engine {
	e := &Engine{opt: opt, tables: map[tableKey]*table{}, schemaDB: newInformationSchema(), ownDB: newOwnDatabase()}
	if e.pool.most = max(opt.MaxAllKept, int64(e.mostKept())); opt.MaxAllKept == 0 {
		e.pool.most *= 2
	}
	setGlobals()
	if opt.MaxPacket > 0 {
		_ = sql.SystemVariables.AssignValues(map[string]any{"max_allowed_packet": int64(opt.MaxPacket)}) // the library knows the name
	}
	e.variables = allVariables()
	a := analyzer.NewBuilder(provider{e}).Build()
	a.Coster = coster{a.Coster}
	e.sql = sqle.New(a, &sqle.Config{}) // makes the counters
	counters.Do(func() { sql.StatusVariables = noCounters{sql.StatusVariables} })
	return e
}

// lockWaitVariable is how many seconds a statement waits for the lock of a row.
const lockWaitVariable = "innodb_lock_wait_timeout"

// globals and counters guard what the library keeps for the whole process.
var globals, counters sync.Once

// setGlobals gives the library's variables the values of this server, and its rules our judgement. They are the same for every engine of a process.
func setGlobals() {
	globals.Do(func() {
		sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&sql.MysqlSystemVariable{Name: ackVariable, Default: "commit", Dynamic: true,
			Scope: sql.GetMysqlScope(sql.SystemVariableScope_Session), Type: types.NewSystemEnumType(ackVariable, "commit", "archive")},
			// The library knows no value but 1. The range and the default are MySQL's.
			&sql.MysqlSystemVariable{Name: lockWaitVariable, Default: int64(50), Dynamic: true, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both),
				SetVarHintApplies: true, Type: types.NewSystemIntType(lockWaitVariable, 1, 1<<30, false)},
			&sql.MysqlSystemVariable{Name: viewAgeVariable, Default: int64(node.ViewAge / time.Second), Dynamic: true, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Session),
				Type: types.NewSystemIntType(viewAgeVariable, 1, mostViewAge, false)},
			&sql.MysqlSystemVariable{Name: viewBytesVariable, Default: int64(viewBytes), Dynamic: true, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Session),
				Type: types.NewSystemIntType(viewBytesVariable, 1<<20, math.MaxInt64, false)}})
		for i, r := range analyzer.OnceBeforeDefault {
			if r.Id.String() == "validateGroupBy" {
				analyzer.OnceBeforeDefault[i].Apply = judgedTwice(r.Apply)
			}
		}
		for i, r := range analyzer.OnceAfterDefault {
			if r.Id.String() == "replaceIdxSort" {
				analyzer.OnceAfterDefault[i].Apply = outsideNested(r.Apply)
			}
		}
		for name, value := range map[string]any{
			"version": Version, "version_comment": "Holdfast", "lower_case_table_names": int8(1), "max_allowed_packet": int64(64 << 20),
			"transaction_isolation": "REPEATABLE-READ", "character_set_server": "utf8mb4", "collation_server": "utf8mb4_general_ci",
			"collation_connection": "utf8mb4_general_ci", "collation_database": "utf8mb4_general_ci", "local_infile": int8(0),
			"innodb_autoinc_lock_mode": int64(2), "sql_mode": defaultMode,
		} {
			_ = sql.SystemVariables.AssignValues(map[string]any{name: value}) // a name that the library does not know stays unknown
		}
		sql.SystemVariables = fewVariables{sql.SystemVariables}
	})
}

// defaultMode is MySQL 8.0's.
const defaultMode = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

// mostTables bounds the decoded definitions that are kept.
const mostTables = 4096

// table returns the decoded form of a table, which is made once for each of its definitions.
func (e *Engine) table(t *sqlmachine.Table, databaseName string) (*table, error) {
	key := tableKey{t.ID, t.Version}
	e.mu.RLock()
	x := e.tables[key]
	e.mu.RUnlock()
	if x != nil {
		return x, nil
	}
	x, err := newTable(e, t, databaseName)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.tables) >= mostTables {
		clear(e.tables)
	}
	e.tables[key] = x
	return x, nil
}

// mostKept is Options.MaxKept.
func (e *Engine) mostKept() int {
	if e.opt.MaxKept > 0 {
		return e.opt.MaxKept
	}
	return max(packetsParsed*e.opt.MaxPacket, leastParsed)
}

// nameOf is a name as the catalogue has it: in small letters (lower_case_table_names=1).
func nameOf(name string) string { return strings.ToLower(name) }
