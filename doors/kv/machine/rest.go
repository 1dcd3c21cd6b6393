package machine

// Rest implements machine.Rester. What goes is read from the store again when it is asked for: the newest versions of keys, the rows that readers ask
// for most, what reads in the past have gathered, and recent events, which every watcher that is not behind has had. A watcher that comes
// back with an older revision is served from history.
func (m *Machine) Rest() {
	m.renewHot()
	m.cache.reset(int(m.cacheMost.Load()))
	m.cacheHeld.Store(0)
	m.feed.reset(m.pub.rev, int(m.recentMost.Load()))
	m.lists.reset()
	m.entry, m.events, m.births = entryWrites{}, nil, nil
}
