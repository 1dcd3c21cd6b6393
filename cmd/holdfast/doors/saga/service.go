package saga

import (
	"context"
	"log/slog"

	"github.com/holdfastdb/holdfast/cmd/holdfast/cli"
	"github.com/holdfastdb/holdfast/cmd/holdfast/doors"
	doorsaga "github.com/holdfastdb/holdfast/door/saga"
	msaga "github.com/holdfastdb/holdfast/machine/saga"
	"github.com/holdfastdb/holdfast/outcall"
	workersaga "github.com/holdfastdb/holdfast/worker/saga"
)

// running is the door in one server. Its functions are called in order, those of doors.Service from one goroutine.
type running struct {
	set        *settings
	http, grpc *doors.Place // nil: off
	origins    []string     // of pages that may write
	share      int64        // bytes; 0: the door is off, and this member only leads others that have it
	log        *slog.Logger

	host   *doors.Host
	sagas  *msaga.Machine
	calls  *outcall.Net
	worker *workersaga.Worker
	tokens *tokenFile // nil: nobody is asked for one

	door *doorsaga.Door // nil: off, or not open yet
}

// leastShare is what a member has for transactions of a door that is on elsewhere only.
const leastShare = 16 << 20

// prepare reads the file of tokens.
func (r *running) prepare(_ context.Context, h *doors.Host) (err error) {
	r.host = h
	if r.set.tokens != "" {
		r.tokens, err = openTokens(r.set.tokens, h.Log)
	}
	return err
}

// tune changes the worker's options in a build that is driven from outside (control.go).
var tune = func(*running, *doors.Host, *workersaga.Options) {}

// work carries transactions on while this member leads, whether or not it has the door itself.
func (r *running) work(h *doors.Host) {
	share := max(r.share, leastShare)
	r.sagas = doors.Machine[*msaga.Machine](h)
	r.calls = outcall.New(outcall.Options{Bytes: share / 4, Logger: h.Log, Policy: outcall.Policy{Own: h.Reserved, Allow: r.set.targets}})
	options := workersaga.Options{Caller: r.calls, MaxBytes: share / 4, Logger: h.Log}
	tune(r, h, &options)
	r.worker = workersaga.New(h.Node, r.sagas, options)
	h.Go(r.worker.Run)
}

// open binds the addresses and serves.
func (r *running) open(h *doors.Host) error {
	if r.http == nil {
		return nil
	}
	r.door = doorsaga.New(h.Node, r.sagas, doorsaga.Options{Version: cli.Version, Admit: r.admit, KV: keys(h), CORS: r.origins, Conns: h.Conns, Steps: h.Steps,
		MaxFlightBytes: r.share / 4, MaxCallBytes: r.share / 16, MaxAnswerBytes: r.share / 8, Collect: r.collect})
	for _, p := range []*doors.Place{r.http, r.grpc} {
		if p == nil {
			continue
		}
		l, err := p.Wait(h.Starting, h.Log)
		if err != nil {
			return err
		}
		h.Bound(p.Flag[2:] + "=" + l.Addr().String())
		h.Serve(p.Flag[2:], func() error { return r.door.Serve(l, p.Protocols) })
	}
	return nil
}

func (r *running) shutdown(ctx context.Context) error {
	if r.door == nil {
		return nil
	}
	return r.door.Shutdown(ctx)
}

func (r *running) close() {
	if r.tokens != nil {
		r.tokens.close()
	}
	if r.calls != nil {
		r.calls.Close()
	}
}
