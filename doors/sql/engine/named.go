package engine

import (
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Locks are what a session keeps locked beyond its transactions. They are the door's.
type Locks struct {
	// Hold returns the session's, and begins one if there is none.
	Hold func() (*txn.Hold, error)
	// Held returns the session's; nil: there is none.
	Held func() *txn.Hold
	// NameOf returns the connection that has a name; 0: none has.
	NameOf func(name string) (uint32, error)
}

// mostName is how many letters a name may have.
const mostName = 64

// nameFunction is a function about named locks. The library's know one process only.
type nameFunction struct {
	name string
	args []sql.Expression
}

var (
	_ sql.FunctionExpression         = (*nameFunction)(nil)
	_ sql.CollationCoercible         = (*nameFunction)(nil)
	_ sql.NonDeterministicExpression = (*nameFunction)(nil)
)

// nameArguments are how many arguments each function takes.
var nameArguments = map[string]int{"get_lock": 2, "release_lock": 1, "release_all_locks": 0, "is_free_lock": 1, "is_used_lock": 1}

func init() {
	for name, n := range nameArguments { // any order: it fills a map
		functions[name] = sql.FunctionN{Name: name, Fn: func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			if len(args) != n {
				return nil, wrongArguments(name, n, len(args))
			}
			return &nameFunction{name: name, args: args}, nil
		}}
	}
}

// FunctionName implements sql.FunctionExpression.
func (f *nameFunction) FunctionName() string { return f.name }

// Description implements sql.FunctionExpression.
func (f *nameFunction) Description() string { return "takes, gives back or looks at a named lock." }

func (f *nameFunction) String() string {
	all := make([]string, len(f.args))
	for i, a := range f.args {
		all[i] = a.String()
	}
	return strings.ToUpper(f.name) + "(" + strings.Join(all, ",") + ")"
}

func (f *nameFunction) Type(*sql.Context) sql.Type   { return types.Int64 }
func (f *nameFunction) IsNullable(*sql.Context) bool { return true }
func (f *nameFunction) Resolved() bool               { return expression.ExpressionsResolved(f.args...) }
func (f *nameFunction) Children() []sql.Expression   { return f.args }

// IsNonDeterministic implements sql.NonDeterministicExpression: the planner must not compute it before.
func (f *nameFunction) IsNonDeterministic() bool { return true }

// CollationCoercibility implements sql.CollationCoercible.
func (f *nameFunction) CollationCoercibility(*sql.Context) (sql.CollationID, byte) {
	return sql.Collation_binary, byte(numbered)
}

// WithChildren implements sql.Expression.
func (f *nameFunction) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	return &nameFunction{name: f.name, args: children}, nil
}

// Eval implements sql.Expression.
func (f *nameFunction) Eval(c *sql.Context, r sql.Row) (any, error) {
	s := sessionOf(c)
	if s.begin == nil { // the statement is planned and not run
		return nil, nil
	}
	if f.name == "release_all_locks" {
		h, n := s.locks.Held(), 0
		if h != nil {
			n = h.Names()
			h.UnlockNames()
		}
		return int64(n), nil
	}
	name, err := f.lockName(c, r)
	if err != nil {
		return nil, err
	}
	switch f.name {
	case "get_lock":
		return f.get(c, r, s, name)
	case "release_lock":
		if h := s.locks.Held(); h != nil && h.UnlockName(name) {
			return int64(1), nil
		}
		if id, err := s.locks.NameOf(name); id == 0 || err != nil {
			return nil, err
		}
		return int64(0), nil
	case "is_free_lock":
		id, err := s.locks.NameOf(name)
		if id == 0 {
			return int64(1), err
		}
		return int64(0), err
	default:
		id, err := s.locks.NameOf(name)
		if id == 0 {
			return nil, err
		}
		return int64(id), err
	}
}

// lockName is the first argument. Names do not differ by small and large letters.
func (f *nameFunction) lockName(c *sql.Context, r sql.Row) (string, error) {
	v, err := f.args[0].Eval(c, r)
	if err != nil {
		return "", err
	}
	text := "NULL"
	if v != nil {
		converted, _, err := types.LongText.Convert(c, v)
		if err != nil {
			return "", err
		}
		if text, _, err = sql.Unwrap[string](c, converted); err != nil {
			return "", err
		}
	}
	if v == nil || text == "" || utf8.RuneCountInString(text) > mostName {
		return "", wire.Errorf(3057, "Incorrect user-level lock name '%s'.", text)
	}
	return strings.ToLower(text), nil
}

// get takes a lock: 1 once the session has it, 0 if it did not get it in time.
func (f *nameFunction) get(c *sql.Context, r sql.Row, s *Session, name string) (any, error) {
	v, err := f.args[1].Eval(c, r)
	if err != nil {
		return nil, err
	}
	wait := txn.Wait{Interrupt: c.Done()}
	if v != nil {
		n, _, err := types.Float64.Convert(c, v)
		if err != nil {
			return nil, err
		}
		wait.Time = waitOf(n.(float64))
	}
	h, err := s.locks.Hold()
	if err != nil {
		return nil, err
	}
	err = h.LockName(name, uint32(s.ID()), wait)
	switch {
	case err == nil:
		return int64(1), nil
	case errors.Is(err, txn.ErrBusy), errors.Is(err, txn.ErrLockTimeout):
		return int64(0), nil
	case errors.Is(err, txn.ErrDeadlock): // the transaction goes on
		return nil, wire.Errorf(3058, "Deadlock found when trying to get user-level lock; try rolling back transaction/releasing locks and restarting lock acquisition.")
	}
	return nil, err
}

// waitOf is a time in seconds. Negative: for ever.
func waitOf(seconds float64) time.Duration {
	switch s := math.Round(seconds); {
	case s < 0 || s > float64(math.MaxInt64/int64(time.Second)):
		return -1
	default:
		return time.Duration(s) * time.Second
	}
}
