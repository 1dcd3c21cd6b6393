package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

func (r *run) takeovers() []step {
	return []step{
		{name: "takeover: the old agent is stopped and continued", do: r.stopped},
		{name: "takeover: the old agent's uploads arrive late", do: r.delayed},
		{name: "takeover: after a clean stop", do: func(ctx context.Context, p *place) (string, error) { return r.quickly(ctx, p, true, 2*time.Second) }},
		{name: "takeover: after kill -9", do: func(ctx context.Context, p *place) (string, error) { return r.quickly(ctx, p, false, 5*time.Second) }},
		{name: "takeover: two begin at once with different databases", do: r.atOnce},
		{name: "takeover: two begin at once on copies of one disk", do: r.copies},
		{name: "takeover: an agent with somebody else's database", do: r.stranger},
		{name: "takeover: the other agent cannot go on", do: r.unable},
	}
}

// stopped stops an agent under load (SIGSTOP), has another machine take over and write, and lets the first go on.
func (r *run) stopped(ctx context.Context, p *place) (string, error) {
	return r.contested(ctx, p, "stop", func(a *machine) error {
		return a.agent.Pause()
	}, func(a *machine) error {
		return a.agent.Resume()
	})
}

// delayed has an agent's uploads arrive a second and a half late from some moment on, while another machine takes over.
func (r *run) delayed(ctx context.Context, p *place) (string, error) {
	way, err := p.late()
	if err != nil {
		return "", err
	}
	defer way.close()
	p.way = way
	note, err := r.contested(ctx, p, "late", func(*machine) error {
		way.delay.Store(int64(200*time.Millisecond + rand.N(2*time.Second)))
		return nil
	}, func(*machine) error {
		way.delay.Store(0)
		return nil
	})
	p.way = nil
	return note, err
}

// contested has machine a lose its replica to machine b under load. lose is called at a random moment of a's load, regain when b has had
// commits acknowledged.
func (r *run) contested(ctx context.Context, p *place, prefix string, lose, regain func(a *machine) error) (string, error) {
	acked, most := 0, time.Duration(0)
	var all []*machine
	for i := range r.rounds {
		where := fmt.Sprintf("%s%d", prefix, i/series)
		if i%series == 0 {
			p.killAll()
			all = nil
		}
		fail := func(err error) (string, error) { return "", fmt.Errorf("round %d of %s: %w", i, where, err) }
		a, err := p.machine(fmt.Sprintf("%s%d-a", prefix, i))
		if err != nil {
			return "", err
		}
		b, err := p.machine(fmt.Sprintf("%s%d-b", prefix, i))
		if err != nil {
			return "", err
		}
		all = append(all, a, b)
		la, lb := twenty, twenty
		la.name, lb.name = fmt.Sprintf("a%d-", i), fmt.Sprintf("b%d-", i)
		if err := a.start(p.url(where), &la); err != nil {
			return fail(err)
		}
		if err := a.waitAcked(ctx, 20, 20*time.Second); err != nil {
			return fail(err)
		}
		time.Sleep(moment() / 2)
		if err := lose(a); err != nil {
			return fail(err)
		}
		began := time.Now()
		if err := b.startDirect(p.url(where), &lb); err != nil {
			return fail(err)
		}
		if err := b.waitAcked(ctx, 20, 20*time.Second); err != nil {
			return fail(err)
		}
		most = max(most, b.app.firstOK.Sub(began))
		time.Sleep(moment() / 2)
		if err := regain(a); err != nil {
			return fail(err)
		}
		if err := a.waitRefused(ctx, 15*time.Second); err != nil {
			return fail(err)
		}
		if err := b.waitAcked(ctx, 20, 10*time.Second); err != nil {
			return fail(fmt.Errorf("the agent that won does not go on: %w", err))
		}
		a.killApps() // its files are set aside when no program has them open
		if err := a.waitFenced(ctx, 15*time.Second); err != nil {
			return fail(err)
		}
		a.kill()
		b.kill()
		acked += a.app.oks + b.app.oks
		if _, err := p.judge(where, all...); err != nil {
			return fail(err)
		}
	}
	return fmt.Sprintf("%d times, %d commits acknowledged by either, 0 missing; the loser is fenced every time; the winner's first commit %s after its start at most",
		r.rounds, acked, span(most)), nil
}

// waitRefused waits until the machine's application has commits refused, and none acknowledged any more.
func (m *machine) waitRefused(ctx context.Context, most time.Duration) error {
	for began, oks, noes, still := time.Now(), -1, 0, time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if m.app.read(); m.app.oks > oks {
			oks, noes, still = m.app.oks, m.app.noes, time.Now()
		}
		// Answers from before the agent knew reach the ledger after a while.
		if m.app.noes > noes && time.Since(still) > 500*time.Millisecond {
			return nil
		}
		if time.Since(began) > most || ctx.Err() != nil {
			return fmt.Errorf("%s lets its application go on: %d acknowledged, %d refused; the application says %v, the agent:\n%s", m.name, m.app.oks, m.app.noes,
				m.app.errors, m.agent.LogTail(5))
		}
	}
}

// isFenced reports whether the machine's database is set aside.
func (m *machine) isFenced() bool {
	names, err := filepath.Glob(m.db + ".fenced-*")
	return err != nil || len(names) > 0
}

// waitFenced waits until the machine's database is set aside, which no program may have open.
func (m *machine) waitFenced(ctx context.Context, most time.Duration) error {
	for began := time.Now(); !m.isFenced(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > most || ctx.Err() != nil {
			return fmt.Errorf("%s was not set aside in %s; the agent:\n%s", m.db, span(most), m.agent.LogTail(5))
		}
	}
	return nil
}

// quickly measures how long a machine takes from the start of its agent to its first acknowledged commit, the other having ended.
func (r *run) quickly(ctx context.Context, p *place, clean bool, most time.Duration) (string, error) {
	var took []time.Duration
	var all []*machine
	var last *machine
	for i := range r.rounds {
		where := fmt.Sprintf("next%d", i/20)
		if i%20 == 0 {
			p.killAll()
			all, last = nil, nil
		}
		fail := func(err error) (string, error) { return "", fmt.Errorf("round %d of %s: %w", i, where, err) }
		m, err := p.machine(fmt.Sprintf("next%d", i))
		if err != nil {
			return "", err
		}
		all = append(all, m)
		l := twenty
		l.name = fmt.Sprintf("n%d-", i)
		began := time.Now()
		if err := m.start(p.url(where), &l); err != nil {
			return fail(err)
		}
		if err := m.waitAcked(ctx, 20, 20*time.Second); err != nil {
			return fail(err)
		}
		if last != nil {
			took = append(took, m.app.firstOK.Sub(began))
			if t := took[len(took)-1]; t > most {
				return fail(fmt.Errorf("the first commit was acknowledged after %s", span(t)))
			}
		}
		time.Sleep(moment() / 2)
		if clean {
			m.killApps()
			if err := m.agent.Term(15 * time.Second); err != nil {
				return fail(err)
			}
		} else {
			m.kill()
		}
		if _, err := p.judge(where, all...); err != nil {
			return fail(err)
		}
		last = m
	}
	if len(took) == 0 {
		return "", errors.New("nothing was measured")
	}
	slices.Sort(took)
	return fmt.Sprintf("%d times, from the agent's start to the first acknowledged commit: median %s, most %s", len(took), span(took[len(took)/2]), span(took[len(took)-1])), nil
}

// atOnce starts two agents with different databases on one empty prefix: one of them has it, and only that one's application goes on.
func (r *run) atOnce(ctx context.Context, p *place) (string, error) {
	acked := 0
	for i := range r.rounds {
		p.killAll()
		where := fmt.Sprintf("once%d", i)
		fail := func(err error) (string, error) { return "", fmt.Errorf("round %d: %w", i, err) }
		var two [2]*machine
		for k := range two {
			m, err := p.machine(fmt.Sprintf("once%d-%d", i, k))
			if err != nil {
				return "", err
			}
			two[k] = m
			// A database of its own, made by a plain program.
			plain := load{name: fmt.Sprintf("p%d-", k), writers: 1, bytes: 600, plain: true}
			if err := m.write(plain); err != nil {
				return fail(err)
			}
			for began := time.Now(); m.app.oks < 20 && time.Since(began) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
				m.app.read()
			}
			m.killApps()
			m.app.read()
			m.plain = m.app.acked
			m.app.acked = map[string]int{}
			m.app.forget()
		}
		// Each has been kept elsewhere before, so that an application that is there earlier waits for its agent.
		for k, m := range two {
			if err := m.start(p.url(fmt.Sprintf("%s-before%d", where, k)), nil); err != nil {
				return fail(err)
			}
			time.Sleep(100 * time.Millisecond)
			if err := errors.Join(m.agent.Term(15*time.Second), os.Remove(filepath.Join(m.dir, ".app.db-holdfast", "state"))); err != nil {
				return fail(err)
			}
		}
		if err := p.duel(where, two); err != nil {
			return fail(err)
		}
		time.Sleep(2 * time.Second)
		for _, m := range two {
			m.app.read()
			acked += m.app.oks
		}
		if (two[0].app.oks > 0) == (two[1].app.oks > 0) {
			return fail(fmt.Errorf("%d and %d commits were acknowledged; the agents:\n%s\n%s", two[0].app.oks, two[1].app.oks, two[0].agent.LogTail(5), two[1].agent.LogTail(5)))
		}
		winner := two[0]
		if two[1].app.oks > 0 {
			winner = two[1]
		}
		p.killAll()
		for w, n := range winner.plain {
			winner.app.acked[w] = n
		}
		if _, err := p.judge(where, winner); err != nil {
			return fail(err)
		}
	}
	return fmt.Sprintf("%d times, one of two has the replica; %d commits acknowledged, 0 missing", r.rounds, acked), nil
}

// duel starts the agents of two machines at once. Their applications are there before, so that both have much to store in the first moment.
func (p *place) duel(prefix string, two [2]*machine) error {
	for k, m := range two {
		l := twenty
		l.name = fmt.Sprintf("o%d-", k)
		if err := m.write(l); err != nil {
			return err
		}
	}
	time.Sleep(300 * time.Millisecond)
	var started [2]error
	var wg sync.WaitGroup
	for k, m := range two {
		wg.Go(func() { started[k] = m.start(p.url(prefix), nil) })
	}
	wg.Wait()
	return errors.Join(started[:]...)
}

// copies stops an agent cleanly, so that the next one on its disk needs no fence. It then starts two, on that disk and on a copy of it.
func (r *run) copies(ctx context.Context, p *place) (string, error) {
	acked := 0
	for i := range r.rounds {
		p.killAll()
		where := fmt.Sprintf("copy%d", i)
		fail := func(err error) (string, error) { return "", fmt.Errorf("round %d of %s: %w", i, where, err) }
		a, err := p.machine(where + "-a")
		if err != nil {
			return "", err
		}
		b, err := p.machine(where + "-b")
		if err != nil {
			return "", err
		}
		first := twenty
		first.name = "f"
		if err := a.start(p.url(where), nil); err != nil {
			return fail(err)
		}
		if err := a.write(first); err != nil {
			return fail(err)
		}
		if err := a.waitAcked(ctx, 20, 20*time.Second); err != nil {
			return fail(err)
		}
		a.killApps()
		if err := a.agent.Term(15 * time.Second); err != nil {
			return fail(err)
		}
		if out, err := exec.Command("cp", "-aT", a.dir, b.dir).CombinedOutput(); err != nil {
			return fail(fmt.Errorf("copy: %w: %s", err, out))
		}
		if err := p.duel(where, [2]*machine{a, b}); err != nil {
			return fail(err)
		}
		time.Sleep(2 * time.Second)
		p.killAll()
		n, err := p.judge(where, a, b)
		if err != nil {
			return fail(err)
		}
		acked += n
	}
	return fmt.Sprintf("%d times, %d commits acknowledged, 0 missing", r.rounds, acked), nil
}

// stranger starts an agent with a database that has nothing to do with the replica: it must refuse, and the replica's owner not notice.
func (r *run) stranger(ctx context.Context, p *place) (string, error) {
	owner, err := p.machine("owner")
	if err != nil {
		return "", err
	}
	if err := owner.start(p.url("app"), nil); err != nil {
		return "", err
	}
	if err := owner.write(twenty); err != nil {
		return "", err
	}
	for i := range min(r.rounds, 10) {
		m, err := p.machine(fmt.Sprintf("other%d", i))
		if err != nil {
			return "", err
		}
		if err := r.story("close", m.db, "-", 0.1); err != nil {
			return "", err
		}
		if err := owner.waitAcked(ctx, 20, 10*time.Second); err != nil {
			return "", fmt.Errorf("round %d: %w", i, err)
		}
		if err := m.start(p.url("app"), nil); err != nil {
			return "", err
		}
		select {
		case <-m.agent.Exited():
		case <-time.After(10 * time.Second):
			return "", fmt.Errorf("round %d: the agent with another database has not refused it:\n%s", i, m.agent.LogTail(5))
		}
		if err := owner.waitAcked(ctx, 20, 10*time.Second); err != nil {
			return "", fmt.Errorf("round %d, behind an agent that refused: %w", i, err)
		}
	}
	p.killAll()
	acked, err := p.judge("app", owner)
	return fmt.Sprintf("refused %d times, the owner goes on; %d commits acknowledged, 0 missing", min(r.rounds, 10), acked), err
}
