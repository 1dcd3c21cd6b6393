package sql

import (
	"testing"

	"github.com/holdfastdb/holdfast/doors/sql/typetest"
	"github.com/holdfastdb/holdfast/internal/golden"
)

// TestTypesBesideMariaDB plays the values of every type and compares the answers with those recorded of MariaDB. Answers that are others have a
// reason in typetest/testdata/differences.txt. After -rewrite new ones stand there without one, and this test fails until they have it.
func TestTypesBesideMariaDB(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now, err := typetest.Play(typetest.Recorded, typetest.Server{Addr: r.addr, User: "root"})
	if err != nil {
		t.Fatal(err)
	}
	list, bad := typetest.Compare(typetest.Recorded, now, typetest.Differences)
	for _, b := range bad {
		t.Error(b)
	}
	golden.Check(t, "typetest/testdata/differences.txt", list)
}
