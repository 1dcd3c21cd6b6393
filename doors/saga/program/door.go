// Package program is the saga door as the program sees it. It has DTM's protocol over HTTP and gRPC, permissions, the callable services,
// the worker and its machine.
package program

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	doorsaga "github.com/holdfastdb/holdfast/doors/saga"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/port"
)

// The door's shares of --memory. The first is for requests, calls, answers and the machine's filter of gids, the second for transactions
// under way with their payloads. The third is for the open ones that Apply keeps.
const claimSagas, claimRunning, claimTransactions = "sagas", "running", "transactions"

// leastCache and leastFilter are the machine's least memory, on every member. leastRunning is for the transactions that a leader carries on
// at a time; others wait in the store. A leader that has the door off, or the least memory, makes calls with leastCalls.
const leastCache, leastFilter, leastRunning, leastCalls = 1 << 20, 1 << 20, 2 << 20, 4 << 20

// Door is the saga door.
var Door = serve.Door{
	Name:     "saga",
	Settings: func() serve.Settings { return new(settings) },
	Machines: func(share budget.Shares) []machine.Machine {
		m := sagamachine.New(sagamachine.Options{CacheBytes: int(max(share.Of(claimTransactions), leastCache)), FilterBytes: int(max(share.Of(claimSagas)/8, leastFilter))})
		share.Ledger.Hold(claimTransactions, budget.Holder{Held: m.CacheBytes, Bound: m.BoundCache})
		return []machine.Machine{m}
	},
	Specs: []*machine.Spec{&sagamachine.Spec},
	Lanes: func(share budget.Shares) []node.LaneSpec {
		return []node.LaneSpec{{Number: doorsaga.Lane, Name: "saga", Level: sagapart.Level, Bytes: max(int(share.Lane)/2, 9<<20)}}
	},
	Claims: func(on bool) []budget.Claim {
		if !on {
			return []budget.Claim{{Name: claimSagas, Floor: leastFilter}, {Name: claimTransactions, Floor: leastCache, Kind: budget.Cache}}
		}
		return []budget.Claim{
			{Name: claimSagas, Weight: 14, Floor: 8 << 20, Ceiling: 256 << 20},
			{Name: claimRunning, Weight: 40, Floor: leastRunning, Ceiling: 32 << 20},
			{Name: claimTransactions, Weight: 3, Floor: leastCache, Ceiling: 64 << 20, Kind: budget.Cache}}
	},
	Commands: commands,
	Rows:     "gh transactions, gd what they are, gb their branches, gp payloads, gt timers, gq topics",
	Try: func(at cli.Address, _ string) []string {
		return []string{"curl http://" + at.String() + "/api/dtmsvr/newGid"}
	},
	StatusLines: func(fields map[string]json.RawMessage) (state string, notes []string) {
		var s Status
		if fields["sagas"] == nil || json.Unmarshal(fields["sagas"], &s) != nil {
			return "", nil
		}
		if s.Held {
			notes = append(notes, "no service is called: the transactions were restored; `holdfast resume --saga` lets them go on")
		}
		return fmt.Sprintf("%d open transactions", s.Open), notes
	},
	Resume: resume,
	Import: imports,
}

// settings are the door's flags.
type settings struct {
	at, grpc  cli.Address
	grpcGiven bool
	targets   outcall.Allow // of calls, beside what is allowed anyway
	// maxRequestTimeout is the upper bound on one call, also where its transaction asks for more; 0: the worker's own.
	maxRequestTimeout time.Duration
	// For transactions that do not say themselves; 0: DTM's.
	retryInterval, timeoutToFail, requestTimeout time.Duration
	retention                                    time.Duration // 0: DTM's

	alert      string // URL; "": no alerts
	alertAfter int    // 0: DTM's
	ca         string // file; "": the system's authorities
	who
}

// Options implements doors.Settings.
func (s *settings) Options() []serve.Option {
	return []serve.Option{
		{Name: "saga", Arg: "ADDR", Default: defaultDoor, Door: true, Help: "transactions across services over HTTP (DTM's clients), or off",
			Set: func(v string) error { return cli.SetAddress(&s.at, v) }},
		{Name: "saga-grpc", Arg: "ADDR", Help: "the same over gRPC, or off (default: " + defaultGRPC + " where --saga is at its own default, else off)",
			Set: func(v string) error { s.grpcGiven = true; return cli.SetAddress(&s.grpc, v) }},
		{Name: "saga-tokens", Arg: "FILE", Help: "who may use the door: a line each, sent as Authorization: Bearer; read again within a second (default: everybody)",
			Set: func(v string) error { s.tokens = v; return nil }},
		{Name: "saga-clients", Arg: "CIDR,…", Help: "addresses whose programs may use the door without a token (default: all, unless --saga-tokens is given)",
			Set: func(v string) (err error) { s.clients, err = parsePrefixes(v); return err }},
		{Name: "saga-allow-targets", Arg: "CIDR|HOST,…", Help: "services that may be called although they are link-local or a cloud's metadata service, or, as HOST:PORT, a port of this cluster's own doors",
			Set: func(v string) (err error) {
				if s.targets, err = outcall.ParseAllow(strings.Split(v, ",")); err != nil {
					return fmt.Errorf("%w; write for example 169.254.10.0/24", err)
				}
				return nil
			}},
		{Name: "saga-max-request-timeout", Arg: "TIME", Default: "10m", Help: "the longest that one call to a service may take, whatever its transaction says",
			Set: func(v string) (err error) {
				if s.maxRequestTimeout, err = time.ParseDuration(v); err != nil || s.maxRequestTimeout < time.Second {
					return errors.New("no time of a second or more; write for example 10m")
				}
				return nil
			}},
		{Name: "saga-retry-interval", Arg: "TIME", Default: "10s", Help: "when a transaction that does not say so is tried again; each try that fails doubles it",
			Set: func(v string) error { return setTime(&s.retryInterval, v) }},
		{Name: "saga-timeout-to-fail", Arg: "TIME", Default: "35s", Help: "how long a message, TCC, XA or workflow that does not say so may stay prepared",
			Set: func(v string) error { return setTime(&s.timeoutToFail, v) }},
		{Name: "saga-request-timeout", Arg: "TIME", Default: "3s", Help: "how long a call of a transaction that does not say so may take",
			Set: func(v string) error { return setTime(&s.requestTimeout, v) }},
		{Name: "saga-retention", Arg: "TIME", Default: "24h", Help: "for how long a transaction that has ended is kept, to be looked at and to know one that is sent again",
			Set: func(v string) (err error) {
				if s.retention, err = time.ParseDuration(v); err != nil || s.retention < time.Second || s.retention > tenYears {
					return errors.New("no time from 1s to ten years; write for example 24h")
				}
				return nil
			}},
		{Name: "saga-alert", Arg: "URL", Help: "a POST goes there for each transaction that does not get on (DTM's AlertWebHook)",
			Set: func(v string) error { return setAlert(&s.alert, v) }},
		{Name: "saga-alert-after", Arg: "N", Default: "3", Help: "how many times the wait must have doubled before",
			Set: func(v string) (err error) {
				if s.alertAfter, err = strconv.Atoi(v); err != nil || s.alertAfter < 1 {
					return errors.New("no number of tries; write for example 3")
				}
				return nil
			}},
		{Name: "saga-ca", Arg: "FILE", Help: "authorities whose certificates services at https:// URLs may show, instead of the system's",
			Set: func(v string) error { s.ca = v; return nil }},
		{Name: "insecure-saga", Help: "let everybody who reaches the door use it, also beyond loopback",
			Set: func(v string) error { s.insecure = v != "false"; return nil }},
	}
}

// Listens implements doors.Settings.
func (s *settings) Listens() []serve.Listen {
	const risk = "anyone could have it call any service, and stop transactions"
	const otherwise = ", or --saga-tokens with --tls-cert and --tls-key, or --saga-clients with the addresses of the programs that use it, or --insecure-saga"
	open := s.insecure || len(s.clients) > 0
	return []serve.Listen{
		{Flag: "saga", At: s.at, Risk: risk, Otherwise: otherwise, GuardedByTLS: s.tokens != "", Public: open},
		{Flag: "saga-grpc", At: s.grpc, Risk: risk, Otherwise: otherwise, GuardedByTLS: s.tokens != "", Public: open},
	}
}

// Check implements doors.Settings.
func (s *settings) Check() error {
	if !s.grpcGiven && s.at.String() == defaultDoor { // members on one machine have --saga of their own, and must not meet at this one
		if err := cli.SetAddress(&s.grpc, defaultGRPC); err != nil {
			return err
		}
	}
	if s.at.Off() && !s.grpc.Off() {
		return cli.Usagef("serve: --saga-grpc without --saga; give both, because clients of either ask for branches over HTTP too")
	}
	return nil
}

// Service implements doors.Settings.
func (s *settings) Service(c *serve.Common) (*serve.Service, error) {
	set := Setup{RetryInterval: s.retryInterval, TimeoutToFail: s.timeoutToFail, RequestTimeout: s.requestTimeout, Retention: s.retention, AlertURL: s.alert, AlertAfter: s.alertAfter, ca: s.ca, who: who{tokens: s.tokens, clients: s.clients, insecure: s.insecure}, targets: s.targets, maxRequestTimeout: s.maxRequestTimeout}
	if !s.at.Off() {
		set.HTTP = place(s.at, "--saga", c.Clients())
	}
	if !s.grpc.Off() {
		set.GRPC = place(s.grpc, "--saga-grpc", c.Clients())
	}
	if (s.insecure || len(s.clients) > 0) && s.tokens == "" && !s.at.Off() && !s.at.Loopback() {
		c.Log.Warn("the saga door asks for no token", "open", s.at.String(), "clients", prefixes(s.clients))
	}
	return set.Service(c), nil
}

func place(at cli.Address, flag string, conf *tls.Config) *serve.Place {
	return &serve.Place{Network: "tcp", Addr: at.String(), Flag: flag, Protocols: port.Protocols{TLS: conf}}
}

// tenYears is the longest that what has ended can be kept.
const tenYears = 10 * 366 * 24 * time.Hour

// setTime reads a time of transactions. DTM allows 10 s at least between two tries; here what is called sooner is called sooner.
func setTime(to *time.Duration, v string) (err error) {
	if *to, err = time.ParseDuration(v); err != nil || *to < 100*time.Millisecond || *to > 365*24*time.Hour {
		return errors.New("no time from 100ms to a year; write for example 10s")
	}
	return nil
}

// setAlert reads the URL that alerts go to.
func setAlert(to *string, v string) error {
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("no URL; write for example https://alerts.example.org/hook")
	}
	*to = v
	return nil
}

// readAuthorities reads a file of certificates.
func readAuthorities(path string) (*x509.CertPool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.New(cli.Reason(err) + "; give a file this user can read")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("it holds no certificate; give a file of PEM")
	}
	return pool, nil
}

func parsePrefixes(v string) (all []netip.Prefix, err error) {
	for word := range strings.SplitSeq(v, ",") {
		word = strings.TrimSpace(word)
		p, err := netip.ParsePrefix(word)
		if err != nil {
			ip, err := netip.ParseAddr(word)
			if err != nil {
				return nil, errors.New("no list of addresses; write for example 10.0.0.0/8,192.0.2.7")
			}
			p = netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen())
		}
		all = append(all, p)
	}
	return all, nil
}

func prefixes(all []netip.Prefix) string {
	if len(all) == 0 {
		return "all"
	}
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}
