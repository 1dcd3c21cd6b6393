package program

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"

	doorsaga "github.com/holdfastdb/holdfast/doors/saga"
	sagaadvance "github.com/holdfastdb/holdfast/doors/saga/advance"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// running is the door in one server. Its functions are called in order, those of doors.Service from one goroutine.
type running struct {
	Setup
	origins []string // of pages that may write
	shares  budget.Shares
	log     *slog.Logger

	host   *serve.Host
	sagas  *sagamachine.Machine
	calls  *outcall.Net
	worker *sagaadvance.Worker
	known  *tokenFile // nil: no tokens required

	authorities *x509.CertPool // of services; nil: the system's

	door *doorsaga.Door // nil: off, or not open yet
}

// leastFlight is the room for requests that are large: one of the largest must fit.
const leastFlight = 9 << 20

// prepare reads the file of tokens.
func (r *running) prepare(_ context.Context, h *serve.Host) (err error) {
	r.host = h
	if r.ca != "" {
		if r.authorities, err = readAuthorities(r.ca); err != nil {
			return fmt.Errorf("--saga-ca %s: %w", r.ca, err)
		}
	}
	if r.tokens != "" {
		r.known, err = serve.OpenTokens("--saga-tokens", r.tokens, parseTokens, nil, h.Log)
	}
	return err
}

// tune changes the worker's options in a build that is driven from outside (control.go).
var tune = func(*running, *serve.Host, *sagaadvance.Options) {}

// work carries transactions on while this member leads, whether or not it has the door itself.
func (r *running) work(h *serve.Host) {
	// The payloads of calls are those of the transactions. Their bound stays while the worker's is lent, so that the largest payload fits beside others.
	most := max(r.shares.Of(claimRunning), leastCalls)
	r.sagas = serve.Machine[*sagamachine.Machine](h)
	var conf *tls.Config
	if r.authorities != nil {
		conf = &tls.Config{RootCAs: r.authorities}
	}
	r.calls = outcall.New(outcall.Options{Bytes: most, TLS: conf, Logger: h.Log, Policy: outcall.Policy{Own: h.Reserved, Doors: h.Doors, Allow: r.targets}})
	options := sagaadvance.Options{Caller: r.calls, MaxBytes: most, Logger: h.Log, RetryIntervalMs: r.RetryInterval.Milliseconds(),
		TimeoutMs: r.TimeoutToFail.Milliseconds(), RequestTimeoutMs: r.RequestTimeout.Milliseconds(), MaxRequestTimeoutMs: r.maxRequestTimeout.Milliseconds(),
		RetentionMs: r.Retention.Milliseconds(), AlertURL: r.AlertURL, AlertAfter: r.AlertAfter}
	tune(r, h, &options)
	r.worker = sagaadvance.New(h.Node, r.sagas, options)
	r.shares.Ledger.Hold(claimRunning, budget.Holder{Held: func() int64 { return r.worker.Counts().Bytes }, Bound: r.worker.Bound})
	h.Go(r.worker.Run)
	h.Go(r.worker.RunRetention)
}

// open binds the addresses and serves.
func (r *running) open(h *serve.Host) error {
	if r.HTTP == nil {
		return nil
	}
	share := r.shares.Of(claimSagas)
	r.door = doorsaga.New(h.Node, r.sagas, doorsaga.Options{Version: cli.Version, Admit: r.admit, KV: keys(h), CORS: r.origins, Conns: h.Conns, Ack: h.Ack, Steps: h.Steps,
		RetryInterval: r.RetryInterval, TimeoutToFail: r.TimeoutToFail,
		Trouble: r.trouble, Leader: r.leader,
		MaxFlightBytes: max(share/2, leastFlight), MaxCallBytes: share / 8, MaxAnswerBytes: share / 4, Collect: r.collect})
	for _, of := range []struct {
		name string
		at   *serve.Place
	}{{"saga", r.HTTP}, {"saga-grpc", r.GRPC}} {
		if of.at == nil {
			continue
		}
		l, err := of.at.Wait(h.Starting, h.Log)
		if err != nil {
			return err
		}
		h.Bound(of.name + "=" + l.Addr().String())
		h.Serve(of.name, func() error { return r.door.Serve(l, of.at.Protocols) })
	}
	return nil
}

// trouble is doorsaga.Options.Trouble.
func (r *running) trouble(number uint64, in sagapart.Status) (of doorsaga.Trouble, leads bool) {
	t, leads := r.worker.Trouble(number, in)
	return doorsaga.Trouble{URL: t.URL, Text: t.Text, Call: doorsaga.Call(t.Call)}, leads
}

// leader is the name of the member that leads, "" if none is known.
func (r *running) leader() string {
	id := r.host.Node.Status().Leader
	for _, m := range r.host.Node.Members() {
		if m.ID == id {
			return m.Name
		}
	}
	return ""
}

func (r *running) shutdown(ctx context.Context) error {
	if r.door == nil {
		return nil
	}
	return r.door.Shutdown(ctx)
}

func (r *running) close() {
	if r.known != nil {
		r.known.Close()
	}
	if r.calls != nil {
		r.calls.Close()
	}
}
