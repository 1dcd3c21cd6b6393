package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

func (r *run) kills() []step {
	return []step{
		{name: "kill: agent and application", do: r.killBoth},
		{name: "kill: the agent alone", do: r.killAgent},
		{name: "kill: the application alone", do: r.killApp},
	}
}

// series is how many rounds a replica lives.
const series = 5

// moment is a random one in a load.
func moment() time.Duration { return 50*time.Millisecond + rand.N(1200*time.Millisecond) }

// killBoth kills the application and its agent under load, removes the disk, and goes on from the bucket on another.
func (r *run) killBoth(ctx context.Context, p *place) (string, error) {
	acked, m := 0, []*machine(nil)
	for i := range r.rounds {
		prefix := fmt.Sprintf("kill%d", i/series)
		if i%series == 0 {
			m = nil
		}
		this, err := p.machine(fmt.Sprintf("both%d", i))
		if err != nil {
			return "", err
		}
		l := twenty
		l.name = fmt.Sprintf("k%d-", i)
		if err := this.start(p.url(prefix), &l); err != nil {
			return "", err
		}
		if err := this.waitAcked(ctx, 1, 20*time.Second); err != nil {
			return "", fmt.Errorf("round %d: %w", i, err)
		}
		time.Sleep(moment())
		if rand.N(2) == 0 {
			this.killApps()
		}
		err = this.agent.Kill()
		this.kill()
		if err != nil {
			return "", err
		}
		m = append(m, this)
		if err := os.RemoveAll(this.dir); err != nil {
			return "", err
		}
		if _, err := p.judge(prefix, m...); err != nil {
			return "", fmt.Errorf("round %d of %s: %w", i, prefix, err)
		}
		acked += this.app.oks
	}
	return fmt.Sprintf("%d times, %d commits acknowledged, 0 missing", r.rounds, acked), nil
}

// killAgent kills the agent under an application, which must not have anything acknowledged then, and starts another on the same disk.
func (r *run) killAgent(ctx context.Context, p *place) (string, error) {
	acked, failed := 0, 0
	var m *machine
	for i := range r.rounds {
		prefix := fmt.Sprintf("agent%d", i/series)
		if i%series == 0 {
			p.killAll()
			var err error
			if m, err = p.machine(prefix); err != nil {
				return "", err
			}
			if err := m.start(p.url(prefix), nil); err != nil {
				return "", err
			}
			if err := m.write(twenty); err != nil {
				return "", err
			}
		}
		if err := m.waitAcked(ctx, 10, 20*time.Second); err != nil {
			return "", fmt.Errorf("round %d: %w", i, err)
		}
		time.Sleep(moment())
		if err := m.agent.Kill(); err != nil {
			return "", err
		}
		// Earlier answers reach the application, however late. One that goes on being answered does not end the wait.
		for killed, still, oks := time.Now(), time.Now(), -1; time.Since(still) < 200*time.Millisecond && time.Since(killed) < 5*time.Second; time.Sleep(20 * time.Millisecond) {
			if m.app.read(); m.app.oks > oks {
				still, oks = time.Now(), m.app.oks
			}
		}
		acked += m.app.oks
		m.app.forget()
		time.Sleep(500 * time.Millisecond)
		if m.app.read(); m.app.oks > 0 || m.app.noes == 0 {
			return "", fmt.Errorf("round %d: without an agent %d commits were acknowledged, %d failed", i, m.app.oks, m.app.noes)
		}
		failed += m.app.noes
		if _, err := p.judge(prefix, m); err != nil {
			return "", fmt.Errorf("round %d of %s, no agent: %w", i, prefix, err)
		}
		if err := m.start(p.url(prefix), nil); err != nil {
			return "", err
		}
		if err := m.waitAcked(ctx, 10, 20*time.Second); err != nil {
			return "", fmt.Errorf("round %d, a new agent: %w", i, err)
		}
		if i%series == series-1 || i == r.rounds-1 {
			m.kill()
			if _, err := p.judge(prefix, m); err != nil {
				return "", fmt.Errorf("round %d of %s, everything dead: %w", i, prefix, err)
			}
		}
	}
	return fmt.Sprintf("%d times, %d commits acknowledged, 0 missing; %d refused or failed while there was no agent, 0 acknowledged", r.rounds, acked, failed), nil
}

// killApp kills the application under its agent; the next one recovers the WAL.
func (r *run) killApp(ctx context.Context, p *place) (string, error) {
	acked := 0
	var m *machine
	for i := range r.rounds {
		prefix := fmt.Sprintf("app%d", i/series)
		if i%series == 0 {
			p.killAll()
			var err error
			if m, err = p.machine(prefix); err != nil {
				return "", err
			}
			if err := m.start(p.url(prefix), nil); err != nil {
				return "", err
			}
		}
		if err := m.write(twenty); err != nil {
			return "", err
		}
		if err := m.waitAcked(ctx, 1, 20*time.Second); err != nil {
			return "", fmt.Errorf("round %d: %w", i, err)
		}
		time.Sleep(moment())
		m.killApps()
		if _, err := p.judge(prefix, m); err != nil {
			return "", fmt.Errorf("round %d of %s: %w", i, prefix, err)
		}
		if i%series == series-1 || i == r.rounds-1 {
			acked += m.app.oks
			if err := m.agent.Term(15 * time.Second); err != nil {
				return "", err
			}
			if _, err := p.judge(prefix, m); err != nil {
				return "", fmt.Errorf("round %d of %s, the agent stopped: %w", i, prefix, err)
			}
		}
	}
	return fmt.Sprintf("%d times, %d commits acknowledged, 0 missing", r.rounds, acked), nil
}
