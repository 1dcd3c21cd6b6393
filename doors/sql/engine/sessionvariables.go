package engine

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// A session of the library has a copy of every variable, and of every counter of SHOW STATUS: 70 KB together. Ours has what it has set itself, and
// finds the rest with its engine. Nothing changes that: SET GLOBAL is refused.

// fewVariables is the library's registry, but for what a new session gets.
type fewVariables struct{ sql.SystemVariableRegistry }

// ownVariables are those that the library's session reads past GetSessionVariable.
var ownVariables = []string{"character_set_connection", "character_set_results", "collation_connection"}

// NewSessionMap implements sql.SystemVariableRegistry.
func (r fewVariables) NewSessionMap() map[string]sql.SystemVarValue {
	few := make(map[string]sql.SystemVarValue, len(ownVariables))
	for _, name := range ownVariables {
		if v, value, ok := r.GetGlobal(name); ok {
			few[name] = sql.SystemVarValue{Var: v, Val: value}
		}
	}
	return few
}

// noCounters is the library's registry, but for what a new session gets: SHOW STATUS shows the door's counters.
type noCounters struct{ sql.StatusVariableRegistry }

// NewSessionMap implements sql.StatusVariableRegistry.
func (noCounters) NewSessionMap() map[string]sql.StatusVarValue { return nil }

// allVariables returns what every session begins with.
func allVariables() map[string]sql.SystemVarValue {
	few, ok := sql.SystemVariables.(fewVariables)
	if !ok {
		return nil
	}
	return few.SystemVariableRegistry.NewSessionMap()
}

// shownVariable is a value as the library's session shows it.
func shownVariable(v sql.SystemVariable, value any) (any, error) {
	if set, ok := v.GetType().(sql.SetType); ok {
		if bits, ok := value.(uint64); ok {
			return set.BitsToString(bits)
		}
	}
	return value, nil
}

// GetSessionVariable returns a variable of the session.
func (s *Session) GetSessionVariable(c *sql.Context, name string) (any, error) {
	name = strings.ToLower(variableName(name))
	if v, ok := s.e.variables[name]; ok && !s.sets[name] && !slices.Contains(ownVariables, name) {
		return shownVariable(v.Var, v.Val)
	}
	return s.BaseSession.GetSessionVariable(c, name)
}

// GetSessionVariableDefault returns what SET … = DEFAULT makes of a variable.
func (s *Session) GetSessionVariableDefault(_ *sql.Context, name string) (any, error) {
	if v, ok := s.e.variables[strings.ToLower(name)]; ok {
		return shownVariable(v.Var, v.Var.GetDefault())
	}
	return nil, sql.ErrUnknownSystemVariable.New(strings.ToLower(name))
}

// SetSessionVariable sets a variable of the session.
func (s *Session) SetSessionVariable(c *sql.Context, name string, v any) error {
	defer func() { s.now.known, s.settings = false, "" }()
	name = strings.ToLower(variableName(name))
	if known, ok := s.e.variables[name]; ok && known.Var.IsReadOnly() { // the library looks only at what the session has
		return sql.ErrSystemVariableReadOnly.New(name)
	}
	if err := s.BaseSession.SetSessionVariable(c, name, v); err != nil {
		return err
	}
	if s.sets == nil {
		s.sets = map[string]bool{}
	}
	s.sets[name] = true
	return nil
}

// GetAllSessionVariables implements sql.Session.
func (s *Session) GetAllSessionVariables() map[string]any {
	all := make(map[string]any, len(s.e.variables))
	for name, v := range s.e.variables { // any order: it becomes a map
		if shown, err := shownVariable(v.Var, v.Val); err == nil {
			all[name] = shown
		}
	}
	for name, v := range s.BaseSession.GetAllSessionVariables() { // any order: it becomes a map
		all[name] = v
	}
	return all
}
