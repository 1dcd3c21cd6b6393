package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// history is what a server was filled with.
type history struct {
	changes             int
	revision, compacted int64
	leases              []clientv3.LeaseID
}

// perTxn is how many keys one revision changes: the default limit of operations.
const perTxn = 128

// fill writes keys and changes half of them again, with a compaction on the way. Both compacted and whole history are then there:
// overwritten keys, deleted ones, keys written anew, leases attached and revoked.
func fill(c *clientv3.Client, o *options) (*history, error) {
	rnd := rand.New(rand.NewPCG(o.seed, 1))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	h := &history{}
	for i := range 20 {
		g, err := c.Grant(ctx, int64(3600+i))
		if err != nil {
			return h, err
		}
		h.leases = append(h.leases, g.ID)
	}
	key := func(i int) string { return fmt.Sprintf("/registry/kind%d/%07d\x00%c", i%7, i, 'a'+i%3) }
	value := func() string {
		n := rnd.IntN(200)
		if rnd.IntN(50) == 0 {
			n = rnd.IntN(6000)
		}
		return strings.Repeat(string(rune('a'+rnd.IntN(26))), n)
	}
	commit := func(ops []clientv3.Op) error {
		h.changes += len(ops)
		r, err := c.Txn(ctx).Then(ops...).Commit()
		if err == nil {
			h.revision = r.Header.Revision
		}
		return err
	}
	put := func(i int) clientv3.Op {
		if rnd.IntN(10) == 0 {
			return clientv3.OpPut(key(i), value(), clientv3.WithLease(h.leases[rnd.IntN(len(h.leases))]))
		}
		return clientv3.OpPut(key(i), value())
	}
	for i := 0; i < o.keys; i += perTxn {
		var ops []clientv3.Op
		for j := i; j < min(i+perTxn, o.keys); j++ {
			ops = append(ops, put(j))
		}
		if err := commit(ops); err != nil {
			return h, err
		}
	}
	again := func(n int) error {
		for n > 0 {
			var ops []clientv3.Op
			for _, i := range distinct(rnd, o.keys, min(n, 1+rnd.IntN(perTxn))) {
				if rnd.IntN(5) == 0 {
					ops = append(ops, clientv3.OpDelete(key(i)))
				} else {
					ops = append(ops, put(i))
				}
			}
			n -= len(ops)
			if err := commit(ops); err != nil {
				return err
			}
		}
		return nil
	}
	if err := again(o.keys / 4); err != nil {
		return h, err
	}
	h.compacted = h.revision
	if _, err := c.Compact(ctx, h.compacted); err != nil {
		return h, err
	}
	if err := again(o.keys / 4); err != nil {
		return h, err
	}
	r, err := c.Revoke(ctx, h.leases[0])
	if err != nil {
		return h, err
	}
	h.revision, h.leases = r.Header.Revision, h.leases[1:]
	return h, users(ctx, c)
}

// users leaves authentication off: reading is what is compared next. The file carries it all the same.
func users(ctx context.Context, c *clientv3.Client) error {
	var errs []error
	try := func(_ any, err error) { errs = append(errs, err) }
	try(c.RoleAdd(ctx, "readers"))
	try(c.RoleGrantPermission(ctx, "readers", "/registry/", "/registry0", clientv3.PermissionType(clientv3.PermRead)))
	try(c.RoleGrantPermission(ctx, "readers", "own", "", clientv3.PermissionType(clientv3.PermReadWrite)))
	try(c.UserAdd(ctx, "ann", "secret"))
	try(c.UserAddWithOptions(ctx, "cert", "", &clientv3.UserAddOptions{NoPassword: true}))
	try(c.UserGrantRole(ctx, "ann", "readers"))
	try(c.UserAdd(ctx, "root", "rootsecret"))
	try(c.UserGrantRole(ctx, "root", "root"))
	return errors.Join(errs...)
}

func distinct(rnd *rand.Rand, of, n int) []int {
	seen := map[int]bool{}
	for range n {
		seen[rnd.IntN(of)] = true
	}
	var all []int
	for i := range seen { // any order: sorted below
		all = append(all, i)
	}
	sort.Ints(all)
	return all
}

// goOn makes the same three revisions on a server, revokes a lease that holds keys, and compacts.
func goOn(c *clientv3.Client, h *history) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var errs []error
	try := func(_ any, err error) { errs = append(errs, err) }
	try(c.Put(ctx, "new", "key"))
	try(c.Delete(ctx, "/registry/kind3/", clientv3.WithPrefix(), clientv3.WithPrevKV()))
	try(c.Revoke(ctx, h.leases[0]))
	try(c.Compact(ctx, h.revision-1, clientv3.WithCompactPhysical()))
	return errors.Join(errs...)
}

// same compares all that two servers say.
func same(o *options, h *history, a, b *server) error {
	began := time.Now()
	var at []int64
	if span := h.revision - h.compacted; span <= int64(80*o.samples) {
		for r := h.compacted; r <= h.revision; r++ {
			at = append(at, r)
		}
	} else {
		for i := range int64(o.samples) {
			at = append(at, h.compacted+span*i/int64(o.samples-1))
		}
	}
	keys, pieces := int64(0), intervals(o.keys)
	for _, rev := range at {
		n, err := sameAt(a, b, rev, pieces)
		if err != nil {
			return fmt.Errorf("%s and %s at revision %d: %w", a.name, b.name, rev, err)
		}
		keys += n
	}
	if _, err := read(a, h.compacted-1, "\x00", "\x01"); err == nil {
		return fmt.Errorf("%s reads at %d, which is compacted", a.name, h.compacted-1)
	}
	events, err := sameWatch(a, b, h)
	if err != nil {
		return fmt.Errorf("watches of %s and %s: %w", a.name, b.name, err)
	}
	if err := sameRest(a, b); err != nil {
		return fmt.Errorf("%s and %s: %w", a.name, b.name, err)
	}
	fmt.Printf("%s and %s: the same %d keys at %d revisions, %d events, leases, users, in %.0f s\n",
		a.name, b.name, keys, len(at), events, time.Since(began).Seconds())
	return nil
}

func read(s *server, rev int64, from, to string) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.c.Get(ctx, from, clientv3.WithRange(to), clientv3.WithRev(rev))
}

// intervals cut all keys there can be into pieces of some thousand keys. A limit would do too, but then the server counts all
// keys behind each piece again.
func intervals(keys int) []string {
	at := []string{"\x00"}
	for kind := range 7 {
		for block := range keys/10_000 + 1 {
			at = append(at, fmt.Sprintf("/registry/kind%d/%03d", kind, block))
		}
	}
	return append(at, "/registry0", "\x00") // the last one is the end of everything
}

// sameAt reads both sides at one revision, piece by piece.
func sameAt(a, b *server, rev int64, at []string) (n int64, err error) {
	for i := range at[1:] {
		ra, err := read(a, rev, at[i], at[i+1])
		if err != nil {
			return n, err
		}
		rb, err := read(b, rev, at[i], at[i+1])
		if err != nil {
			return n, err
		}
		if len(ra.Kvs) != len(rb.Kvs) || ra.Count != rb.Count || ra.Header.Revision != rb.Header.Revision {
			return n, fmt.Errorf("from %q: %d of %d keys at %d, and %d of %d at %d", at[i], len(ra.Kvs), ra.Count, ra.Header.Revision,
				len(rb.Kvs), rb.Count, rb.Header.Revision)
		}
		for i, x := range ra.Kvs {
			y := rb.Kvs[i]
			if !bytes.Equal(x.Key, y.Key) || !bytes.Equal(x.Value, y.Value) || x.CreateRevision != y.CreateRevision ||
				x.ModRevision != y.ModRevision || x.Version != y.Version || x.Lease != y.Lease {
				return n, fmt.Errorf("%.300s is not %.300s", x, y)
			}
		}
		n += int64(len(ra.Kvs))
	}
	return n, nil
}

// sameWatch compares every event after the compacted revision, in order: deletions and the order within a revision show there.
func sameWatch(a, b *server, h *history) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	wa, wb := &events{rev: h.revision}, &events{rev: h.revision}
	for s, w := range map[*server]*events{a: wa, b: wb} { // any order: one watch each
		w.c = s.c.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(h.compacted+1), clientv3.WithPrevKV())
	}
	for {
		x, err := wa.next()
		if err != nil {
			return n, err
		}
		y, err := wb.next()
		if err != nil {
			return n, err
		}
		if x == nil && y == nil {
			return n, nil
		}
		if x == nil || y == nil || x.Type != y.Type || x.Kv.String() != y.Kv.String() || x.PrevKv.String() != y.PrevKv.String() {
			return n, fmt.Errorf("event %d: %.300v is not %.300v", n, x, y)
		}
		n++
	}
}

// events is one watch as single events.
type events struct {
	c    clientv3.WatchChan
	rev  int64 // the last revision there is
	all  []*clientv3.Event
	last int64
}

// next is nil behind the last revision.
func (e *events) next() (*clientv3.Event, error) {
	for len(e.all) == 0 {
		if e.last >= e.rev {
			return nil, nil
		}
		r, ok := <-e.c
		if !ok {
			return nil, errors.New("ended")
		}
		if err := r.Err(); err != nil {
			return nil, err
		}
		e.all = r.Events
	}
	ev := e.all[0]
	e.all = e.all[1:]
	e.last = ev.Kv.ModRevision
	return ev, nil
}

// sameRest compares leases, users and roles.
func sameRest(a, b *server) error {
	var text [2]string
	for i, s := range []*server{a, b} {
		t, err := rest(s.c)
		if err != nil {
			return err
		}
		text[i] = t
	}
	if text[0] != text[1] {
		return fmt.Errorf("leases, users or roles differ:\n%.2000s\n%.2000s", text[0], text[1])
	}
	return nil
}

func rest(c *clientv3.Client) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out []string
	leases, err := c.Leases(ctx)
	if err != nil {
		return "", err
	}
	for _, l := range leases.Leases {
		t, err := c.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys())
		if err != nil {
			return "", err
		}
		sort.Slice(t.Keys, func(i, j int) bool { return bytes.Compare(t.Keys[i], t.Keys[j]) < 0 })
		out = append(out, fmt.Sprintf("lease %x %d %q", l.ID, t.GrantedTTL, t.Keys))
	}
	sort.Strings(out)
	users, err := c.UserList(ctx)
	if err != nil {
		return "", err
	}
	for _, u := range users.Users {
		g, err := c.UserGet(ctx, u)
		if err != nil {
			return "", err
		}
		out = append(out, fmt.Sprintf("user %s %v", u, g.Roles))
	}
	roles, err := c.RoleList(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range roles.Roles {
		g, err := c.RoleGet(ctx, r)
		if err != nil {
			return "", err
		}
		out = append(out, fmt.Sprintf("role %s %v", r, g.Perm))
	}
	return strings.Join(out, "\n"), nil
}
