package ident

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// rig drives one machine, beside two that take everything.
type rig struct {
	*machinetest.Rig
	m *Machine
}

func newRig(t testing.TB) *rig { return openRig(t, store.NewMem()) }

func openRig(t testing.TB, st store.Store) *rig {
	t.Helper()
	m := New()
	return &rig{machinetest.Open(t, st, m, dummy(entry.MachineKV), dummy(entry.MachineEtcd2)), m}
}

// dummy stands for a machine with data: it takes every part.
type dummy entry.Machine

func (d dummy) Spec() *machine.Spec {
	from := map[entry.Machine]func([]byte) bool{entry.MachineKV: kvpart.FromClient, entry.MachineEtcd2: v2part.FromClient}
	return &machine.Spec{ID: entry.Machine(d), Name: "dummy", FromClient: from[entry.Machine(d)]}
}
func (dummy) Load(store.Store, *machine.Gate) error                     { return nil }
func (dummy) Check(*entry.Stamp, []byte) (any, *entry.Rejection, error) { return nil, nil, nil }
func (dummy) Do(*entry.Stamp, any, store.Batch, bool) (any, error)      { return nil, nil }
func (dummy) Readable([]byte) error                                     { return nil }
func (dummy) Publish(*entry.Stamp)                                      {}

// commands applies one entry of whole commands and returns what each was answered, 0 for accepted.
func (r *rig) commands(all ...[]entry.Part) (codes []entry.Code) {
	r.T.Helper()
	for _, res := range r.Apply(all...) {
		if res.Rejection != nil {
			codes = append(codes, res.Rejection.Code)
		} else {
			codes = append(codes, 0)
		}
	}
	return codes
}

func identPart(p eident.Part) entry.Part {
	return entry.Part{Machine: entry.MachineIdent, Body: eident.AppendPart(nil, &p)}
}

// apply applies one entry with one command per part.
func (r *rig) apply(parts ...eident.Part) []entry.Code {
	r.T.Helper()
	var all [][]entry.Part
	for _, p := range parts {
		all = append(all, []entry.Part{identPart(p)})
	}
	return r.commands(all...)
}

// as lets a user administer, one command per entry, and returns the first refusal.
func (r *rig) as(actor string, parts ...eident.Part) entry.Code {
	r.T.Helper()
	for _, p := range parts {
		p.Actor = actor
		if c := r.apply(p)[0]; c != 0 {
			return c
		}
	}
	return 0
}

func (r *rig) must(parts ...eident.Part) {
	r.T.Helper()
	if c := r.as(eident.Root, parts...); c != 0 {
		r.T.Fatalf("refused with code %d", c)
	}
}

func hash(s string) []eident.Verifier {
	return []eident.Verifier{{Scheme: eident.Bcrypt, Data: []byte("hash of " + s)}}
}

func addUser(name string) eident.Part {
	return eident.Part{UserAdd: &eident.UserAdd{Name: name, Verifiers: hash(name)}}
}
func grantRole(name, role string) eident.Part {
	return eident.Part{UserGrant: &eident.UserGrant{Name: name, Role: role}}
}
func addRole(name string) eident.Part { return eident.Part{RoleAdd: &eident.RoleAdd{Name: name}} }
func open(role string, a eident.Access, key, end string) eident.Part {
	return eident.Part{RoleGrant: &eident.RoleGrant{Name: role, Permission: eident.Permission{Access: a, Key: []byte(key), End: []byte(end)}}}
}

var (
	enable  = eident.Part{Enable: &eident.Enable{}}
	disable = eident.Part{Disable: &eident.Disable{}}
)

// enabled is a machine with root, and alice who may write a and read all of b to c.
func enabled(t testing.TB) *rig {
	r := newRig(t)
	r.must(addUser(eident.Root), grantRole(eident.Root, eident.Root), addUser("alice"), addRole("r"), open("r", eident.Write, "a", ""),
		open("r", eident.Read, "b", "c"), grantRole("alice", "r"), enable)
	return r
}

// catalogue prints a State, its size included.
func catalogue(s *State) string {
	b := fmt.Sprintf("enabled %v revision %d bytes %d\n", s.Enabled, s.Revision, s.bytes)
	for _, u := range s.Users() {
		b += fmt.Sprintf("user %s %x\n", u, appendUser(nil, s.User(u)))
	}
	for _, r := range s.Roles() {
		b += fmt.Sprintf("role %s %x\n", r, appendRole(nil, s.Role(r)))
	}
	return b
}

// A restart finds the same catalogue, down to its size, which decides whether more goes in.
func TestReloadFindsTheSame(t *testing.T) {
	r := enabled(t)
	r.must(eident.Part{UserPassword: &eident.UserPassword{Name: "alice", Verifiers: hash("new")}}, addRole("gone"), grantRole("alice", "gone"),
		eident.Part{RoleDelete: &eident.RoleDelete{Name: "gone"}}, eident.Part{UserRevoke: &eident.UserRevoke{Name: "alice", Role: "r"}})
	before := r.m.State()
	r.apply(eident.Part{TokenIssue: &eident.TokenIssue{User: "alice", Generation: before.User("alice").Generation, Token: token(1), TTLMs: 1000}})
	after := openRig(t, r.Store).m
	if got, had := catalogue(after.State()), catalogue(before); got != had {
		t.Fatalf("loaded\n%shad\n%s", got, had)
	}
	if tok, ok := after.Token(token(1)); !ok || tok.User != "alice" || tok.DeadlineMs != 1000 {
		t.Fatalf("token %+v", tok)
	}
}

func TestRevisionCountsChanges(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		part eident.Part
		want uint64
	}{
		{addUser("root"), 2}, {addUser("root"), 2 /* refused */}, {grantRole("root", "root"), 3}, {grantRole("root", "root"), 3 /* has it */},
		{enable, 3 /* no change of the catalogue */}, {enable, 3}, {addRole("r"), 4}, {open("r", eident.Read, "a", ""), 5},
		{open("r", eident.Read, "b", "a"), 5 /* no range */}, {disable, 6}, {disable, 6},
	} {
		r.as(eident.Root, c.part)
		if got := r.m.State().Revision; got != c.want {
			t.Fatalf("after %s: revision %d, want %d", &c.part, got, c.want)
		}
	}
}

// The rules by which etcd manages users and roles.
func TestManagement(t *testing.T) {
	r := newRig(t)
	steps := []struct {
		part eident.Part
		want entry.Code
	}{
		{enable, eident.RootUserMissing},
		{addUser(""), eident.UserEmpty},
		{addUser("root"), 0},
		{addUser("root"), eident.UserExists},
		{enable, eident.RootRoleMissing},
		{grantRole("nobody", "root"), eident.UserNotFound},
		{grantRole("root", "nothing"), eident.RoleNotFound},
		{grantRole("root", "root"), 0}, // the role needs no row
		{addRole(""), eident.RoleEmpty},
		{addRole("r"), 0},
		{addRole("r"), eident.RoleExists},
		{open("nothing", eident.Read, "a", ""), eident.RoleNotFound},
		{open("r", eident.Read, "", ""), eident.ManagementRefused},
		{open("r", eident.Read, "b", "b"), eident.ManagementRefused},
		{open("r", eident.Read, "b", "\x00"), 0},
		{eident.Part{RoleRevoke: &eident.RoleRevoke{Name: "r", Key: []byte("b")}}, eident.PermissionNotGranted},
		{eident.Part{RoleRevoke: &eident.RoleRevoke{Name: "x", Key: []byte("b")}}, eident.RoleNotFound},
		{eident.Part{RoleRevoke: &eident.RoleRevoke{Name: "r", Key: []byte("b"), End: []byte{0}}}, 0},
		{addUser("alice"), 0},
		{eident.Part{UserRevoke: &eident.UserRevoke{Name: "alice", Role: "r"}}, eident.RoleNotGranted},
		{eident.Part{UserPassword: &eident.UserPassword{Name: "bob"}}, eident.UserNotFound},
		{eident.Part{UserDelete: &eident.UserDelete{Name: "bob"}}, eident.UserNotFound},
		{eident.Part{RoleDelete: &eident.RoleDelete{Name: "bob"}}, eident.RoleNotFound},
		{enable, 0},
		{eident.Part{UserDelete: &eident.UserDelete{Name: "root"}}, eident.ManagementRefused},
		{eident.Part{RoleDelete: &eident.RoleDelete{Name: "root"}}, eident.ManagementRefused},
		{eident.Part{UserRevoke: &eident.UserRevoke{Name: "root", Role: "root"}}, eident.ManagementRefused},
	}
	for _, s := range steps {
		if got := r.as(eident.Root, s.part); got != s.want {
			t.Errorf("%s: code %d, want %d", &s.part, got, s.want)
		}
	}
	for _, c := range []struct {
		actor string
		want  entry.Code
	}{{"", eident.UserEmpty}, {"nobody", eident.UserNotFound}, {"alice", eident.Denied}, {"root", 0}} {
		if got := r.as(c.actor, disable, enable); c.actor != "root" && got != c.want || c.actor == "root" && got != 0 {
			t.Errorf("administration by %q: code %d, want %d", c.actor, got, c.want)
		}
	}
}

// The point of the machine: a write that was found permitted before a change is refused after it. A member that has not heard of the switch
// lets no client through.
func TestNoWriteUnderAnOldCatalogue(t *testing.T) {
	r := enabled(t)
	put := entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Put: &kvpart.Put{Key: []byte("a")}})}
	now := r.m.State().Revision
	pass := func(rev uint64) entry.Part { return identPart(eident.Part{Pass: &eident.Pass{Revision: rev}}) }
	revoke := []entry.Part{identPart(eident.Part{Actor: eident.Root, UserRevoke: &eident.UserRevoke{Name: "alice", Role: "r"}})}
	for _, c := range []struct {
		name string
		in   [][]entry.Part
		want []entry.Code
	}{
		{"a put with a pass", [][]entry.Part{{pass(now), put}}, []entry.Code{0}},
		{"a put without", [][]entry.Part{{put}}, []entry.Code{eident.PassMissing}},
		{"in the entry that takes the permission away", [][]entry.Part{{pass(now), put}, revoke, {pass(now), put}},
			[]entry.Code{0, 0, eident.OldRevision}},
		{"a pass from the future", [][]entry.Part{{pass(now + 2), put}}, []entry.Code{eident.OldRevision}},
		{"after it was switched off", [][]entry.Part{{identPart(eident.Part{Actor: eident.Root, Disable: &eident.Disable{}})}, {pass(now), put}, {put}},
			[]entry.Code{0, 0, 0}},
		{"in the entry that switches it on", [][]entry.Part{{identPart(enable)}, {put}}, []entry.Code{0, eident.PassMissing}},
	} {
		if got := r.commands(c.in...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// The members' own commands need no user's permission.
	for _, p := range []*kvpart.Part{{Revoke: &kvpart.LeaseRevoke{IDs: []int64{1}, Expired: true}}, {Compact: &kvpart.Compact{Revision: 1}}, {Alarm: &kvpart.Alarm{On: true}}} {
		if got := r.commands([]entry.Part{{Machine: entry.MachineKV, Body: kvpart.Append(nil, p)}}); got[0] != 0 {
			t.Errorf("%s: code %d", p, got[0])
		}
	}
	for _, p := range []*kvpart.Part{{Delete: &kvpart.DeleteRange{Key: []byte("a")}}, {Txn: &kvpart.Txn{}}, {Grant: &kvpart.LeaseGrant{ID: 1}},
		{Revoke: &kvpart.LeaseRevoke{IDs: []int64{1}}}, {Within: &kvpart.Within{}, Revoke: &kvpart.LeaseRevoke{IDs: []int64{1}, Expired: true}}} {
		if got := r.commands([]entry.Part{{Machine: entry.MachineKV, Body: kvpart.Append(nil, p)}}); got[0] != eident.PassMissing {
			t.Errorf("%s: code %d", p, got[0])
		}
	}
}

// etcd's v2 keys are guarded like those of v3: one catalogue for all doors.
func TestNoTreeWriteWithoutAPass(t *testing.T) {
	r := enabled(t)
	now := r.m.State().Revision
	for kind := v2part.Set; kind <= v2part.Expire; kind++ {
		part := entry.Part{Machine: entry.MachineEtcd2, Body: v2part.Append(nil, &v2part.Part{Kind: kind, Path: []byte("/a")})}
		pass := func(rev uint64) entry.Part { return identPart(eident.Part{Pass: &eident.Pass{Revision: rev}}) }
		alone := entry.Code(eident.PassMissing)
		if kind == v2part.Expire { // the leader's worker sends it by itself
			alone = 0
		}
		got := r.commands([]entry.Part{part}, []entry.Part{pass(now - 1), part}, []entry.Part{pass(now), part})
		if want := []entry.Code{alone, eident.OldRevision, 0}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s without a pass, with an old one, with a good one: %v, want %v", kind, got, want)
		}
	}
	if got := r.commands([]entry.Part{{Machine: entry.MachineEtcd2}}); got[0] != 0 { // the tree's machine says what is wrong with it
		t.Errorf("an empty part: %v", got)
	}
}

// A published State stays as it is, after any later entry.
func TestStatesDoNotChange(t *testing.T) {
	r := enabled(t)
	old := r.m.State()
	if !old.Permits("alice", eident.Write, []byte("a"), nil) {
		t.Fatal("alice may not write a")
	}
	r.must(open("r", eident.Read, "a", "")) // was write
	now := r.m.State()
	if !old.Permits("alice", eident.Write, []byte("a"), nil) || now.Permits("alice", eident.Write, []byte("a"), nil) ||
		!now.Permits("alice", eident.Read, []byte("a"), nil) {
		t.Fatal("a later entry shows in an earlier state, or not at all")
	}
	r.must(eident.Part{UserDelete: &eident.UserDelete{Name: "alice"}})
	if old.User("alice") == nil || now.User("alice") == nil || r.m.State().User("alice") != nil {
		t.Fatal("a deletion shows in an earlier state, or not at all")
	}
}

func TestFull(t *testing.T) {
	r := newRig(t)
	// 40 long names fit into 41 times their length; growing by one more does not.
	r.m.now.bytes = MaxBytes - 100
	if c := r.as("", addUser(strings.Repeat("x", 200))); c != eident.Full {
		t.Fatalf("code %d", c)
	}
	if c := r.as("", addUser("x")); c != 0 {
		t.Fatalf("code %d", c)
	}
	if c := r.as("", eident.Part{UserDelete: &eident.UserDelete{Name: "x"}}); c != 0 {
		t.Fatalf("code %d", c)
	}
}

// Bytes that no door writes are rejected, and the catalogue is as before; a kind of a later build stops the node.
func TestForeignParts(t *testing.T) {
	r := enabled(t)
	before := r.Dump()
	if got := r.commands([]entry.Part{{Machine: entry.MachineIdent, Body: []byte{4, 0}}}); got[0] != eident.Malformed {
		t.Fatalf("code %d", got[0])
	}
	if b, a := strings.Split(before, "\n"), strings.Split(r.Dump(), "\n"); !reflect.DeepEqual(b[2:], a[2:]) {
		t.Fatalf("changed:\n%s", r.Dump())
	}
	if _, _, err := r.m.Check(&entry.Stamp{}, []byte{200}); err == nil {
		t.Fatal("a kind from the future was not fatal")
	}
}
