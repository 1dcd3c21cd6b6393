package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/certtest"
)

// live is the week, day by day.
func (w *week) live() {
	if w.earlier != "" {
		w.day("Monday: a rolling upgrade from "+buildBefore, w.upgraded)
	}
	w.day("Monday: a rolling restart", w.restarted)
	w.day("Tuesday: a follower frozen for 30 s", func() (string, error) { return w.frozen(false) })
	w.day("Tuesday: the leader frozen for 30 s", func() (string, error) { return w.frozen(true) })
	w.day("Wednesday: a member moves", w.moves)
	w.day("Wednesday: all three are renumbered, one by one", w.renumbered)
	w.day("Wednesday: all three are renumbered at once, by name", func() (string, error) { return w.renumberedAtOnce(false) })
	w.day("Wednesday: all three are renumbered at once, by id", func() (string, error) { return w.renumberedAtOnce(true) })
	w.day("Thursday: a certificate ends in a week", w.endsSoon)
	w.day("Thursday: a member with an expired certificate", w.expired)
	w.day("Thursday: the members' authority is rolled", w.rolled)
	w.day("Friday: a restart without --peer", w.deaf)
	w.day("Friday: two members' disks are swapped", w.swapped)
	w.day("Friday: a majority is down", w.alone)
	w.day("Saturday: members replaced one by one", w.replaced)
	w.day("Sunday: three become one, and one three", w.shrunkAndGrown)
}

// handed has another member lead before one is stopped, as an operator does, and notes that there is no leader for that moment.
func (w *week) handed(m *member) (leads func(), err error) {
	leader, _, err := w.house.followers()
	if err != nil || leader != m {
		return func() {}, err
	}
	return w.house.journal.leaderless(), nil
}

// leads waits until a leader has committed something, through members that must answer.
func (w *week) leads(members ...*member) error {
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := w.house.ask(func(ctx context.Context, c *clientv3.Client) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := c.Put(ctx, "week-leads", "")
			return err
		}, members...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// others are the members but one.
func (w *week) others(but *member) []*member {
	var all []*member
	for _, m := range w.house.members {
		if m != but {
			all = append(all, m)
		}
	}
	return all
}

// restart stops a member, has something done, and starts it.
func (w *week) restart(m *member, do func() error) error {
	leads, err := w.handed(m)
	if err != nil {
		return err
	}
	defer leads()
	if err := w.house.stop(m); err != nil {
		return err
	}
	if err := w.leads(w.others(m)...); err != nil {
		return fmt.Errorf("without %s: %w", m.Name, err)
	}
	leads()
	if do != nil {
		if err := do(); err != nil {
			return err
		}
	}
	if err := w.house.start(m); err != nil {
		return err
	}
	return w.house.ready(m)
}

func (w *week) upgraded() (string, error) {
	for _, m := range w.house.members {
		err := w.restart(m, func() error {
			m.bin, m.extra = w.house.bin, []string{"--hold-level"}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	for _, m := range w.house.members { // no member goes back: the level may go up
		m.extra = nil
	}
	out, err := w.house.run("member", "raise-level", "--admin", w.house.members[0].Admin)
	return "level: " + strings.TrimSpace(out), err
}

func (w *week) restarted() (string, error) {
	for _, m := range w.house.members {
		if err := w.restart(m, nil); err != nil {
			return "", err
		}
	}
	return "three restarts", nil
}

const frozenFor = 30 * time.Second

func (w *week) frozen(leader bool) (string, error) {
	first, rest, err := w.house.followers()
	if err != nil {
		return "", err
	}
	m := rest[0]
	leads := func() {}
	if leader {
		m, leads = first, w.house.journal.leaderless()
	}
	others := w.others(m)
	seen := w.house.watch()
	w.house.journal.gone(m.Name)
	if err := m.Pause(); err != nil {
		return "", err
	}
	thaws := time.Now().Add(frozenFor)
	defer func() {
		_ = m.Resume() // the step fails below if it does not come back
		leads()
	}()
	if leader {
		if err := w.leads(others...); err != nil {
			return "", err
		}
		leads()
		seen.from()
	}
	note, err := seen.named(
		in(inStatus, m.Name+`.*unreachable since`, others...),
		in(inMetrics, `holdfast_member_heard_seconds\{member="`+m.id+`"\} [2-9]`, others...),
		in(inMetrics, `holdfast_member_unreachable\{member="`+m.id+`"\} 1`, others...),
		in(inLog, `warn  member unreachable member="`+m.Name, others...))
	if err != nil {
		return "", err
	}
	time.Sleep(time.Until(thaws))
	seen = w.house.watch()
	_ = m.Resume()
	if err := w.house.ready(m); err != nil {
		return "", err
	}
	back, err := seen.named(in(inStatus, m.Name+`.* ok`, w.house.members...), in(inLog, `member reachable again member="`+m.Name, others...),
		in(inLog, `warn  this member did nothing for a while`, m))
	return note + "; that it has recovered " + back, err
}

// update tells the log a member's address, as etcdctl member update does.
func (w *week) update(m *member, by ...*member) error {
	return w.house.ask(func(ctx context.Context, c *clientv3.Client) error {
		var id uint64
		if _, err := fmt.Sscanf(m.id, "%x", &id); err != nil {
			return err
		}
		_, err := c.MemberUpdate(ctx, id, []string{"https://" + m.Peer})
		return err
	}, by...)
}

// move starts a member at another address. first: the operator changes the log before, as with etcd; otherwise the member does it itself.
func (w *week) move(m *member, first bool) error {
	if err := moved(m); err != nil {
		return err
	}
	if first {
		if err := w.update(m, w.others(m)...); err != nil {
			return fmt.Errorf("update: %w", err)
		}
	}
	return w.restart(m, func() error {
		m.peers = nil
		return nil
	})
}

func (w *week) moves() (string, error) {
	m := w.house.members[2]
	if err := w.move(m, true); err != nil {
		return "", err
	}
	return w.fine(w.house.watch())
}

// fine waits until every member says of every other that it is well.
func (w *week) fine(seen *watchdog) (string, error) {
	var signs [][]sign
	for _, m := range w.house.members {
		signs = append(signs, in(inStatus, m.Name+`.* ok`, w.house.members...))
	}
	note, err := seen.named(signs...)
	return strings.Replace(note, "named", "all well", 1), err
}

func (w *week) renumbered() (string, error) {
	for _, m := range w.house.members {
		if err := w.move(m, false); err != nil {
			return "", err
		}
	}
	return w.fine(w.house.watch())
}

// renumberedAtOnce has the whole cluster come up at other addresses than the log has, each member told where the others are.
func (w *week) renumberedAtOnce(byID bool) (string, error) {
	leads := w.house.journal.leaderless()
	defer leads()
	for _, m := range w.house.members {
		if err := w.house.stop(m); err != nil {
			return "", err
		}
	}
	for _, m := range w.house.members {
		if err := moved(m); err != nil {
			return "", err
		}
	}
	for _, m := range w.house.members {
		m.peers = []string{"--peers", w.house.peerList()}
		if byID {
			var all []string
			for _, other := range w.others(m) {
				all = append(all, other.id+"="+other.Peer)
			}
			m.peers = []string{"--peer-override", strings.Join(all, ",")}
		}
		if err := w.house.start(m); err != nil {
			return "", err
		}
	}
	if err := w.house.ready(w.house.members...); err != nil {
		return "", err
	}
	leads()
	for _, m := range w.house.members { // the log has learnt of it: the flags are not needed any longer
		err := w.restart(m, func() error {
			m.peers = nil
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return w.fine(w.house.watch())
}

func (w *week) endsSoon() (string, error) {
	m := w.house.members[1]
	seen := w.house.watch()
	if err := w.house.certify(m, w.members, time.Now().Add(7*24*time.Hour)); err != nil {
		return "", err
	}
	if err := w.house.hangUp(m); err != nil {
		return "", err
	}
	note, err := seen.named(in(inStatus, `(?i)certificate.*(ends|expires)`, m), in(inReady, `(?i)certificate.*(ends|expires)`, m),
		in(inMetrics, `holdfast_certificate_not_after_seconds\{file="[^"]*peer`, m), in(inLog, `warn  .*certificate .* ends`, m))
	return note, errors.Join(err, w.house.certify(m, w.members, time.Now().Add(aMonth)), w.house.hangUp(m))
}

// expired is a member that is started with a certificate of yesterday: no member talks to it until it has a new one.
func (w *week) expired() (string, error) {
	_, others, err := w.house.followers()
	if err != nil {
		return "", err
	}
	m := others[0]
	if err := w.house.stop(m); err != nil {
		return "", err
	}
	if err := w.house.certify(m, w.members, time.Now().Add(-time.Hour)); err != nil {
		return "", err
	}
	rest := w.others(m)
	seen := w.house.watch()
	if err := w.house.start(m); err != nil {
		return "", err
	}
	note, err := seen.named(
		in(inLog, `warn  .*certificate.*expired`, m), in(inReady, `(?i)certificate.*expired`, m),
		in(inStatus, `(?i)certificate.*expired`, m),
		in(inStatus, m.Name+`.*unreachable since`, rest...), in(inLog, `warn  .*expired`, rest...))
	if err != nil {
		return "", err
	}
	if err := w.house.certify(m, w.members, time.Now().Add(aMonth)); err != nil {
		return "", err
	}
	if err := w.house.hangUp(m); err != nil {
		return "", err
	}
	if err := w.house.ready(m); err != nil {
		return "", err
	}
	back, err := w.fine(w.house.watch())
	return note + "; " + back, err
}

// rolled brings a new authority by SIGHUP alone: first believed beside the old one, then in use, then alone.
func (w *week) rolled() (string, error) {
	next := certtest.NewAuthority("members of the next authority")
	all := w.house.members
	for _, m := range all {
		if err := w.house.believe(m, w.members, next); err != nil {
			return "", err
		}
	}
	if err := w.house.hangUp(all...); err != nil {
		return "", err
	}
	time.Sleep(2 * time.Second) // an operator does not do both at once either
	for _, m := range all {
		if err := w.house.certify(m, next, time.Now().Add(aMonth)); err != nil {
			return "", err
		}
	}
	if err := w.house.hangUp(all...); err != nil {
		return "", err
	}
	time.Sleep(2 * time.Second)
	for _, m := range all {
		if err := w.house.believe(m, next); err != nil {
			return "", err
		}
	}
	if err := w.house.hangUp(all...); err != nil {
		return "", err
	}
	w.members = next
	if err := w.restart(all[0], nil); err != nil { // it shows what the others believe
		return "", err
	}
	return w.fine(w.house.watch())
}

// deaf is a member that is started without the flags that say where it listens for others. It listens where the log says, or says that it does not and ends.
func (w *week) deaf() (string, error) {
	m := w.house.members[2]
	if err := w.restart(m, func() error {
		m.peers, m.noPeer = nil, true
		return nil
	}); err != nil {
		return "", err
	}
	m.noPeer = false
	return w.fine(w.house.watch())
}

// swapped is two members that are started on each other's directories. Both must end, and say whose those are.
func (w *week) swapped() (string, error) {
	_, rest, err := w.house.followers()
	if err != nil {
		return "", err
	}
	a, b := rest[0], rest[1]
	leads := w.house.journal.leaderless()
	defer leads()
	if err := errors.Join(w.house.stop(a), w.house.stop(b)); err != nil {
		return "", err
	}
	seen := w.house.watch()
	a.Dir, b.Dir = b.Dir, a.Dir
	for _, m := range []*member{a, b} {
		if err := w.house.start(m); err != nil {
			return "", err
		}
	}
	note, err := seen.named(in(inLog, `directory of member `+b.Name+`.* names member `+a.Name, a), in(inLog, `directory of member `+a.Name+`.* names member `+b.Name, b))
	if err == nil {
		for _, m := range []*member{a, b} {
			select {
			case <-m.Exited():
			case <-time.After(namedWithin):
				err = errors.Join(err, fmt.Errorf("%s runs on the directory of another member", m.Name))
			}
		}
	}
	_ = errors.Join(a.Kill(), b.Kill()) // they have ended, or the step fails
	a.Dir, b.Dir = b.Dir, a.Dir
	if err1 := errors.Join(w.house.start(a), w.house.start(b)); err1 != nil {
		return "", errors.Join(err, err1)
	}
	return note, errors.Join(err, w.house.ready(a, b), w.leads(w.house.members...))
}

// alone is one member while the two others are down: it must say whom it dials, what comes of it and since when.
func (w *week) alone() (string, error) {
	leader, rest, err := w.house.followers()
	if err != nil {
		return "", err
	}
	leads := w.house.journal.leaderless()
	defer leads()
	w.house.journal.gone(leader.Name)
	seen := w.house.watch()
	if err := errors.Join(w.house.stop(rest[0]), w.house.stop(rest[1])); err != nil {
		return "", err
	}
	seen.from()
	var signs [][]sign
	for _, m := range rest {
		want := m.Name + `[^\n]*` + strings.ReplaceAll(m.Peer, ".", `\.`) + `[^\n]*refused`
		signs = append(signs, in(inReady, want, leader), in(inStatus, want, leader), in(inMetrics, `holdfast_member_unreachable\{member="`+m.id+`"\} 1`, leader))
	}
	signs = append(signs, in(inReady, `a majority`, leader))
	note, err := seen.named(signs...)
	if err == nil { // the line comes when there has been no leader for five seconds
		seen.from()
		_, err = seen.named(in(inLog, `warn  there is no leader.*a majority must run`, leader))
	}
	if err1 := errors.Join(w.house.start(rest[0]), w.house.start(rest[1])); err1 != nil {
		return "", errors.Join(err, err1)
	}
	return note, errors.Join(err, w.house.ready(w.house.members...), w.leads(w.house.members...))
}

// replace removes a member, empties its directory and has it join again under its name, as a new member.
func (w *week) replace(m *member) error {
	w.roster.leave(m)
	leads, err := w.handed(m)
	if err != nil {
		return err
	}
	defer leads()
	others := w.others(m)
	w.house.journal.gone(m.Name)
	if err := w.remove(m, others...); err != nil {
		return err
	}
	if err := w.leads(others...); err != nil {
		return err
	}
	leads()
	if err := errors.Join(m.Term(30*time.Second), os.RemoveAll(m.Dir), os.MkdirAll(m.Dir, 0o700)); err != nil {
		return err
	}
	return w.join(m, others[0])
}

// remove takes a member out of the cluster. Until all members have been connected for five seconds that is refused, as etcd refuses it.
func (w *week) remove(m *member, by ...*member) error {
	return w.house.ask(func(ctx context.Context, c *clientv3.Client) error {
		var id uint64
		if _, err := fmt.Sscanf(m.id, "%x", &id); err != nil {
			return err
		}
		for {
			_, err := c.MemberRemove(ctx, id)
			if !errors.Is(err, rpctypes.ErrUnhealthy) {
				return err
			}
			time.Sleep(200 * time.Millisecond)
		}
	}, by...)
}

// join starts a member with an empty directory. Clients hear of it at once: while it learns it must have its port shut, or relay.
func (w *week) join(m *member, at *member) error {
	m.peers = []string{"--join", at.Peer}
	if err := w.house.start(m); err != nil {
		return err
	}
	if err := w.house.ready(m); err != nil {
		return err
	}
	// The client of the member that was there before has tried in vain for as long as that was gone. grpc's backoff grows with that: after 40 s its
	// next try may be 15 s away, and puts wait for it.
	if err := w.welcome(m); err != nil {
		return err
	}
	m.peers = nil
	return w.house.ids()
}

func (w *week) replaced() (string, error) {
	if _, err := w.fine(w.house.watch()); err != nil {
		return "", err
	}
	for _, m := range w.house.members {
		if err := w.replace(m); err != nil {
			return "", fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return w.fine(w.house.watch())
}

func (w *week) shrunkAndGrown() (string, error) {
	last := w.house.members[0]
	gone := w.others(last)
	for _, m := range gone {
		w.roster.leave(m)
		leads, err := w.handed(m)
		if err != nil {
			return "", err
		}
		w.house.journal.gone(m.Name)
		err = w.remove(m, last)
		if err == nil {
			err = w.leads(last)
		}
		leads()
		if err != nil {
			return "", fmt.Errorf("remove %s: %w", m.Name, err)
		}
		if err := errors.Join(m.Term(30*time.Second), os.RemoveAll(m.Dir), os.MkdirAll(m.Dir, 0o700)); err != nil {
			return "", err
		}
	}
	time.Sleep(w.calm)
	for _, m := range gone {
		if err := w.join(m, last); err != nil {
			return "", fmt.Errorf("join %s: %w", m.Name, err)
		}
	}
	return w.fine(w.house.watch())
}
