package program

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Setup is a saga door and its worker, built from Holdfast's or DTM's flags.
type Setup struct {
	// HTTP and GRPC are where clients are served over either, nil: nowhere. Without HTTP the door is off.
	HTTP, GRPC *serve.Place
	// RetryInterval, TimeoutToFail and RequestTimeout are for transactions that do not say themselves (doors/saga/advance.Options). 0: DTM's.
	RetryInterval, TimeoutToFail, RequestTimeout time.Duration
	// Retention is for how long a transaction is kept that has ended. 0: DTM's.
	Retention time.Duration
	// AlertURL gets transactions whose interval has doubled AlertAfter times; "": no alerts.
	AlertURL   string
	AlertAfter int

	who
	targets           outcall.Allow // of calls, beside what is allowed anyway
	maxRequestTimeout time.Duration // upper bound on one call, also where its transaction asks for more; 0: the worker's own
	ca                string        // file of authorities for https:// services; "": the system's
}

// who is the permitted clients of the door.
type who struct {
	clients  []netip.Prefix // without a token; none: everybody who reaches it
	tokens   string         // file of tokens; "": no tokens required
	insecure bool
}

// portPatience is a little more than the minute for which an ended connection keeps its port. DTM's ports lie where the kernel takes those
// of outgoing connections.
const portPatience = 65 * time.Second

// Variables takes settings without a word in DTM's configuration from the variables of the door's other flags: permitted clients and call
// targets.
func (s *Setup) Variables(getenv func(string) string) error {
	set := settings{}
	for _, o := range set.Options() {
		switch o.Name {
		case "saga", "saga-grpc", "saga-retry-interval", "saga-timeout-to-fail", "saga-request-timeout", "saga-retention", "saga-alert", "saga-alert-after":
			continue // DTM's configuration has words for these
		}
		name := cli.EnvName(o.Name)
		if v := getenv(name); v != "" {
			if err := o.Set(v); err != nil {
				return fmt.Errorf("%s %s: %w", name, v, err)
			}
		}
	}
	s.who, s.targets, s.maxRequestTimeout, s.ca = set.who, set.targets, set.maxRequestTimeout, set.ca
	return nil
}

// Open reports whether everybody who reaches the door may use it.
func (s *Setup) Open() bool { return s.tokens == "" && len(s.clients) == 0 }

// Service is its running part in a server.
func (s *Setup) Service(c *serve.Common) *serve.Service {
	r := &running{Setup: *s, origins: c.Origins, shares: c.Shares, log: c.Log}
	service := &serve.Service{Admin: r.section(), Prepare: r.prepare, Work: r.work, Open: r.open, Shutdown: r.shutdown, Close: r.close}
	for _, p := range []*serve.Place{r.HTTP, r.GRPC} {
		if p != nil {
			p.Patience, p.NoGRPC, p.NoHTTP = portPatience, p == r.HTTP, p == r.GRPC
			service.Places = append(service.Places, *p)
		}
	}
	return service
}
