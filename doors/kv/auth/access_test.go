package auth

import (
	"testing"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// accessOfAlice is that of a user who may read and write the keys that begin with a/.
func accessOfAlice(t testing.TB) *Access {
	m := mident.New()
	rig := machinetest.Open(t, store.NewMem(), m)
	for _, p := range []eident.Part{
		{UserAdd: &eident.UserAdd{Name: "root", NoPassword: true}}, {RoleAdd: &eident.RoleAdd{Name: "root"}}, {UserGrant: &eident.UserGrant{Name: "root", Role: "root"}},
		{UserAdd: &eident.UserAdd{Name: "alice", NoPassword: true}}, {RoleAdd: &eident.RoleAdd{Name: "a"}}, {UserGrant: &eident.UserGrant{Name: "alice", Role: "a"}},
		{RoleGrant: &eident.RoleGrant{Name: "a", Permission: eident.Permission{Access: eident.ReadWrite, Key: []byte("a/"), End: []byte("a0")}}},
		{Enable: &eident.Enable{}},
	} {
		part := Part(&p)
		rig.Must(part.Machine, part.Body)
	}
	return Of(m.State(), "alice", m.State().Revision)
}

var putOfAlice = kvpart.Part{Put: &kvpart.Put{Key: []byte("a/k"), Value: []byte("v")}}

// lockOfAlice is a Txn as that of a lock: a compare, a put with a lease, and a read.
var lockOfAlice = kvpart.Part{Txn: &kvpart.Txn{
	Compare: []kvpart.Compare{{Key: []byte("a/k"), Target: kvpart.CompareCreate}},
	Then:    []kvpart.Op{{Put: &kvpart.Put{Key: []byte("a/k"), Lease: 7}}},
	Else:    []kvpart.Op{{Range: &kvpart.Range{Key: []byte("a/k")}}},
}}

// TestAPartIsJudgedAgainByWhatItWas: what is added for one catalogue must not be there when the part is judged by the next.
func TestAPartIsJudgedAgainByWhatItWas(t *testing.T) {
	body := kvpart.Append(nil, &lockOfAlice)
	parts, err := accessOfAlice(t).Permitted(&lockOfAlice, body)
	if err != nil || len(parts) != 2 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	if part, err := kvpart.Decode(parts[1].Body); err != nil || part.Within == nil {
		t.Errorf("the command does not say which keys of the lease alice may write: %+v, %v", part, err)
	}
	if lockOfAlice.Within != nil {
		t.Error("the part itself says which keys alice may write")
	}
}

func BenchmarkPermitted(b *testing.B) {
	a := accessOfAlice(b)
	for name, part := range map[string]*kvpart.Part{"put": &putOfAlice, "lock": &lockOfAlice} {
		body := kvpart.Append(nil, part)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := a.Permitted(part, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
