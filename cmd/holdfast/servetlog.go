package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/holdfastdb/holdfast/disk"
	doortlog "github.com/holdfastdb/holdfast/door/tlog"
	et "github.com/holdfastdb/holdfast/entry/tree"
	"github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
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
}

// publishTo is one --tlog-publish.
type publishTo struct {
	log, url string
	place    publish.Place
}

// publishPassword is for databases. A flag would be seen by everybody on the machine.
const publishPassword = "HOLDFAST_TLOG_PUBLISH_PASSWORD"

// parsePublish reads [LOG=]URL,[LOG=]URL,….
func parsePublish(v string) ([]publishTo, error) {
	var out []publishTo
	for item := range strings.SplitSeq(v, ",") {
		p := publishTo{log: defaultLog, url: strings.TrimSpace(item)}
		if name, rest, ok := strings.Cut(p.url, "="); ok && et.ValidName(name) {
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

// mayResume refuses to let a restored log go on while a place it is published to holds more of it, or something else.
func (s *server) mayResume(ctx context.Context, l *tree.Log) error {
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

// openTlogKeys reads the keys. The first start of a member on its own makes the one of the default log; no later start does,
// because a log whose key is missing has lost it.
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
	first := &et.LogSpec{Name: defaultLog}
	if s.setup.tlog.at == nil {
		first = nil
	}
	s.signer = checkpoint.New(s.node, checkpoint.Options{Key: s.tlogKeys.get, KeyFile: s.tlogKeys.file, First: first, Meter: &s.tlogMeter, Logger: s.log})
	s.wg.Go(s.signer.Run)
	s.wg.Go(scrub.New(s.node, &s.tlogMeter, s.log).Run)
	for _, p := range s.setup.tlog.publish {
		s.wg.Go(publish.New(s.node, publish.Target{Log: p.log, Name: p.url, Place: p.place, Meter: s.tlogMeter.Place(p.log, p.url)}, s.log).Run)
	}
}

// openTlog checks the keys against the logs, binds the tlog address and serves.
func (s *server) openTlog() error {
	for _, l := range s.node.Tree().Logs() {
		if k := s.tlogKeys.get(l.Spec.Name); k != nil && !k.Verifier().Equal(&l.Spec.Key) {
			return fmt.Errorf("%s is another key than the log %s was begun with (%s); put the right file there or take this one away",
				s.tlogKeys.file(l.Spec.Name), l.Spec.Name, l.Spec.Key.String())
		}
	}
	at := s.setup.tlog.at
	if at == nil {
		return nil
	}
	s.tlog = doortlog.New(s.node, doortlog.Options{ReadOnly: s.signer.ReadOnly, Meter: &s.tlogMeter})
	l, err := at.listen()
	if err != nil {
		return err
	}
	s.bound = append([]string{"tlog=" + l.Addr().String()}, s.bound...)
	s.goServe("tlog", func() error { return s.tlog.Serve(l, at.Protocols) })
	return nil
}
