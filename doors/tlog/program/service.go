package program

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
	doortlog "github.com/holdfastdb/holdfast/doors/tlog"
	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/publish"
	"github.com/holdfastdb/holdfast/doors/tlog/scrub"
	"github.com/holdfastdb/holdfast/internal/meter"
	doors "github.com/holdfastdb/holdfast/serve"
)

// running is the door in one server. Its functions are called in order, those of doors.Service from one goroutine.
type running struct {
	set      *settings
	at, read *doors.Place // nil: off
	origins  []string     // of pages that may add
	room     func() int64 // bytes that logs may take in memory beside their right edges
	packed   *doortlog.Packed

	host    *doors.Host
	logs    *tlogmachine.Machine
	meter   meter.Tlog
	keys    *keyFiles
	signer  *checkpoint.Worker
	highest *highestFiles
	shown   *publish.Shown // nil: readers get what is signed
	tokens  *tokenFile     // nil: everybody may add

	door, readers *doortlog.Door // nil: off, or not open yet

	lags lags // of logs whose signing is behind
}

// prepare reads the files of keys and tokens, and asks the places.
func (r *running) prepare(ctx context.Context, h *doors.Host) (err error) {
	r.host = h
	if r.set.tokens != "" {
		if r.tokens, err = openTokens(r.set.tokens, func(name string) *tlogmachine.Log { return r.logs.Find(name) }, h.Log); err != nil {
			return err
		}
	}
	if err := r.set.provePlaces(ctx, h.Log); err != nil {
		return err
	}
	return r.openKeys()
}

// openKeys reads the keys. The first start of a single member makes the default log's key. A later start does not, because a missing key is
// then a lost one.
func (r *running) openKeys() error {
	t := r.set
	_, err := node.ReadIdentity(disk.OS(), r.host.Dir)
	fresh := errors.Is(err, node.ErrNoIdentity)
	r.keys = newKeyFiles(t.keys, func() bool { return r.host.Node != nil && len(r.host.Node.Members()) == 1 })
	if t.inData {
		r.keys.advice = "give a --data this user can write, or --tlog-keys"
	}
	if err := r.keys.check(); err != nil {
		return err
	}
	key := r.keys.get(defaultLog)
	if key == nil && fresh && r.host.Founder && r.at != nil {
		origin := t.origin
		if origin == "" {
			origin = randomOrigin()
		}
		if key, err = r.keys.create(defaultLog, origin); err != nil {
			return err
		}
	}
	if key != nil && t.origin != "" && key.Verifier().Name != t.origin {
		return fmt.Errorf("--tlog-origin %s: %s is a key for %s; leave the flag out or give another --tlog-keys", t.origin,
			r.keys.file(defaultLog), key.Verifier().Name)
	}
	return nil
}

// work runs the workers that sign, scrub and publish, on every member: any of them may come to lead.
func (r *running) work(h *doors.Host) {
	r.logs = doors.Machine[*tlogmachine.Machine](h)
	first := &tlogpart.LogSpec{Name: defaultLog}
	if r.at == nil {
		first = nil
	}
	r.highest = newHighestFiles(r.set.keys, r.host.Log)
	r.signer = checkpoint.New(r.host.Node, r.logs, checkpoint.Options{Key: r.keys.get, KeyFile: r.keys.file, Alone: r.keys.alone, First: first, Highest: r.highest,
		Places: r.set.places, Calm: r.set.calm, Meter: &r.meter, Logger: r.host.Log})
	r.host.Go(r.signer.Run)
	r.host.Go(r.watchLag)
	r.host.Go(scrub.New(r.host.Node, r.logs, &r.meter, r.scrubbed, r.host.Log).Run)
	places := map[string]int{}
	for _, p := range r.set.publish {
		places[p.log]++
	}
	if r.set.checkpoints == "published" {
		r.shown = publish.NewShown(r.host.Node, r.logs, places)
	}
	clear(places)
	for _, p := range r.set.publish {
		target := publish.Target{Log: p.log, Name: p.url, Place: p.place, Least: r.set.least, Shown: r.shown, Number: places[p.log],
			Ahead: r.signer.AskAgain, Meter: r.meter.Place(p.log, p.url)}
		places[p.log]++
		r.host.Go(publish.New(r.host.Node, r.logs, target, r.host.Log).Run)
	}
}

// open checks the keys against the logs, binds the addresses and serves.
func (r *running) open(h *doors.Host) error {
	for _, l := range r.logs.Logs() {
		if k := r.keys.get(l.Spec.Name); k != nil && !k.Verifier().Equal(&l.Spec.Key) {
			return fmt.Errorf("%s is another key than the log %s was begun with (%s); put the right file there or take this one away",
				r.keys.file(l.Spec.Name), l.Spec.Name, l.Spec.Key.String())
		}
	}
	r.warnOfNames()
	opt := doortlog.Options{Conns: h.Conns, ReadOnly: r.signer.ReadOnly, Meter: &r.meter, Ack: h.Ack, Steps: h.Steps, CORS: r.origins, Packed: r.packed}
	if r.shown != nil {
		opt.Shown = r.shown.Checkpoint
	}
	opt.Admit = r.admit
	if at := r.read; at != nil {
		readers := opt
		readers.GetOnly = true
		r.readers = doortlog.New(h.Node, r.logs, readers)
		if err := r.serve("tlog-read", r.readers, at); err != nil {
			return err
		}
	}
	if at := r.at; at != nil {
		r.door = doortlog.New(r.host.Node, r.logs, opt)
		return r.serve("tlog", r.door, at)
	}
	return nil
}

// serve binds an address and serves.
func (r *running) serve(name string, d *doortlog.Door, at *doors.Place) error {
	l, err := at.Listen()
	if err != nil {
		return err
	}
	r.host.Bound(name + "=" + l.Addr().String())
	r.host.Serve(name, func() error { return d.Serve(l, at.Protocols) })
	return nil
}

// release ends the hold of a log whose places did not answer, for an operator who vouches for it.
func (r *running) release(ctx context.Context, log string, note []byte) error {
	if !r.host.Serving() {
		return errors.New("the server is starting; try again")
	}
	return r.signer.Release(ctx, log, note)
}

// shutdown ends the door.
func (r *running) shutdown(ctx context.Context) error {
	var errs []error
	for _, d := range []*doortlog.Door{r.door, r.readers} {
		if d != nil {
			errs = append(errs, d.Shutdown(ctx))
		}
	}
	return errors.Join(errs...)
}

func (r *running) close() {
	if r.keys != nil {
		if _, err := node.ReadIdentity(disk.OS(), r.host.Dir); errors.Is(err, node.ErrNoIdentity) {
			r.keys.undo()
		}
	}
	if r.tokens != nil {
		r.tokens.Close()
	}
	if r.highest != nil {
		r.highest.Close()
	}
}
