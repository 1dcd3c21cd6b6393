package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// mostUsers is where the published table ends, and where the bars are.
const mostUsers = 20

// frameworkBurn is what a request of the published app took of its processor: the slope of its table.
const frameworkBurn = 4700 * time.Microsecond

// sweep is the published experiment.
func (b *bench) sweep(ctx context.Context) error {
	return b.turns(ctx, "sweep", b.rounds, b.sides, delay{Median: b.upload}, 2, 4, 6, 8, 10, 12, 14, 16, 18, mostUsers)
}

// spread is its last row over a store whose uploads differ.
func (b *bench) spread(ctx context.Context) error {
	if !b.measures(stored) {
		return nil
	}
	return b.turns(ctx, "spread", max(3, b.rounds), []string{stored}, delay{Median: b.upload, Sigma: b.sigma}, mostUsers)
}

// pair has Litestream and us take turns where no client waits for the store.
func (b *bench) pair(ctx context.Context) error {
	if !b.measures(litestream) || !b.measures(local) {
		return nil
	}
	return b.turns(ctx, "pair", b.pairs, []string{litestream, local}, delay{Median: b.upload}, mostUsers)
}

// framework is a part of the sweep with an app that takes as much of the core as the published one.
func (b *bench) framework(ctx context.Context) error {
	b.burn = frameworkBurn
	defer func() { b.burn = 0 }()
	return b.turns(ctx, "framework", b.rounds, b.sides, delay{Median: b.upload}, 2, 10, mostUsers)
}

// turns measures every side at every number of users, the sides one after the other, and in each round beginning with another one.
func (b *bench) turns(ctx context.Context, part string, rounds int, sides []string, d delay, numbers ...int) error {
	for round := range rounds {
		for _, vus := range numbers {
			for i := range sides {
				side := sides[(i+round)%len(sides)]
				s, err := b.measure(ctx, side, vus, d)
				if err != nil {
					return fmt.Errorf("%s, %d users, %s: %w", side, vus, d, err)
				}
				f := b.report.find(part, side, vus, d, b.burn)
				f.Rounds = append(f.Rounds, *s)
				fmt.Printf("  %-9s %-22s %2d users  %6.0f/s  med %6.1f  p95 %6.1f  max %6.1f ms  CPU app %4.0f agent %4.0f µs  RSS %5.1f MB  PUTs %.1f per 1,000\n",
					part, side, vus, s.PerSecond, s.Med, s.P95, s.Most, s.AppCPU, s.AgentCPU, float64(s.AgentRSS)/1e6, s.PerThou)
				if err := ctx.Err(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure is one round of one cell.
func (b *bench) measure(ctx context.Context, side string, vus int, d delay) (s *Sample, err error) {
	b.store.SlowBy(d.next)
	s = &Sample{}
	if s.BareP50, s.BareP95, err = b.bare(ctx); err != nil {
		return nil, err
	}
	st, err := b.stand(ctx, side, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.end()) }()
	ticks, err := host.CPUTicks()
	if err != nil {
		return nil, err
	}
	app, agent, err := st.used()
	if err != nil {
		return nil, err
	}
	asked := b.store.Counts()
	u, err := b.k6(ctx, st.url, st.dir, vus, b.window)
	if err != nil {
		return nil, err
	}
	asked = b.store.Counts().Minus(asked)
	now, err := host.CPUTicks()
	if err != nil {
		return nil, err
	}
	app2, agent2, err := st.used()
	if err != nil {
		return nil, err
	}
	n := float64(u.Requests)
	s.users, s.Stolen = *u, now.StolenSince(ticks)
	s.AppCPU, s.AgentCPU = (app2-app).Seconds()*1e6/n, (agent2-agent).Seconds()*1e6/n
	s.PerThou, s.AllPerThou, s.PutBytes = 1000*float64(asked.Puts)/n, 1000*float64(asked.All())/n, asked.PutBytes
	if st.agent != nil {
		s.AgentRSS, err = st.agent.RSS()
	}
	if u.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d requests were not answered 200:\n%s", u.Failed, u.Failed+u.Requests, st.app.LogTail(5)))
	}
	return s, err
}

// used is the processor time of app and agent so far.
func (s *stand) used() (app, agent time.Duration, err error) {
	of := func(p *proctest.Process) (d time.Duration) {
		if p != nil && err == nil {
			d, err = p.CPU()
		}
		return d
	}
	return of(s.app), of(s.agent), err
}
