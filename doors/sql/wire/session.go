package wire

import (
	"context"
	"net"
)

// Account is how a user proves a password.
type Account struct {
	Plugin   string // NativePassword or CachingSHA2
	Verifier []byte // of NativeVerifier or SHA2Verifier; empty: the user has no password
	Host     string // from where the account lets the user in; told to the Session
}

// Accounts finds users. It may be called from several goroutines.
type Accounts interface {
	// Account returns the account of a user who comes from an address. false: there is none. The client is told in the words of a wrong
	// password. An error is sent, and says nothing of the user.
	Account(ctx context.Context, user string, from net.Addr) (Account, bool, error)
}

// Client is what a Session knows of its client. Its fields do not change while a statement runs.
type Client struct {
	ID           uint32 // of the connection
	User         string
	AccountHost  string // Account.Host
	Database     string // the one that the login names
	Addr         net.Addr
	TLS          bool
	TLSVersion   string // as Go names it: TLS 1.3
	TLSCipher    string
	Capabilities Capabilities
	Collation    byte // of the login
	Attributes   map[string]string
}

// Session runs the statements of one client. Its methods are called by one goroutine, one after another. A returned *Error is sent as it is
// and the connection stays. ctx ends when the client's connection ends, when the statement is killed and when the server stops.
type Session interface {
	// Query runs the statements of a text. The text lies in the connection's buffer and must not be kept.
	Query(ctx context.Context, text []byte, to *Answer) error
	// Prepare parses a statement. The text must not be kept.
	Prepare(ctx context.Context, text []byte) (Prepared, error)
	// Execute runs a prepared statement. Bytes of the parameters lie in the connection's buffer and must not be kept.
	Execute(ctx context.Context, p Prepared, params []Param, to *Answer) error
	// UseDatabase makes a database the session's default.
	UseDatabase(ctx context.Context, name string) error
	// Fields returns the columns of a table whose names match a pattern of LIKE. The empty pattern: all of them.
	Fields(ctx context.Context, table, pattern string) ([]Column, error)
	// Statistics returns one line on the server.
	Statistics() string
	// Status returns the flags that go into the next packet. Autocommit and InTransaction are the session's to tell.
	Status() Status
	// Hold returns once what the session has shown so far may be sent to the client. It is called before each piece of an answer is sent. Its
	// error is sent in place of that piece and all behind it.
	Hold(ctx context.Context) error
	// Reset ends the transaction and makes every setting what it was after the login.
	Reset(ctx context.Context) error
	// Close ends the transaction and frees its locks. It is called once, and nothing after it.
	Close()
}

// Prepared is a statement that a Session has parsed.
type Prepared interface {
	// Shape returns the number of parameters, and the columns of the result, as far as they are known. Both must not change.
	Shape() (params int, columns []Column)
	// Close frees the statement.
	Close()
}
