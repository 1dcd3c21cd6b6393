package sim

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/machine"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
)

// userBook is everything about users in one run: the admins that change them, every catalogue that a member showed, and the checks of both.
// While authentication is on, clients and owners of leases send passes, as a door does for them.
type userBook struct {
	w      *World
	on     bool
	r      *rand.Rand
	admins []*admin
	all    []*subject
	seen   map[uint64]catalogueSeen // each revision as first shown

	// floor is the catalogue's revision when the last change was acknowledged. required is set while authentication is
	// certainly on: an Enable was acknowledged, and no Disable asked for since can still take effect.
	floor     uint64
	required  bool
	disables  int // how often a Disable was asked for
	disabling int // and not answered
}

type catalogueSeen struct {
	text string
	by   *host
}

// subject is a user or a role. Its name is used once, so that at the end of the run what was acknowledged decides whether it
// must exist.
type subject struct {
	name           string
	user           bool
	added, deleted bool                      // acknowledged
	open           int                       // additions and deletions not answered
	changes        int                       // how often something was asked for that ends its tokens
	changing       int                       // and not answered: it may come yet
	tokens         [][eident.TokenBytes]byte // acknowledged, and nothing was asked for since that would end them
}

// admin does one thing to users and roles after the other, as root, through a member of its choice.
type admin struct {
	b        *userBook
	id       int
	count    int
	subjects []*subject
	done     bool
}

const (
	adminCount = 2
	atATime    = 5 // subjects of one admin
)

// Begin implements Workload.
func (b *userBook) Begin(w *World) {
	*b = userBook{w: w, r: rand.New(rand.NewPCG(w.opt.Seed, 5)), seen: map[uint64]catalogueSeen{}}
	// A run with chosen faults has no users unless it asks for them, so that its seeds go on meaning the same.
	if b.on = w.opt.Users || w.opt.Faults == nil && b.r.IntN(2) == 0; !b.on {
		return
	}
	for i := range adminCount {
		a := &admin{b: b, id: i}
		b.admins = append(b.admins, a)
		w.after(Between(b.r, 0, 500*time.Millisecond), a.next)
	}
}

// End implements Workload.
func (b *userBook) End() {
	for _, a := range b.admins {
		a.done = true
	}
}

// next asks for one change, and for another once it is answered or the admin has given up on it.
func (a *admin) next() {
	w, r := a.b.w, a.b.r
	if a.done {
		return
	}
	h := w.hosts[r.IntN(len(w.hosts))]
	if h.n == nil {
		w.after(Between(r, time.Millisecond, 30*time.Millisecond), a.next)
		return
	}
	a.count++
	part, answered := a.choose(h)
	part.Actor = eident.Root
	moved := false
	move := func() {
		if !moved {
			moved = true
			w.after(Around(r, 60*time.Millisecond), a.next)
		}
	}
	w.after(Between(r, 2*time.Second, 5*time.Second), move)
	w.trace.add(w.now, "a%d → %s %s", a.id, h.name, part)
	h.syncClock()
	err := h.n.ProposeAsync(node.LaneSystem, 0, []entry.Part{{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, part)}},
		func(res *entry.Result, err error) {
			if err == nil {
				w.trace.add(w.now, "a%d ← %s %s@%d %s: %v", a.id, h.name, res.Pos, res.Term, part, res.Rejection)
				if res.Rejection == nil {
					w.rep.Changes++
					a.b.floor = max(a.b.floor, h.n.Ident().State().Revision)
				}
				answered(res.Rejection == nil)
			}
			move()
		})
	if err != nil {
		move()
		return
	}
	h.pumpSoon()
}

// choose draws what to do. answered is called if an answer comes, with whether the change was accepted.
func (a *admin) choose(h *host) (part *eident.Part, answered func(accepted bool)) {
	b, r := a.b, a.b.r
	nothing := func(bool) {}
	if a.id == 0 {
		switch { // authentication cannot be enabled without a user root
		case a.count == 1:
			return &eident.Part{UserAdd: &eident.UserAdd{Name: eident.Root, Verifiers: verifiers(0)}}, nothing
		case a.count == 2:
			return &eident.Part{UserGrant: &eident.UserGrant{Name: eident.Root, Role: eident.Root}}, nothing
		case !b.required && r.IntN(3) == 0:
			asked, clear := b.disables, b.disabling == 0
			return &eident.Part{Enable: &eident.Enable{}}, func(ok bool) { b.required = ok && clear && b.disables == asked }
		case b.required && r.IntN(40) == 0:
			b.required = false
			b.disables++
			b.disabling++
			for _, s := range b.all {
				s.tokens = nil
			}
			return &eident.Part{Disable: &eident.Disable{}}, func(bool) { b.disabling-- }
		}
	}
	s := a.subject()
	switch k := r.IntN(12); {
	case !s.added && s.open == 0:
		s.open++
		answered = func(ok bool) { s.open, s.added = s.open-1, ok }
		if s.user {
			return &eident.Part{UserAdd: &eident.UserAdd{Name: s.name, Verifiers: verifiers(a.count)}}, answered
		}
		return &eident.Part{RoleAdd: &eident.RoleAdd{Name: s.name}}, answered
	case k == 0:
		s.open++
		answered = func(ok bool) { s.open, s.deleted = s.open-1, ok }
		a.subjects = slices.DeleteFunc(a.subjects, func(o *subject) bool { return o == s })
		if s.user {
			s.changes, s.tokens = s.changes+1, nil
			return &eident.Part{UserDelete: &eident.UserDelete{Name: s.name}}, answered
		}
		return &eident.Part{RoleDelete: &eident.RoleDelete{Name: s.name}}, answered
	case s.user && k == 1:
		s.changes, s.tokens = s.changes+1, nil
		s.changing++
		return &eident.Part{UserPassword: &eident.UserPassword{Name: s.name, Verifiers: verifiers(a.count)}}, func(bool) { s.changing-- }
	case s.user && k < 5:
		if u := h.n.Ident().State().User(s.name); u != nil {
			token := sha256.Sum256(fmt.Appendf(nil, "%d.%d", a.id, a.count))
			certain, asked, changed := b.required && s.changing == 0, b.disables, s.changes
			return &eident.Part{TokenIssue: &eident.TokenIssue{User: s.name, Generation: u.Generation, Token: token, TTLMs: 3_600_000}}, func(ok bool) {
				if ok && certain && b.disables == asked && s.changes == changed {
					s.tokens = append(s.tokens, token)
				}
			}
		}
	case k < 6 && len(s.tokens) > 0:
		return &eident.Part{TokenTouch: &eident.TokenTouch{Token: s.tokens[r.IntN(len(s.tokens))]}}, nothing
	}
	other := a.subject()
	switch {
	case s.user && r.IntN(3) == 0:
		return &eident.Part{UserRevoke: &eident.UserRevoke{Name: s.name, Role: other.name}}, nothing
	case s.user:
		return &eident.Part{UserGrant: &eident.UserGrant{Name: s.name, Role: other.name}}, nothing
	case r.IntN(3) == 0:
		return &eident.Part{RoleRevoke: &eident.RoleRevoke{Name: s.name, Key: []byte("k1"), End: []byte("k4")}}, nothing
	}
	return &eident.Part{RoleGrant: &eident.RoleGrant{Name: s.name,
		Permission: eident.Permission{Access: eident.Access(r.IntN(3)), Key: []byte("k1"), End: []byte("k4")}}}, nothing
}

// subject draws one of the admin's, or a new one while there are few.
func (a *admin) subject() *subject {
	if len(a.subjects) < atATime && a.b.r.IntN(2) == 0 || len(a.subjects) == 0 {
		s := &subject{name: fmt.Sprintf("s%d.%d", a.id, len(a.b.all)), user: a.b.r.IntN(3) > 0}
		a.subjects, a.b.all = append(a.subjects, s), append(a.b.all, s)
		return s
	}
	return a.subjects[a.b.r.IntN(len(a.subjects))]
}

func verifiers(n int) []eident.Verifier {
	return []eident.Verifier{{Scheme: eident.Bcrypt, Data: fmt.Appendf(nil, "hash %d", n)}}
}

// permit is the permission under which a member admitted a write, and the certain facts at that moment.
type permit struct {
	asked    bool // the member knew that authentication is on
	revision uint64

	floor    uint64
	required bool
	disables int
}

// permit judges a write as this member's door would, and returns the command.
func (h *host) permit(part entry.Part) ([]entry.Part, permit) {
	b, st := &h.w.users, h.n.Ident().State()
	p := permit{asked: st.Enabled, revision: st.Revision, floor: b.floor, required: b.required, disables: b.disables}
	if !p.asked {
		return []entry.Part{part}, p
	}
	pass := eident.AppendPart(nil, &eident.Part{Pass: &eident.Pass{Revision: p.revision}})
	return []entry.Part{{Machine: entry.MachineIdent, Body: pass}, part}, p
}

// outdated reports whether a write was refused because the catalogue has changed since it was judged; a door then judges it
// again.
func (b *userBook) outdated(r *entry.Rejection) bool {
	if !eident.Outdated(r) {
		return false
	}
	b.w.rep.Outdated++
	return true
}

// accepted checks that an acknowledged write was admitted by a catalogue no older than the last one acknowledged before its request.
func (b *userBook) accepted(what fmt.Stringer, h *host, p permit) {
	if !p.required || b.disables != p.disables {
		return
	}
	b.w.rep.Passes++
	if !p.asked || p.revision < p.floor {
		b.w.fail(LetThrough, "%s through %s, which judged it at revision %d (users are asked for: %v), although revision %d was acknowledged before",
			what, h.name, p.revision, p.asked, p.floor)
	}
}

// catalogue is a State as text, without whether authentication is on, which does not change its revision.
func catalogue(s *mident.State) string {
	text := fmt.Sprintf("revision %d", s.Revision)
	for _, name := range s.Users() {
		u := s.User(name)
		text += fmt.Sprintf("; user %s %v %q %v since %d", name, u.NoPassword, u.Verifiers, u.Roles, u.Generation)
	}
	for _, name := range s.Roles() {
		text += fmt.Sprintf("; role %s %q", name, s.Role(name).Permissions)
	}
	return text
}

// Turn compares a member's catalogue after a turn of its loop with the others' at that revision. It implements Workload.
func (b *userBook) Turn(h *Member, changed bool) {
	if !changed {
		return
	}
	st := h.n.Ident().State()
	if !b.on || st == h.catalogue {
		return
	}
	if was := h.catalogue; was != nil && was.Revision > st.Revision {
		b.w.fail(Diverged, "%s goes from revision %d of the catalogue back to %d", h.name, was.Revision, st.Revision)
	}
	h.catalogue = st
	text := catalogue(st)
	if seen, ok := b.seen[st.Revision]; !ok {
		b.seen[st.Revision] = catalogueSeen{text, h}
	} else if seen.text != text {
		b.w.fail(Diverged, "%s has the catalogue %s, and %s had %s", h.name, text, seen.by.name, seen.text)
	}
}

// check judges the end of a run: what was acknowledged is there, on every member, and would be after a restart.
// Settled implements Workload.
func (b *userBook) Settled(*Member) string { return "" }

// Check implements Workload.
func (b *userBook) Check(members []*Member) {
	if !b.on {
		return
	}
	state := ""
	for i, h := range members {
		loaded := mident.New()
		if err := loaded.Load(h.mem, new(machine.Gate)); err != nil {
			b.w.fail(Stopped, "%s load users: %v", h.name, err)
		}
		for _, m := range []*mident.Machine{h.n.Ident(), loaded} {
			text := b.dump(m)
			if i == 0 && m == h.n.Ident() {
				state = text
			}
			if text != state {
				b.w.fail(Diverged, "at rest %s knows %s (loaded from its store: %v) and %s knows %s", h.name, text, m == loaded, members[0].name, state)
			}
		}
	}
	m := members[0].n.Ident()
	if b.required && !m.State().Enabled {
		b.w.fail(LostWrite, "authentication was enabled, and is off in the end")
	}
	for _, s := range b.all {
		there := m.State().Role(s.name) != nil
		if s.user {
			there = m.State().User(s.name) != nil
		}
		if s.open == 0 && there != (s.added && !s.deleted) {
			b.w.fail(LostWrite, "%s was added: %v, deleted: %v, and is there in the end: %v", s.name, s.added, s.deleted, there)
		}
		for _, token := range s.tokens {
			b.w.rep.Tokens++
			if tok, ok := m.Token(token); !ok || tok.User != s.name {
				b.w.fail(LostWrite, "a token of %s was acknowledged, and is not there in the end", s.name)
			}
		}
	}
}

// dump is everything a machine knows, as text, with only those tokens that were acknowledged.
func (b *userBook) dump(m *mident.Machine) string {
	text := fmt.Sprintf("on %v, %s", m.State().Enabled, catalogue(m.State()))
	for _, s := range b.all {
		for _, token := range s.tokens {
			if tok, ok := m.Token(token); ok {
				text += fmt.Sprintf("; token %x of %s until %d", token[:4], tok.User, tok.DeadlineMs)
			}
		}
	}
	return text
}
