package agent

import (
	"fmt"
	"strings"

	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// view is all that a takeover rests on: the local files, and the replica. decide reads it and nothing else, so that a decision can be
// tested without a file, a bucket or a clock.
type view struct {
	path, url, side string // for texts; url is without credentials
	here            here
	there           there
}

// here is what lies on this disk.
type here struct {
	file fileKind
	why  string           // why a file that is no database, or none in WAL mode, cannot be followed
	sum  replica.Checksum // of the database
	// further: the WAL is the one that the replica's last group was read from, and has later frames.
	further bool
	open    bool // another program has the database open
	state   known
	stated  bool // state is whole
	boot    string
	record  *restore.Record // of the restore that made the file; nil: none did, or it is damaged
	free    uint64          // bytes left on the disk
}

// fileKind is the kind of file under the database's name.
type fileKind byte

const (
	noFile    fileKind = iota // nothing, or a file without content
	strange                   // no SQLite database
	unshared                  // a database in another journal mode than WAL
	aDatabase                 // with a checksum
)

// there is what lies at the replica's place.
type there struct {
	identity string       // "": there is none
	head     replica.Head // with damage its checksum may be 0: not known
	// group is the last file of the chain that is no fence: where it ends, and who wrote it. Owner 0: it cannot be read.
	group     replica.TXID
	groupBy   uint64
	fenced    bool                      // there is a fence in the chain
	states    map[replica.Checksum]bool // every state that is known of the chain
	damage    string                    // why the newest state cannot be restored; "": it can be
	last      replica.TXID              // the last state that can be restored; 0: none
	manifest  bool                      // something that is no manifest has its name
	inFlight  int                       // files behind the end of the chain, which no owner was told of
	foreign   bool                      // Litestream wrote it: it has no checksums
	needBytes uint64                    // that a restore of the newest state takes
}

// action is the outcome of a takeover. There are no others.
type action byte

const (
	toWait    action = iota // nothing to do until the file changes
	toBegin                 // the replica begins with this database
	toResume                // as at a clean end: no fence
	toTake                  // fence; the database is the replica's newest state
	toShip                  // fence; then what the database has and the replica has not
	toBranch                // fence; then from the replica's newest state to this database
	toRenew                 // fence; then this database as a group and as a snapshot, before anything counts as stored
	toRestore               // restore, fence, and give the file its name
	toUpdate                // restore, fence, keep the file aside, and give the restored one its name
	toLater                 // nothing is touched; it is looked at again
	toRefuse                // nothing is touched; a person decides
)

func (a action) String() string {
	return [...]string{"wait", "begin", "resume", "take over", "ship", "branch", "renew", "restore", "update", "not yet", "refuse"}[a]
}

// decision is the agent's next step, and a line about it; "": no line beyond that the database is followed.
type decision struct {
	do   action
	says string
	warn bool // the line is a warning
}

// decide judges a view.
func decide(v *view) decision {
	d := v.judge()
	switch {
	case d.do == toUpdate && v.here.open:
		return v.notYet("%s has gone on, and %s is open in another program; end that, and the database is brought up to date", v.url, v.path)
	case (d.do == toUpdate || d.do == toRestore) && v.here.free < v.there.needBytes:
		return v.notYet("a restore of %s takes %d MiB beside %s, and %d MiB are free; make room, and it begins", v.url, v.there.needBytes>>20, v.path, v.here.free>>20)
	}
	return d
}

func (v *view) judge() decision {
	h, t := &v.here, &v.there
	switch {
	case t.head.Empty() && t.identity == "":
		return v.empty()
	case v.swapped():
		return v.refuse("%s is not the store that it was when this disk began to write there: it has %s. Mount the right disk, or give its objects back; "+
			"if only that object was lost, or to go on with what is there: rm %s/state", v.url, v.whoIsThere(), v.side)
	case t.head.Empty():
		return v.empty()
	case t.foreign:
		return v.refuse("Litestream wrote %s, and no checksum in it says whose it is: it is read and not written to. Give the database a new place, for example %s; "+
			"to have it from there first: holdfast sqlite restore --to %s %s", v.url, newPlace(v.url), v.path, v.url)
	case h.file == noFile && t.damage != "":
		return v.refuse("the newest state in %s cannot be restored: %s. Put a good copy there, or go on from the last state that is whole: %s", v.url, t.damage, v.restoreLast())
	case h.file == noFile:
		return decision{do: toRestore}
	case h.file != aDatabase:
		return decision{do: toWait, warn: true, says: fmt.Sprintf("%s is not replicated: %s; to have the database of %s there, move the file away", v.path, h.why, v.url)}
	}
	same := t.head.Post != 0 && h.sum == t.head.Post
	mine := v.mine()
	switch {
	case h.record != nil && v.fromHere(h.record.Identity, h.record.Replica):
		return v.restored(same, mine)
	case t.damage != "":
		return v.damaged(same, mine)
	case same && h.state.Clean && mine && h.state.TXID == t.head.TXID && t.inFlight == 0 && !t.manifest && !h.state.Fenced:
		return decision{do: toResume}
	case same:
		return decision{do: toTake}
	case h.stated && h.state.Fenced && v.fromHere(h.state.Identity, h.state.Replica):
		return v.update("another agent took %s over while this one had %s; the file is kept aside, and the database is restored", v.url, v.path)
	case mine:
		return v.own()
	case v.past():
		return v.behind()
	}
	return v.strange()
}

// swapped reports whether this disk has begun to write at this place and another store lies there now, by its identity. The state of an agent that was
// killed may say TXID 0, however much it had stored.
func (v *view) swapped() bool {
	k := &v.here.state
	return v.here.stated && k.Identity != "" && k.Replica == v.url && k.Identity != v.there.identity
}

func (v *view) whoIsThere() string {
	if v.there.identity == "" {
		return "no " + replica.IdentityName
	}
	return "the identity " + v.there.identity + ", and it was " + v.here.state.Identity
}

// empty judges a place without a file of a replica.
func (v *view) empty() decision {
	h, t := &v.here, &v.there
	used := h.stated && (h.state.TXID != 0 || v.swapped())
	switch {
	case used && h.state.Replica == "" && h.state.Identity == "":
		return v.refuse("%s is empty, and the state of an earlier version beside %s says that the database was stored somewhere up to TXID %s. If that was there, give it back; "+
			"if this is a new place: rm %s/state", v.url, v.path, h.state.TXID, v.side)
	case used && v.fromHere(h.state.Identity, h.state.Replica):
		return v.refuse("%s is empty, and this database was stored there%s. Mount its disk, or give its files back; to begin there anew: rm %s/state",
			v.url, upTo(h.state.TXID), v.side)
	case t.manifest:
		return v.refuse("%s has a holdfast/manifest that is none, and no file of a replica. Remove it if nothing is left of what was there, or give a new place, for example %s",
			v.url, newPlace(v.url))
	case h.file == noFile:
		return decision{do: toWait}
	case h.file != aDatabase:
		return decision{do: toWait, warn: true, says: fmt.Sprintf("%s is not replicated: %s", v.path, h.why)}
	case used:
		return decision{do: toBegin, says: fmt.Sprintf("%s is a new place for %s, which was stored in %s before; a new replica begins there", v.url, v.path, h.state.Replica)}
	}
	return decision{do: toBegin}
}

// upTo says how far a state knows its replica to reach. The state of an agent that was killed may say TXID 0.
func upTo(txid replica.TXID) string {
	if txid == 0 {
		return ""
	}
	return " up to TXID " + txid.String()
}

// fromHere reports whether a state or a record is about the replica that lies there. Identities tell if both are known, else the place does.
func (v *view) fromHere(identity, place string) bool {
	if identity != "" && v.there.identity != "" {
		return identity == v.there.identity
	}
	return place == v.url || place == "" // an earlier version names no place
}

// mine reports whether this disk was the last writer. It wrote the last group, or a fence directly behind the state that it had compared
// itself with.
func (v *view) mine() bool {
	k, t := &v.here.state, &v.there
	if !v.here.stated || k.Fenced || !v.fromHere(k.Identity, k.Replica) {
		return false
	}
	by := func(owner uint64) bool { return owner != 0 && (owner == k.Owner || owner == k.Next) }
	if by(t.groupBy) {
		return true
	}
	if t.groupBy == 0 && k.TXID == 0 && k.Owner != 0 && k.Identity != "" && k.Identity == t.identity && !t.fenced {
		return true // this disk began the replica, and no other has taken it over
	}
	// A state of form 1 names the next owner before it has compared anything.
	return t.head.Fence && t.head.Owner != 0 && (t.head.Owner == k.Owner || t.head.Owner == k.Next && k.Replica != "")
}

// past reports whether the database here is a state that the replica has passed through.
func (v *view) past() bool {
	k := &v.here.state
	return v.there.states[v.here.sum] ||
		v.here.stated && k.Clean && k.Checksum == v.here.sum && k.TXID <= v.there.head.TXID && v.fromHere(k.Identity, k.Replica)
}

// restored judges a database that has a record of its restore from this replica.
func (v *view) restored(same, mine bool) decision {
	h, t := &v.here, &v.there
	r := h.record
	unmoved := t.head.TXID == r.Head || t.head.Post != 0 && t.head.Post == r.HeadSum
	newest, chosen := r.TXID == r.Head, r.TXID == 0
	switch {
	case t.damage != "" && unmoved && chosen:
		return decision{do: toRenew, warn: true, says: fmt.Sprintf("%s; %s was chosen, and is stored anew as a snapshot", t.damage, v.path)}
	case t.damage != "" && (unmoved || mine && v.keeps()):
		return decision{do: toRenew, warn: true, says: fmt.Sprintf("%s; the database here, restored as of TXID %s, is stored anew as a snapshot", t.damage, r.TXID)}
	case t.damage != "":
		return v.damaged(same, mine)
	case same:
		return decision{do: toTake}
	case mine && !unmoved: // of its branch a group is there already
		return v.own()
	case unmoved && chosen:
		return decision{do: toBranch, says: fmt.Sprintf("%s was chosen and goes on behind %s; what that has, up to TXID %s, can be restored until --retention has passed", v.path, v.url, t.head.TXID)}
	case unmoved && newest:
		return decision{do: toBranch, says: fmt.Sprintf("%s was restored as of TXID %s and has changed since; it goes on behind %s", v.path, r.TXID, v.url)}
	case unmoved:
		return decision{do: toBranch, says: fmt.Sprintf("%s was restored as of TXID %s and goes on from there; what %s has behind it, up to TXID %s, can be restored until --retention has passed",
			v.path, r.TXID, v.url, t.head.TXID)}
	case newest && h.sum == r.Checksum:
		return v.behind()
	}
	if chosen {
		return v.refuse("%s was chosen to go on behind TXID %s of %s, which has gone on since to %s. %s", v.path, r.Head, v.url, t.head.TXID, v.two())
	}
	return v.refuse("%s was restored as of TXID %s, and %s has gone on since, from TXID %s to %s. %s", v.path, r.TXID, v.url, r.Head, t.head.TXID, v.two())
}

// damaged judges a database whose replica cannot come to its newest state any more.
func (v *view) damaged(same, mine bool) decision {
	t := &v.there
	h := &v.here
	known := h.stated && h.state.TXID == t.head.TXID && !h.state.Fenced && v.fromHere(h.state.Identity, h.state.Replica) &&
		(h.sum == h.state.Checksum || h.state.Clean || h.state.Boot == h.boot)
	if same || mine && v.keeps() || known {
		return decision{do: toRenew, warn: true, says: fmt.Sprintf("%s; this disk has the whole database, and stores it anew as a snapshot", t.damage)}
	}
	return v.refuse("the newest state in %s cannot be restored: %s; and nothing says that %s is it. To go on from the last state that is whole: %s. "+
		"To go on with the file's: holdfast sqlite branch %s %s. Then start again", v.url, t.damage, v.path, v.restoreLast(), v.path, v.url)
}

// own judges a database whose disk wrote last.
func (v *view) own() decision {
	h := &v.here
	switch {
	case v.keeps():
		return decision{do: toShip}
	case h.state.Clean:
		return v.behind()
	}
	// The replica has every commit that was acknowledged as stored, so it counts where the two cannot be told apart.
	return v.update("the machine was started anew, and %s is not what %s goes on from: a write that was not durable is gone. The file is kept aside, and the database is restored", v.path, v.url)
}

// keeps reports whether a disk that wrote last has everything that it wrote. A copy of the disk says that it wrote last as well, and so does a disk
// that a power cut has set back.
func (v *view) keeps() bool {
	h := &v.here
	return h.further || !h.state.Clean && h.state.Boot == h.boot || h.state.Clean && !v.past()
}

// behind brings a database up to date.
func (v *view) behind() decision {
	return v.update("%s is an earlier state of what %s has; the file is kept aside, and the database is brought up to date", v.path, v.url)
}

func (v *view) update(format string, args ...any) decision {
	return decision{do: toUpdate, warn: true, says: fmt.Sprintf(format, args...)}
}

// strange refuses a database that is not its replica's.
func (v *view) strange() decision {
	return v.refuse("%s and its replica %s (TXID %s) have gone different ways. %s", v.path, v.url, v.there.head.TXID, v.two())
}

// two are the commands by which a person decides.
func (v *view) two() string {
	return fmt.Sprintf("To have the replica's: holdfast sqlite restore --overwrite --to %s %s. To go on with the file's: holdfast sqlite branch %s %s. Then start again",
		v.path, v.url, v.path, v.url)
}

// restoreLast is the command that restores the last state that is whole.
func (v *view) restoreLast() string {
	if v.there.last == 0 {
		return "there is none; give a new place, for example " + newPlace(v.url)
	}
	return fmt.Sprintf("holdfast sqlite restore --overwrite --txid %s --to %s %s", v.there.last, v.path, v.url)
}

func (v *view) refuse(format string, args ...any) decision {
	return decision{do: toRefuse, says: fmt.Sprintf(format, args...), warn: true}
}

func (v *view) notYet(format string, args ...any) decision {
	return decision{do: toLater, says: fmt.Sprintf(format, args...), warn: true}
}

// newPlace is a place beside that of a URL.
func newPlace(url string) string {
	path, query, found := strings.Cut(url, "?")
	path = strings.TrimRight(path, "/") + "-2"
	if found {
		return path + "?" + query
	}
	return path
}
