package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/publish"
	"github.com/holdfastdb/holdfast/doors/tlog/scrub"
	"github.com/holdfastdb/holdfast/objstore"
)

// publishTo is one --tlog-publish.
type publishTo struct {
	log, url string
	place    publish.Place
}

// proveTimeout bounds what a start asks of the places.
const proveTimeout = 5 * time.Second

// publishPassword is for databases. A flag would be seen by everybody on the machine.
const publishPassword = "HOLDFAST_TLOG_PUBLISH_PASSWORD"

// parsePublish reads [LOG=]URL,[LOG=]URL,….
func parsePublish(v string) ([]publishTo, error) {
	var out []publishTo
	for item := range strings.SplitSeq(v, ",") {
		p := publishTo{log: defaultLog, url: strings.TrimSpace(item)}
		if name, rest, ok := strings.Cut(p.url, "="); ok && tlogpart.ValidName(name) {
			p.log, p.url = name, rest
		}
		var err error
		if p.place, err = publish.Open(p.url, os.Getenv(publishPassword)); err != nil {
			return nil, err
		}
		for _, o := range out {
			if o.url == p.url {
				return nil, fmt.Errorf("%s is named twice; every log needs a place of its own", p.url)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// places lists where a log is published, for the worker that signs it.
func (t *settings) places(log string) (out []checkpoint.Place) {
	for _, p := range t.publish {
		if p.log != log {
			continue
		}
		out = append(out, checkpoint.Place{Name: p.url, Ask: func(ctx context.Context, l *tlogmachine.Log) (string, error) {
			_, err := p.place.Held(ctx, l)
			if errors.Is(err, publish.ErrAhead) {
				return strings.TrimPrefix(err.Error(), publish.ErrAhead.Error()+": "), nil
			}
			return "", err
		}})
	}
	return out
}

// provePlaces refuses places whose store would let a late upload set a published checkpoint back. One that does not answer is asked again
// before anything is published there.
func (t *settings) provePlaces(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	errs := make([]error, len(t.publish))
	var wg sync.WaitGroup
	for i, p := range t.publish {
		if o, ok := p.place.(*publish.Objects); ok {
			wg.Go(func() { errs[i] = o.Prove(ctx) })
		}
	}
	wg.Wait()
	for i, err := range errs {
		switch {
		case errors.Is(err, objstore.ErrUnconditional):
			return fmt.Errorf("--tlog-publish %s: %w", t.publish[i].url, err)
		case err != nil:
			log.Warn("not asked whether the store knows conditional uploads; it will be before the first", "to", t.publish[i].url, "err", err)
		}
	}
	return nil
}

// scrubbed lists the places that this member has to check: while it leads, those it publishes to.
func (r *running) scrubbed(log string) (out []scrub.Place) {
	if term, _ := r.host.Node.Leadership(); term == 0 {
		return nil
	}
	for _, p := range r.set.publish {
		if p.log != log {
			continue
		}
		out = append(out, scrub.Place{Name: p.url, Meter: r.meter.Place(p.log, p.url),
			Check: func(ctx context.Context, l *tlogmachine.Log, pace func() error) (int, string, error) {
				there, err := p.place.Held(ctx, l)
				if err != nil {
					return 0, "", err
				}
				found, err := p.place.Check(ctx, l, there.Size, false, pace)
				return found.Bad, found.First, err
			}})
	}
	return out
}

// republish compares the places of a log with it. They hold what this member's log holds, so that any member can.
func (r *running) republish(ctx context.Context, l *tlogmachine.Log, mend bool) (out []Republished) {
	for _, p := range r.set.publish {
		if p.log != l.Spec.Name {
			continue
		}
		found, err := publish.Republish(ctx, p.place, l, mend)
		o := Republished{To: p.url, Looked: found.Looked, Bad: found.Bad, Mended: found.Mended, First: found.First}
		if err != nil {
			o.Error = err.Error()
		}
		out = append(out, o)
	}
	return out
}

// mayResume refuses to let a restored log go on while a place it is published to holds more of it, or something else.
func (r *running) mayResume(ctx context.Context, l *tlogmachine.Log) error {
	for _, p := range r.set.publish {
		if p.log != l.Spec.Name {
			continue
		}
		if _, err := p.place.Held(ctx, l); err != nil {
			return fmt.Errorf("%s: %w", p.url, err)
		}
	}
	return nil
}
