package main

import (
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// roster is which members clients know: an operator tells clients of a member once it is ready, and takes it off before it is removed. Its methods may be
// called from any goroutine.
type roster struct {
	mu      sync.Mutex
	names   []string                    // guarded by mu
	clients map[string]*clientv3.Client // guarded by mu
	sagas   map[string]string           // guarded by mu: where each takes transactions
}

func newRoster() *roster {
	return &roster{clients: map[string]*clientv3.Client{}, sagas: map[string]string{}}
}

// enter tells clients of a member.
func (r *roster) enter(m *member, c *clientv3.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.names, m.Name) {
		r.names = append(r.names, m.Name)
	}
	r.clients[m.Name] = c
	r.sagas[m.Name] = m.Addr("saga")
}

// leave has clients ask other members from now on. The last one stays: clients need one.
func (r *roster) leave(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, name := range r.names {
		if name == m.Name && len(r.names) > 1 {
			r.names = append(r.names[:i:i], r.names[i+1:]...)
			break
		}
	}
}

// pick is the member whose turn it is, and its client.
func (r *roster) pick(turn int) (string, *clientv3.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := r.names[turn%len(r.names)]
	return name, r.clients[name]
}

// pickSaga is the same for transactions.
func (r *roster) pickSaga(turn int) (member, addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := r.names[turn%len(r.names)]
	return name, r.sagas[name]
}
