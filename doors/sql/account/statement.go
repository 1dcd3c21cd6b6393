package account

// Verb is what a statement does.
type Verb byte

// The verbs.
const (
	Create Verb = 1 + iota
	Alter       // SET PASSWORD, too
	Drop
	Grant
	Revoke
	ShowGrants
	Flush // of privileges, which are never stale
)

// Statement is a statement about accounts. It never changes.
type Statement struct {
	Verb Verb
	// If: IF EXISTS or IF NOT EXISTS.
	If    bool
	Users []User // of ShowGrants at most one; none: the client's own account

	Scope    Scope
	Database string // of Scope OneDatabase; a pattern of LIKE
	// Option: WITH GRANT OPTION. Everything: REVOKE ALL, GRANT OPTION.
	Option, Everything bool
}

// Scope is on what privileges are given.
type Scope byte

// The scopes.
const (
	Global Scope = iota
	OneDatabase
	DefaultDatabase // of the session
)

// User is a user as a statement names one.
type User struct {
	Name string
	Host string // "": the statement names none
	// Self: CURRENT_USER().
	Self bool
	// Identified: the statement sets a password, by this plugin. "": the account keeps its plugin.
	Identified       bool
	Plugin, Password string
}

// Reads reports whether the statement changes nothing, and so commits nothing before.
func (s *Statement) Reads() bool { return s.Verb == ShowGrants }
