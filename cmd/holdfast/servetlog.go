package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/disk"
	"github.com/holdfastdb/holdfast/door/admin"
	doortlog "github.com/holdfastdb/holdfast/door/tlog"
	etree "github.com/holdfastdb/holdfast/entry/tree"
	mtree "github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/worker/checkpoint"
	"github.com/holdfastdb/holdfast/worker/publish"
	"github.com/holdfastdb/holdfast/worker/scrub"
)

// tlogSetup is what a server is told of transparency logs.
type tlogSetup struct {
	at     *place // nil: the door is off
	keys   string // directory
	origin string // "" = made up, where a key is made

	publish []publishTo
	// published shows readers only what every place holds. calm and least replace the times between two checkpoints and between two
	// publications to a place; 0: they do not.
	published   bool
	calm, least time.Duration

	read   *place // for reading alone; nil: there is none
	tokens string // file of who may add; "" = everybody
}

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
		if name, rest, ok := strings.Cut(p.url, "="); ok && etree.ValidName(name) {
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
func (t *tlogSetup) places(log string) (out []checkpoint.Place) {
	for _, p := range t.publish {
		if p.log != log {
			continue
		}
		out = append(out, checkpoint.Place{Name: p.url, Ask: func(ctx context.Context, l *mtree.Log) (string, error) {
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
func (t *tlogSetup) provePlaces(ctx context.Context, log *slog.Logger) error {
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
func (s *server) scrubbed(log string) (out []scrub.Place) {
	if term, _ := s.node.Leadership(); term == 0 {
		return nil
	}
	for _, p := range s.setup.tlog.publish {
		if p.log != log {
			continue
		}
		out = append(out, scrub.Place{Name: p.url, Meter: s.tlogMeter.Place(p.log, p.url),
			Check: func(ctx context.Context, l *mtree.Log, pace func() error) (int, string, error) {
				there, err := p.place.Held(ctx, l)
				if err != nil {
					return 0, "", err
				}
				r, err := p.place.Check(ctx, l, there.Size, false, pace)
				return r.Bad, r.First, err
			}})
	}
	return out
}

// republish compares the places of a log with it. They hold what this member's log holds, so that any member can.
func (s *server) republish(ctx context.Context, l *mtree.Log, mend bool) (out []admin.Republished) {
	for _, p := range s.setup.tlog.publish {
		if p.log != l.Spec.Name {
			continue
		}
		r, err := publish.Republish(ctx, p.place, l, mend)
		o := admin.Republished{To: p.url, Looked: r.Looked, Bad: r.Bad, Mended: r.Mended, First: r.First}
		if err != nil {
			o.Error = err.Error()
		}
		out = append(out, o)
	}
	return out
}

// mayResume refuses to let a restored log go on while a place it is published to holds more of it, or something else.
func (s *server) mayResume(ctx context.Context, l *mtree.Log) error {
	for _, p := range s.setup.tlog.publish {
		if p.log != l.Spec.Name {
			continue
		}
		if _, err := p.place.Held(ctx, l); err != nil {
			return fmt.Errorf("%s: %w", p.url, err)
		}
	}
	return nil
}

// holds is why logs are held, by name; none before the workers run.
func (s *server) holds(ctx context.Context) map[string]string {
	if !s.serving.Load() {
		return nil
	}
	return s.signer.Holds(ctx)
}

// release ends the hold of a log whose places did not answer, for an operator who vouches for it.
func (s *server) release(ctx context.Context, log string, note []byte) error {
	if !s.serving.Load() {
		return errors.New("the server is starting; try again")
	}
	return s.signer.Release(ctx, log, note)
}

// openTlogKeys reads the keys. The first start of a single member makes the default log's key; a later start does not, because
// a missing key is then one that was lost.
func (s *server) openTlogKeys() error {
	t := &s.setup.tlog
	_, err := node.ReadIdentity(disk.OS(), s.setup.node.Dir)
	fresh := errors.Is(err, node.ErrNoIdentity)
	s.tlogKeys = newTlogKeys(t.keys, func() bool { return s.node != nil && len(s.node.Members()) == 1 })
	if err := s.tlogKeys.check(); err != nil {
		return err
	}
	key := s.tlogKeys.get(defaultLog)
	if key == nil && fresh && len(s.setup.join.Peers) == 0 && s.setup.join.Join == "" && t.at != nil {
		origin := t.origin
		if origin == "" {
			origin = randomOrigin()
		}
		if key, err = s.tlogKeys.create(defaultLog, origin); err != nil {
			return err
		}
	}
	if key != nil && t.origin != "" && key.Verifier().Name != t.origin {
		return fmt.Errorf("--tlog-origin %s: %s is a key for %s; leave the flag out or give another --tlog-keys", t.origin,
			s.tlogKeys.file(defaultLog), key.Verifier().Name)
	}
	return nil
}

// signTlogs runs the workers that sign, scrub and publish, on every member: any of them may come to lead.
func (s *server) signTlogs() {
	first := &etree.LogSpec{Name: defaultLog}
	if s.setup.tlog.at == nil {
		first = nil
	}
	s.highest = newHighestFiles(s.setup.tlog.keys, s.log)
	s.signer = checkpoint.New(s.node, s.machines.tree, checkpoint.Options{Key: s.tlogKeys.get, KeyFile: s.tlogKeys.file, First: first, Highest: s.highest,
		Places: s.setup.tlog.places, Calm: s.setup.tlog.calm, Meter: &s.tlogMeter, Logger: s.log})
	s.wg.Go(s.signer.Run)
	s.wg.Go(scrub.New(s.node, s.machines.tree, &s.tlogMeter, s.scrubbed, s.log).Run)
	places := map[string]int{}
	for _, p := range s.setup.tlog.publish {
		places[p.log]++
	}
	if s.setup.tlog.published {
		s.shown = publish.NewShown(s.node, s.machines.tree, places)
	}
	clear(places)
	for _, p := range s.setup.tlog.publish {
		target := publish.Target{Log: p.log, Name: p.url, Place: p.place, Least: s.setup.tlog.least, Shown: s.shown, Number: places[p.log],
			Ahead: s.signer.AskAgain, Meter: s.tlogMeter.Place(p.log, p.url)}
		places[p.log]++
		s.wg.Go(publish.New(s.node, s.machines.tree, target, s.log).Run)
	}
}

// openTlog checks the keys against the logs, binds the tlog address and serves.
func (s *server) openTlog() error {
	for _, l := range s.machines.tree.Logs() {
		if k := s.tlogKeys.get(l.Spec.Name); k != nil && !k.Verifier().Equal(&l.Spec.Key) {
			return fmt.Errorf("%s is another key than the log %s was begun with (%s); put the right file there or take this one away",
				s.tlogKeys.file(l.Spec.Name), l.Spec.Name, l.Spec.Key.String())
		}
	}
	opt := doortlog.Options{Gate: s.gate, ReadOnly: s.signer.ReadOnly, Meter: &s.tlogMeter, CORS: s.setup.door.CORS}
	if s.shown != nil {
		opt.Shown = s.shown.Checkpoint
	}
	if s.tokens != nil {
		opt.Admit = s.tokens.admit
	}
	if at := s.setup.tlog.read; at != nil {
		readers := opt
		readers.GetOnly = true
		s.tlogRead = doortlog.New(s.node, s.machines.tree, readers)
		if err := s.openLogs("tlog-read", s.tlogRead, at); err != nil {
			return err
		}
	}
	if at := s.setup.tlog.at; at != nil {
		s.tlog = doortlog.New(s.node, s.machines.tree, opt)
		return s.openLogs("tlog", s.tlog, at)
	}
	return nil
}

// openLogs binds an address of the tlog door and serves.
func (s *server) openLogs(name string, d *doortlog.Door, at *place) error {
	l, err := at.listen()
	if err != nil {
		return err
	}
	s.bound = append([]string{name + "=" + l.Addr().String()}, s.bound...)
	s.goServe(name, func() error { return d.Serve(l, at.Protocols) })
	return nil
}
