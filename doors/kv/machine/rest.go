package machine

// Rest implements machine.Rester. The dropped data is read from the store again when asked for. It is the newest versions of keys, the hot
// rows, the gathered changes, and recent events that every current watcher has had. A watcher that comes back with an older revision is
// served from history.
func (m *Machine) Rest() {
	m.renewHot()
	m.cache.reset(int(m.cacheMost.Load()))
	m.cacheHeld.Store(0)
	m.feed.reset(m.pub.rev, int(m.recentMost.Load()))
	m.lists.reset()
	m.entry, m.events, m.births = entryWrites{}, nil, nil
}
