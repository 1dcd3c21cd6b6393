package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// Checksums of states, owners and identities of the table below.
const (
	newest, older, other    = replica.Checksum(1<<63 | 9), replica.Checksum(1<<63 | 5), replica.Checksum(1<<63 | 7)
	me, foe                 = 11, 22
	itsIdentity, anotherOne = "identity-a", "identity-b"
	thisPlace, elsewhere    = "s3://b/app", "s3://b/elsewhere"
)

// cell is one situation of a takeover. The page has a row for each: here, there and what becomes of it.
type cell struct {
	here, there string
	does        string // for people
	do          action
	says        string // words that the line has; "": there is none
	set         func(v *view)
}

// lying is a view of a database here, in the newest state, and a replica that another owner wrote last.
func lying(set func(v *view)) *view {
	v := &view{path: "/data/app.db", url: thisPlace, side: "/data/.app.db-holdfast",
		here: here{file: aDatabase, sum: newest, boot: "b1", free: 1 << 40},
		there: there{identity: itsIdentity, head: replica.Head{TXID: 9, Post: newest, Pages: 10, PageSize: 4096, Owner: foe}, group: 9, groupBy: foe,
			states: map[replica.Checksum]bool{newest: true, older: true}, last: 9}}
	if set != nil {
		set(v)
	}
	return v
}

// wrote makes this disk the last to write there, as its state says.
func wrote(v *view, sum replica.Checksum) {
	v.here.sum = sum
	v.here.stated, v.here.state = true, known{Owner: me, TXID: 9, Checksum: newest, Boot: "b1", Replica: thisPlace, Identity: itsIdentity}
	v.there.groupBy, v.there.head.Owner = me, me
}

// behind makes the database here an earlier state.
func behindBy(v *view) { v.here.sum = older }

// asRestored gives the file the record of a restore that saw the head.
func asRestored(v *view, txid replica.TXID, sum replica.Checksum) {
	v.here.record = &restore.Record{Replica: thisPlace, Identity: itsIdentity, TXID: txid, Checksum: sum, Head: 9, HeadSum: newest}
}

func nothingThere(v *view) { v.there = there{} }

func damagedEnd(v *view) {
	v.there.damage, v.there.last, v.there.head.Post = "0000/9-9.ltx: 0 bytes are no LTX file", 8, 0
}

var cells = []cell{
	{"no file", "nothing", "waits for the file", toWait, "", func(v *view) { nothingThere(v); v.here.file = noFile }},
	{"a database", "nothing", "begins the replica", toBegin, "", nothingThere},
	{"a file that is no database", "nothing", "waits, and says why", toWait, "is not replicated", func(v *view) { nothingThere(v); v.here.file, v.here.why = strange, "it is no database" }},
	{"a database that is kept at another place", "nothing", "begins anew at the new place, and names the old one", toBegin, "is a new place for", func(v *view) {
		nothingThere(v)
		v.here.stated, v.here.state = true, known{Owner: me, TXID: 9, Replica: elsewhere, Identity: anotherOne}
	}},
	{"a database that was stored there", "nothing", "refuses: a disk is not mounted, or the bucket was emptied", toRefuse, "rm /data/.app.db-holdfast/state", func(v *view) {
		wrote(v, newest)
		nothingThere(v)
	}},
	{"a database that an agent began to store there", "nothing, or files without an identity", "refuses: a disk is not mounted, or the bucket was emptied", toRefuse,
		"it has no holdfast/identity", func(v *view) {
			wrote(v, newest)
			v.here.state.TXID, v.there.identity = 0, "" // an agent that was killed said no more
		}},
	{"a database that an agent began to store there", "another store, by its identity", "refuses: the right disk has to be mounted", toRefuse, "the identity identity-b, and it was identity-a", func(v *view) {
		wrote(v, newest)
		v.there.identity = anotherOne
	}},
	{"a database with a state of an earlier version", "nothing", "refuses: nobody knows whether the place is new", toRefuse, "the state of an earlier version", func(v *view) {
		nothingThere(v)
		v.here.stated, v.here.state = true, known{Owner: me, TXID: 9}
	}},
	{"any", "a manifest that is none, and nothing else", "refuses", toRefuse, "holdfast/manifest that is none", func(v *view) { nothingThere(v); v.there.manifest = true }},
	{"any", "Litestream's replica", "refuses, with a new place and the restore to write", toRefuse, "Litestream wrote s3://b/app", func(v *view) { v.there.foreign = true }},
	{"no file", "a replica", "restores", toRestore, "", func(v *view) { v.here.file = noFile }},
	{"no file, and the disk is too small", "a replica", "touches nothing, and says how much is missing", toLater, "make room", func(v *view) {
		v.here.file, v.here.free, v.there.needBytes = noFile, 1<<20, 1<<30
	}},
	{"no file", "a replica with a damaged end", "refuses, with the restore of the last state that is whole", toRefuse, "--txid 0000000000000008", func(v *view) {
		damagedEnd(v)
		v.here.file = noFile
	}},
	{"a file that is no database, or in another mode under `--wal never`", "a replica", "waits, and says why", toWait, "move the file away", func(v *view) { v.here.file, v.here.why = unshared, "it is not in WAL mode" }},
	{"its newest state, cleanly ended by this disk", "a replica that nobody has touched since", "resumes without a fence", toResume, "", func(v *view) {
		wrote(v, newest)
		v.here.state.Clean = true
	}},
	{"its newest state, cleanly ended by this disk", "a replica with uploads in flight behind its end", "takes it over", toTake, "", func(v *view) {
		wrote(v, newest)
		v.here.state.Clean, v.there.inFlight = true, 1
	}},
	{"its newest state", "a replica", "takes it over", toTake, "", nil},
	{"more than the replica has, on the disk that wrote last", "a replica", "takes it over, and ships what is missing", toShip, "", func(v *view) { wrote(v, other) }},
	{"something else, on the disk that wrote last, after the machine was started anew", "a replica", "keeps the file aside and restores: what was acknowledged counts", toUpdate, "the machine was started anew", func(v *view) {
		wrote(v, other)
		v.here.boot = "b2"
	}},
	{"more of the WAL that the last group was read from, after the machine was started anew", "a replica", "takes it over, and ships what is missing", toShip, "", func(v *view) {
		wrote(v, other)
		v.here.boot, v.here.further = "b2", true
	}},
	{"an earlier state", "a replica", "keeps the file aside, and brings it up to date", toUpdate, "is an earlier state", behindBy},
	{"an earlier state that another program has open", "a replica", "touches nothing, and waits until the program ends", toLater, "is open in another program", func(v *view) {
		behindBy(v)
		v.here.open = true
	}},
	{"a state that the replica never had", "a replica", "refuses, with the two commands that decide", toRefuse, "have gone different ways", func(v *view) { v.here.sum = other }},
	{"a database whose agent was fenced before its files could be renamed", "a replica", "keeps the file aside and restores", toUpdate, "another agent took", func(v *view) {
		v.here.sum = other
		v.here.stated, v.here.state = true, known{Owner: me, TXID: 9, Fenced: true, Replica: thisPlace, Identity: itsIdentity}
	}},
	{"restored to an earlier state", "the replica as that restore saw it", "goes on from there as a branch; what it leaves can be restored until `--retention`", toBranch, "goes on from there", func(v *view) {
		behindBy(v)
		asRestored(v, 5, older)
	}},
	{"restored to the newest state and written to since", "the replica as that restore saw it", "goes on behind the replica", toBranch, "has changed since", func(v *view) {
		v.here.sum = other
		asRestored(v, 9, newest)
	}},
	{"restored to an earlier state", "a replica that has gone on since", "refuses, with the two commands that decide", toRefuse, "has gone on since", func(v *view) {
		behindBy(v)
		asRestored(v, 5, older)
		v.there.head.TXID, v.there.head.Post = 12, other
	}},
	{"restored to the newest state, and not written to since", "a replica that has gone on since", "keeps the file aside, and brings it up to date", toUpdate, "is an earlier state", func(v *view) {
		v.here.sum = newest
		asRestored(v, 9, newest)
		v.there.head.TXID, v.there.head.Post = 12, other
	}},
	{"chosen by `holdfast sqlite branch`", "the replica as that command saw it", "goes on behind the replica", toBranch, "was chosen", func(v *view) {
		v.here.sum = other
		asRestored(v, 0, 0)
	}},
	{"chosen by `holdfast sqlite branch`", "a replica that has gone on since", "refuses, with the two commands that decide", toRefuse, "was chosen to go on behind", func(v *view) {
		v.here.sum = other
		asRestored(v, 0, 0)
		v.there.head.TXID, v.there.head.Post = 12, older
	}},
	{"restored from another replica", "a replica", "judged as if it had no record", toRefuse, "have gone different ways", func(v *view) {
		v.here.sum = other
		asRestored(v, 5, older)
		v.here.record.Identity, v.here.record.Replica = anotherOne, elsewhere
	}},
	{"the database, on the disk that wrote last", "a replica with a damaged end", "takes it over, and stores the whole database as a snapshot", toRenew, "stores it anew as a snapshot", func(v *view) {
		wrote(v, newest)
		damagedEnd(v)
	}},
	{"restored to an earlier state", "the same replica, with a damaged end", "goes on from there, stored whole as a snapshot", toRenew, "is stored anew as a snapshot", func(v *view) {
		behindBy(v)
		asRestored(v, 5, older)
		damagedEnd(v)
	}},
	{"something else, on the disk that wrote last, after the machine was started anew, or on a copy of that disk", "a replica with a damaged end",
		"refuses, with the two commands that decide", toRefuse, "nothing says that", func(v *view) {
			wrote(v, other)
			v.here.boot = "b2"
			damagedEnd(v)
		}},
	{"restored to an earlier state, on a copy of the disk that has gone on from there", "a replica that has gone on since", "keeps the file aside and restores: what was acknowledged counts",
		toUpdate, "the machine was started anew", func(v *view) {
			wrote(v, other)
			asRestored(v, 5, older)
			v.here.boot = "b2"
			v.there.head.TXID, v.there.head.Post = 12, newest+1
		}},
	{"a database of which nothing says that it is the newest", "a replica with a damaged end", "refuses, with the two commands that decide", toRefuse, "nothing says that", func(v *view) {
		v.here.sum = other
		damagedEnd(v)
	}},
}

// TestEachCellOfATakeover: what lies here and there decides what is done and said, and nothing else does.
func TestEachCellOfATakeover(t *testing.T) {
	seen := map[action]bool{}
	for _, c := range cells {
		d := decide(lying(c.set))
		seen[d.do] = true
		if d.do != c.do {
			t.Errorf("%s, and there %s: %s (%s), want %s", c.here, c.there, d.do, d.says, c.do)
		}
		if c.says == "" && d.warn || !strings.Contains(d.says, c.says) {
			t.Errorf("%s, and there %s: says %q, want %q", c.here, c.there, d.says, c.says)
		}
		if strings.Contains(d.says, "\n") {
			t.Errorf("%s, and there %s: says more than a line: %q", c.here, c.there, d.says)
		}
		if d.do == toRefuse && !strings.Contains(d.says, "holdfast sqlite") && !strings.Contains(d.says, "new place") && !strings.Contains(d.says, "rm ") {
			t.Errorf("%s, and there %s: refuses without a way out: %q", c.here, c.there, d.says)
		}
	}
	for a := toWait; a <= toRefuse; a++ {
		if !seen[a] {
			t.Errorf("no cell comes to %q", a)
		}
	}
}

// TestThePageHasTheTable: docs/SQLITE.md tells of each cell, in the same words and order.
func TestThePageHasTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/SQLITE.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, c := range cells {
		fmt.Fprintf(&want, "| %s | %s | %s |\n", c.here, c.there, c.does)
	}
	if !strings.Contains(string(page), want.String()) {
		t.Errorf("docs/SQLITE.md does not have this table:\n%s", want.String())
	}
}
