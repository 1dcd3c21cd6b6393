package outcall

import "time"

// The protocols of Request.Protocol, in DTM's words.
const (
	HTTP    = "http"
	GRPC    = "grpc"
	JSONRPC = "json-rpc"
)

// Request is one call to make. It belongs to the Caller, which does not change it, until done has been called.
type Request struct {
	// URL is where to: http://… or https://…, else host:port/pkg.Service/Method for gRPC. An empty one is a call that succeeds at once.
	URL string
	// Protocol is the transaction's; empty is HTTP. An http:// or https:// URL is always called over HTTP. It is JSON-RPC if Protocol is
	// JSONRPC and the URL contains the word "method".
	Protocol string
	// Gid, Mode, BranchID and Op tell the service the call's transaction and branch. They are query arguments gid, trans_type, branch_id
	// and op, metadata dtm-gid and so on, or members of JSON-RPC's params. Without a Gid it is of no transaction, and a URL is called over
	// HTTP unchanged.
	Gid, Mode, BranchID, Op string
	// Payload is the body. Over HTTP a call with one is a POST, one without a GET. For JSON-RPC it is a JSON object, or empty.
	Payload []byte
	// Post makes it a POST with any payload (mode xa).
	Post bool
	// Headers go out with it, in this order; those that frame a message (Content-Length, Connection, Host…) are left out.
	Headers []Header
	// Timeout is how long the service may take, from the moment the call has its place under the limits. It may have waited as long, at
	// most 30 s, for that place. 0 is Options.Timeout.
	Timeout time.Duration
}

// Header is one header of a call over HTTP, one piece of metadata over gRPC.
type Header struct{ Name, Value string }

// Outcome is what became of a call.
type Outcome byte

// The outcomes. Zero is none.
const (
	// OK: the service says that it is done: exactly 200 over HTTP, gRPC's OK, a JSON-RPC answer without an error.
	OK Outcome = 1 + iota
	// Failure: the service says that it cannot be done: 409 or FAILURE in the body, gRPC's Aborted, JSON-RPC's code -32901.
	Failure
	// Ongoing: the service says that it is at it: 425 or ONGOING in the body, gRPC's FailedPrecondition, JSON-RPC's code -32902.
	Ongoing
	// Transient: anything else, no answer among it. The service may or may not have done it; repeat the call.
	Transient
	// Refused: nothing was sent, because the target is not allowed or the request cannot be put into the protocol. Until one of the two is
	// changed, a further try ends the same.
	Refused
)

var outcomeNames = [...]string{"none", "ok", "failure", "ongoing", "transient", "refused"}

// String is the word for it in metrics and logs.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// Result is the outcome of a call.
type Result struct {
	Outcome Outcome
	// Message is for people: the answer's body (over gRPC its status message) for Failure and Ongoing, the error for Transient and Refused.
	// At most MaxMessage bytes of UTF-8.
	Message string
	// Elapsed is the time since Go, waiting for a place included.
	Elapsed time.Duration
}

// MaxMessage bounds Result.Message, in bytes.
const MaxMessage = 1 << 10

// Caller makes calls. *Net does it over the network; the simulation has one that plays a script.
type Caller interface {
	// Go begins a call and returns at once. done is called exactly once, on a goroutine of the Caller's, perhaps before Go has returned. It
	// is never called from within Go or cancel, so it may take locks that are held around those. It must not block for long. cancel makes
	// it come soon, with Transient unless the call has just ended; the service may still have done its work. Go may be called from any
	// goroutine, so may cancel, several times and after the end.
	Go(req *Request, done func(Result)) (cancel func())
}
