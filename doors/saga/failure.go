package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
)

// failure is an answer that is not a success, in the words of every protocol of this door. code is the HTTP status:
//
//	409 failed for good (DTM's FAILURE), 425 under way (ONGOING)
//	503 not now: it has provably had no effect, and may be sent again
//	401, 403, 429 by the judgement of Admit
//	400, 413 not a request this door takes; 404 no such thing, where DTM has no path
//	500 everything else, as with DTM
type failure struct {
	code int
	text string
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// The words by which DTM's clients recognise an outcome anywhere in a body.
const (
	wordSuccess = "SUCCESS"
	wordFailure = "FAILURE"
	wordOngoing = "ONGOING"
)

// failed says that something has failed for good.
func failed(format string, args ...any) error {
	return &failure{http.StatusConflict, fmt.Sprintf(format, args...) + " " + wordFailure}
}

// later says that a request has had no effect and may be sent again.
func later(format string, args ...any) error {
	return &failure{http.StatusServiceUnavailable, fmt.Sprintf(format, args...)}
}

// refuse describes the fault of a request.
func refuse(code int, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...)}
}

// broken is every error as a failure.
func broken(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{http.StatusInternalServerError, err.Error()}
}

// unproposed translates an error of the node. If it may have taken effect the answer is not "come again", although with the same gid that
// would do no harm: the client decides.
func unproposed(err error, repeatable bool) error {
	switch {
	case errors.Is(err, node.ErrTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "the transaction is too large for one command of %d bytes", entry.MaxCommandBytes)
	case errors.Is(err, node.ErrLevel):
		return later("nothing was done: %v; every member has to run a build that knows that level, `holdfast status` says who does not, "+
			"and where the level is held `holdfast member raise-level` raises it", err)
	case errors.Is(err, node.ErrOverloaded), errors.Is(err, node.ErrNoLeader), errors.Is(err, node.ErrStopped), errors.Is(err, node.ErrSuperseded):
		return later("nothing was done: %v", err)
	}
	advice := "look at GET /api/dtmsvr/query before it is sent again"
	if repeatable {
		advice = "send the same again with the same gid, which is done once, or look at GET /api/dtmsvr/query; do not take another gid"
	}
	return refuse(http.StatusInternalServerError, "it is not known whether this has taken effect: %v; %s", err, advice)
}

// unread translates an error of a read round: nothing was asked for but to see.
func unread(err error) error { return later("cannot read now: %v", err) }

// body is DTM's JSON of a failure.
func (f *failure) body() []byte {
	result := map[string]string{"message": f.text}
	switch f.code {
	case http.StatusConflict:
		result["dtm_result"] = wordFailure
	case http.StatusTooEarly:
		result["dtm_result"] = wordOngoing
	}
	b, err := json.Marshal(result)
	if err != nil {
		return []byte(`{"message":"internal error"}`) // cannot be: texts can be written
	}
	return b
}

// portRefusal is the answer to a request that the port refuses before the door sees it.
func portRefusal(code int, text string) (contentType string, body []byte) {
	return jsonType, (&failure{code, text}).body()
}

// grpc is the status that DTM's gRPC clients know it by.
func (f *failure) grpc() error {
	code := codes.Internal
	switch f.code {
	case http.StatusConflict:
		code = codes.Aborted
	case http.StatusTooEarly:
		code = codes.FailedPrecondition
	case http.StatusServiceUnavailable:
		code = codes.Unavailable
	case http.StatusUnauthorized:
		code = codes.Unauthenticated
	case http.StatusForbidden:
		code = codes.PermissionDenied
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		code = codes.ResourceExhausted
	case http.StatusBadRequest:
		code = codes.InvalidArgument
	}
	return status.Error(code, f.text)
}

// rpc is the code of JSON-RPC.
func (f *failure) rpc() int {
	switch f.code {
	case http.StatusConflict:
		return rpcFailure
	case http.StatusTooEarly:
		return rpcOngoing
	}
	return rpcInternal
}
