package outcall

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"
)

// Options are the settings of a Net. The zero value of each field is its default.
type Options struct {
	// PerEndpoint bounds the calls under way to one endpoint (scheme, host and port): 256. So many connections to it are kept as well.
	PerEndpoint int
	// InFlight bounds the calls under way in all: 4,096. Calls beyond either bound wait, each endpoint in a queue of its own. From one half
	// on a hanging endpoint has a 64th of them, from three quarters on each has. The last eighth is for those that answer, half of it for
	// first calls as well.
	InFlight int
	// Waiting bounds the calls that wait, Bytes the payloads of all that have begun and not ended: 65,536 and 128 MiB. A call beyond
	// one of them is Transient at once.
	Waiting int
	Bytes   int64
	// Timeout is that of a request without its own: 3 s. A call that takes longer hangs.
	Timeout time.Duration
	// Idle is how long an unused connection is kept: 60 s.
	Idle    time.Duration
	Breaker Breaker
	Policy  Policy
	// TLS is for https:// URLs; nil: the system's authorities. ServerName and NextProtos are set for each connection.
	TLS *tls.Config
	// Logger hears of endpoints whose calls are suspended, and of those that answer again; nil: no messages.
	Logger *slog.Logger
	// Lookup resolves a name; nil: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Breaker says when calls to an endpoint are no longer made.
type Breaker struct {
	// Failures is how many in a row must have failed (no connection, a broken one, a timeout): 5. Any answer ends the row.
	Failures int
	// First is how long calls are suspended: 1 s. Afterwards one call is the trial, and calls that come meanwhile wait for its result. Each
	// failure doubles the wait, up to Longest: 30 s, and four times that for an endpoint that has never answered. All waits are drawn from
	// 80 to 120 % of that.
	First, Longest time.Duration
}

// Policy says where calls may go. It is applied to the address that is dialled, after every name has been resolved.
type Policy struct {
	// Own are addresses that are never called: this cluster's admin and peer ports. One that is unspecified (0.0.0.0, ::) or belongs to
	// this machine stands for its port on every address of this machine. It is asked often and from any goroutine; nil: none.
	Own func() []netip.AddrPort
	// Doors are addresses at which this cluster serves clients. They are called only if Allow has the very port: permission to have a
	// service called is not permission to write keys. Addresses mean what those of Own do.
	Doors func() []netip.AddrPort
	// Allow are targets that would be refused for their kind, such as link-local addresses and a cloud's metadata service, or as Doors.
	Allow Allow
}
