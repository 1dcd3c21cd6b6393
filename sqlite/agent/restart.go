package agent

import (
	"time"
)

const (
	// restartFrames is from where on a WAL is worth starting anew: SQLite's own wal_autocheckpoint.
	restartFrames = 1000
	// holdFrames is from where on transactions are made to wait for it.
	holdFrames = 4 * restartFrames
	// holdMost is for how long, holdAgain how long after the last time, holdSoon if that time it came to something.
	holdMost  = 250 * time.Millisecond
	holdAgain = 2 * time.Second
	holdSoon  = 250 * time.Millisecond
	// holdBackFor is how long the last commit waits for the others to be out of its way.
	holdBackFor = 8 * time.Millisecond
	// restartMostPause is how long after a try the next is, at most, while transactions do not wait.
	restartMostPause = 100 * time.Millisecond
	// letAgain separates two waiting connections that are released. An idle connection buffers a few hundred messages, so releasing them
	// together would block the gate.
	letAgain = 4 * time.Millisecond
	// giveWayAfter is how long another program's checkpoint waits for the mark; lookForOthers is the interval of looking for one.
	giveWayAfter  = 10 * time.Millisecond
	lookForOthers = 25 * time.Millisecond
)

// holding is when transactions were made to wait last.
type holding struct {
	since time.Time // zero: they do not wait
	next  time.Time // not before
	tried time.Time
	pause time.Duration // after a try that failed while transactions did not wait
	let   time.Time     // when a connection was last released
	back  time.Time     // since when the last commit is held back; zero: none is
}

// restart starts the WAL anew, if it is long enough and unused. It returns the time until the next try.
func (d *database) restart(now time.Time) time.Duration {
	if d.files == nil || !d.files.Awake() {
		return later
	}
	if d.files.Blocks() {
		return d.giveWay(now)
	}
	d.blocking = time.Time{}
	frames, copied := d.files.WAL()
	held := !d.holding.since.IsZero()
	if frames < restartFrames || d.view || d.streams > 0 {
		if held {
			d.release(now.Add(holdAgain))
		}
		return lookForOthers
	}
	// The last few are most likely being copied: a connection does so after each of its commits once the WAL is this long.
	if frames-copied <= restartFrames/8 && d.room() && now.Sub(d.holding.tried) >= d.between(held) {
		d.holding.tried = now
		g, err := d.files.Restart()
		if g != nil {
			d.ship(g)
			d.changed, d.taken = now, now
		}
		if err == nil {
			d.holding.pause = 0
			d.release(now.Add(holdSoon))
			return lookForOthers
		}
		if !held {
			d.holding.pause = min(max(2*d.holding.pause, time.Millisecond), restartMostPause)
		}
	}
	if int64(frames)*int64(d.files.State().PageSize) > d.agent.cfg.MaxUnstored && d.files.Held() && len(d.ships) > 0 && now.Sub(d.ships[0].made) > 2*holdMost && !d.somebodyWaits() {
		// The bucket does not take it. The disk may be memory: commits lost from the WAL are found by reading the database.
		d.log.Warn("the WAL is let go of; what is not stored is found by reading the database", "frames", frames)
		d.files.Loose()
	}
	switch {
	case held && now.Sub(d.holding.since) > holdMost:
		d.release(now.Add(holdAgain))
	case held:
		if copied < frames && !d.somebodyWaits() && now.Sub(d.holding.let) >= letAgain {
			d.holding.let = now
			d.letOneGo()
		}
		return time.Millisecond
	case frames >= holdFrames && now.After(d.holding.next) && d.hasClients():
		d.holding.since, d.holding.back = now, time.Time{}
		d.setHold(true)
		return time.Millisecond
	}
	return 10 * time.Millisecond
}

// between is how long after a try the next may be. Each keeps everybody from writing for two milliseconds, and where others write all the time most
// fail: trying every millisecond took half of the throughput. While transactions wait nothing is lost by it.
func (d *database) between(held bool) time.Duration {
	if held {
		return time.Millisecond
	}
	return max(d.holding.pause, time.Millisecond)
}

// holdBack returns the waiter that is answered last, some milliseconds after the others, while transactions wait. Each connection copies
// the WAL when its commit returns, as far as no reader needs it. Of twenty that return at once each blocks the others, and the rest is
// never copied.
func (d *database) holdBack(now time.Time) (last *waiter) {
	if d.holding.since.IsZero() {
		d.holding.back = time.Time{}
		return nil
	}
	for _, w := range d.waiters {
		if !d.ready(w) {
			return nil
		}
		if w.conn != nil {
			last = w
		}
	}
	if last == nil {
		return nil
	}
	if d.holding.back.IsZero() {
		d.holding.back = now
	}
	if now.Sub(d.holding.back) > holdBackFor {
		return nil
	}
	return last
}

// giveWay releases the mark for another program's checkpoint, once it clearly waits for it and everything is captured. No program can
// commit meanwhile, and the index counts later commits. Otherwise all would wait until that program's busy handler gives up.
func (d *database) giveWay(now time.Time) time.Duration {
	if d.blocking.IsZero() {
		d.blocking = now
	}
	if now.Sub(d.blocking) < giveWayAfter || d.streams > 0 || d.view || !d.room() {
		return giveWayAfter / 2
	}
	g, err := d.files.Capture()
	if g != nil {
		d.ship(g)
		d.changed, d.taken = now, now
	}
	if err != nil || !d.files.Blocks() {
		return giveWayAfter / 2
	}
	d.blocking = time.Time{}
	if d.files.Wanted() {
		d.seen = d.agent.cfg.Files.LookAt(d.target.Path)
		d.files.Close()
		return d.agent.cfg.Interval
	}
	if err := d.files.Loose(); err != nil {
		d.trouble(err)
	}
	d.taken = now.Add(giveWayAfter - d.agent.cfg.Interval) // the next capture holds a mark again
	return giveWayAfter
}

// release lets transactions begin, and not wait again before next.
func (d *database) release(next time.Time) {
	if !d.holding.since.IsZero() {
		d.holding.since, d.holding.next = time.Time{}, next
		d.setHold(false)
	}
}

// letOneGo releases one connection while the others wait on. Its commit copies the frames that were left when the last of the others ended,
// each blocking the next; no other connection will copy them. The agent does not know which connection waits to write, so it picks any.
func (d *database) letOneGo() {
	d.mu.Lock()
	s := d.state()
	if len(d.clients) == 0 {
		d.mu.Unlock()
		return
	}
	one := d.clients[d.agent.cfg.Random()%uint64(len(d.clients))]
	d.mu.Unlock()
	s.Hold = false
	d.inform(one, s)
	s.Hold = true // for the one after it
	d.inform(one, s)
}

func (d *database) hasClients() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.clients) > 0
}

func (d *database) somebodyWaits() bool { return len(d.waiters) > 0 }
