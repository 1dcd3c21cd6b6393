package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/golden"
)

const mib = 1 << 20

// setsOfDoors returns every set of the doors, by name: "" is that of a server where all are off.
func setsOfDoors() (sets [][]string) {
	for bits := range 1 << len(all) {
		set := []string{}
		for i, name := range all.Names() {
			if bits&(1<<i) != 0 {
				set = append(set, name)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

func claimsOf(set []string) []budget.Claim {
	return append(all.Claims(func(door string) bool { return slices.Contains(set, door) }), archiveClaim)
}

// TestSharesFit: the holders together fit into Go's limit, at every size that is accepted, with any doors on.
func TestSharesFit(t *testing.T) {
	for _, set := range setsOfDoors() {
		claims := claimsOf(set)
		least := budget.Least(claims...)
		if _, err := budget.For(least-mib, claims...); err == nil {
			t.Errorf("%v: %d MiB are accepted", set, least/mib-1)
		}
		for total := least; total <= 64<<30; total += total / 50 {
			s, err := budget.For(total, claims...)
			if err != nil {
				t.Fatalf("%v: %d MiB: %v", set, total/mib, err)
			}
			if s.GoLimit+32*mib >= total { // the program's own pages
				t.Errorf("%v, %d MiB: Go may have %d", set, total/mib, s.GoLimit/mib)
			}
			if bar := s.GoLimit; s.Held() > bar {
				t.Errorf("%v, %d MiB: %d MiB held, bar %d", set, total/mib, s.Held()/mib, bar/mib)
			}
			if s.Cache < 3*s.Memtable {
				t.Errorf("%v, %d MiB: three memtables of %d MiB do not fit into %d", set, total/mib, s.Memtable/mib, s.Cache/mib)
			}
		}
	}
}

// TestADoorThatIsOffGivesItsShareBack: the others have more without it, and it has what its machines need on a member that only follows.
func TestADoorThatIsOffGivesItsShareBack(t *testing.T) {
	everything, alone := budget.Of(256*mib, claimsOf(all.Names())...), budget.Of(256*mib, claimsOf([]string{"tlog"})...)
	if alone.Of("keys") != 2*mib || alone.Of("calls") != 0 || alone.Of("answers") != 0 || alone.Cache <= everything.Cache || alone.Of("logs") <= everything.Of("logs") {
		t.Errorf("with kv %+v, without %+v", everything, alone)
	}
	if budget.Least(claimsOf([]string{"tlog"})...) >= budget.Least(claimsOf(all.Names())...) {
		t.Error("a server without kv needs as much as one with it")
	}
}

// TestClaimsHaveNamesOfTheirOwn: two claims of one name would share what each needs.
func TestClaimsHaveNamesOfTheirOwn(t *testing.T) {
	const core = "cache log uncommitted flight idents"
	seen := map[string]bool{}
	for _, name := range strings.Fields(core) {
		seen[name] = true
	}
	for _, c := range claimsOf(all.Names()) {
		if seen[c.Name] {
			t.Errorf("two claims are called %s", c.Name)
		}
		seen[c.Name] = true
	}
}

// TestShares shows the bytes that each claim gets of two totals, for every set of doors. A change of one claim changes the shares of all.
func TestShares(t *testing.T) {
	var b strings.Builder
	for _, total := range []int64{256 * mib, 2048 * mib} {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(table, "%d MiB\t", total/mib)
		var shares []budget.Shares
		for _, set := range setsOfDoors() {
			fmt.Fprintf(table, "%s\t", strings.Join(set, "+"))
			shares = append(shares, budget.Of(total, claimsOf(set)...))
		}
		names := strings.Fields("cache log uncommitted flight idents")
		for _, c := range claimsOf(all.Names()) {
			names = append(names, c.Name)
		}
		for _, name := range names {
			fmt.Fprintf(table, "\n%s\t", name)
			for _, s := range shares {
				fmt.Fprintf(table, "%d\t", s.Of(name))
			}
		}
		fmt.Fprintln(table)
		table.Flush()
		b.WriteByte('\n')
	}
	golden.Check(t, "testdata/shares.txt", b.String())
}
