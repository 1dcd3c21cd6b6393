package engine

import "strings"

// Level is an isolation level.
type Level byte

// The levels. ReadUncommitted behaves as ReadCommitted, and keeps its name.
const (
	ReadUncommitted Level = iota
	ReadCommitted
	RepeatableRead
	Serializable
)

// levelNames are the levels as @@transaction_isolation has them.
var levelNames = [...]string{"READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"}

func (l Level) String() string { return levelNames[l] }

// EachStatement reports whether each statement has a snapshot of its own.
func (l Level) EachStatement() bool { return l <= ReadCommitted }

// levelOf returns the level of a name. ok false: there is no such level.
func levelOf(name string) (l Level, ok bool) {
	for i, n := range levelNames {
		if strings.EqualFold(n, name) {
			return Level(i), true
		}
	}
	return RepeatableRead, false
}

// Characteristics are what SET TRANSACTION says. Nil: it says nothing of that.
type Characteristics struct {
	Level    *Level
	ReadOnly *bool
}

// The variables behind SET SESSION TRANSACTION.
const (
	levelVariable    = "transaction_isolation"
	readOnlyVariable = "transaction_read_only"
)

// variableNames are names that variables had before MySQL 8.0, which MariaDB still has.
var variableNames = map[string]string{"tx_isolation": levelVariable, "tx_read_only": readOnlyVariable}

func variableName(name string) string {
	if now := variableNames[strings.ToLower(name)]; now != "" {
		return now
	}
	return name
}

// Level is the level that the session's next transactions have.
func (s *Session) Level() Level { return s.set().level }

// ReadOnly reports whether the session's next transactions may not write.
func (s *Session) ReadOnly() bool { return s.set().readOnly }

// Characterise sets what the session's next transactions have.
func (s *Session) Characterise(c Characteristics) error {
	if c.Level != nil {
		if err := s.SetSessionVariable(s.quiet(), levelVariable, c.Level.String()); err != nil {
			return err
		}
	}
	if c.ReadOnly != nil {
		n := int8(0)
		if *c.ReadOnly {
			n = 1
		}
		return s.SetSessionVariable(s.quiet(), readOnlyVariable, n)
	}
	return nil
}

// Choice is a word of COMMIT and ROLLBACK that may be said, denied or left out.
type Choice byte

// The choices. ChoiceDefault: completion_type decides.
const (
	ChoiceDefault Choice = iota
	ChoiceYes
	ChoiceNo
)

// Completion returns what @@completion_type has behind a COMMIT or ROLLBACK that does not say.
func (s *Session) Completion() (chain, release bool) {
	v, _ := s.GetSessionVariable(nil, "completion_type") // the library knows the variable
	return v == "CHAIN", v == "RELEASE"
}
