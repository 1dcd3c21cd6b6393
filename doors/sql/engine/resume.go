package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"

	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
	dbwire "github.com/holdfastdb/holdfast/internal/wire"
)

// A build outlives the leader that has begun it. Its goal is a note of the table, and so is its place, which each piece moves on. The next leader finds both
// beside an index that is Building, and goes on from there. The client has lost its connection by then: the index becomes Public, or goes where two rows have
// one key.

// noteVersion begins the notes of a build.
const noteVersion = 1

// note encodes the goal of a build. version is that of the table's definition meanwhile: a table at another version was altered since, and the note says
// nothing of it.
func (g *goal) note(version uint64) []byte {
	b := binary.AppendUvarint([]byte{noteVersion}, version)
	database := uint64(0)
	if g.database != nil {
		database = g.database.ID
	}
	b = binary.AppendUvarint(b, database)
	b = dbwire.AppendBytes(b, g.name)
	b = dbwire.AppendBytes(b, g.def.append(nil))
	return sqlpart.AppendIndexes(b, g.indexes)
}

// goalOf is the inverse of note. ok false: the note is of another version, or of a build of the server that writes others.
func goalOf(note []byte, version uint64) (g goal, database uint64, ok bool) {
	if len(note) == 0 || note[0] != noteVersion {
		return g, 0, false
	}
	r := dbwire.NewReader(note[1:])
	of := r.Uvarint()
	database, g.name = r.Uvarint(), r.Text()
	def := append([]byte(nil), r.Bytes()...)
	g.indexes = sqlpart.Indexes(&r)
	if r.End() != nil || of != version {
		return g, 0, false
	}
	var err error
	if g.def, err = decodeDefinition(def); err != nil {
		return g, 0, false
	}
	return g, database, true
}

// progress is how far a build is: the rows before from have their entries in index, and all rows have those of the indexes with smaller ids.
type progress struct {
	index uint64
	from  []byte
	done  bool // all rows have their entries in index
}

func (p progress) note() []byte {
	b := binary.AppendUvarint([]byte{noteVersion}, p.index)
	return dbwire.AppendBytes(append(b, dbwire.Bit(p.done, 1)), p.from)
}

// progressOf is the inverse of note. A note that is not there, or makes no sense, is the beginning: an entry that is there already does no harm.
func progressOf(note []byte) progress {
	if len(note) == 0 || note[0] != noteVersion {
		return progress{}
	}
	r := dbwire.NewReader(note[1:])
	p := progress{index: r.Uvarint(), done: r.Byte() != 0, from: append([]byte(nil), r.Bytes()...)}
	if r.End() != nil {
		return progress{}
	}
	return p
}

// left reads what the notes of a table say of the indexes that are Building. ok false: nothing, and they are to be dropped.
func (s *Session) left(tx *txn.Tx, t *sqlmachine.Table) (to goal, at progress, ok bool, err error) {
	note, _, err := tx.ReadNote(t.ID, txn.GoalNote)
	if err != nil {
		return goal{}, progress{}, false, err
	}
	to, database, ok := goalOf(note, t.Version)
	if !ok {
		return goal{}, progress{}, false, nil
	}
	if database != 0 {
		for _, d := range s.e.opt.Catalogue().Databases() {
			if d.ID == database {
				to.database = d
			}
		}
		if to.database == nil { // it was dropped
			return goal{}, progress{}, false, nil
		}
	}
	note, _, err = tx.ReadNote(t.ID, txn.PlaceNote)
	return to, progressOf(note), true, err
}

// settle ends the build that has left indexes of a table Building: it goes on with the build, or drops them where the table has no notes of it, and where the
// build itself fails. Errors: what ends the session's own statement; the build stays as it is then.
func (s *Session) settle(ctx *sql.Context, tx *txn.Tx, databaseName string, t *sqlmachine.Table) error {
	to, at, ok, err := s.left(tx, t)
	if err != nil {
		return err
	}
	if ok {
		_, err := s.finish(ctx, tx, databaseName, t, to, at)
		if err == nil || !endsBuild(err) || ctx.Err() != nil {
			return err
		}
	}
	_, err = s.takeBack(tx, databaseName, t, s.TableWait())
	return err
}

// endsBuild reports whether an error is of the rows that a build has met, or of its goal. It would come again.
func endsBuild(err error) bool {
	for _, passes := range []error{txn.ErrLockTimeout, txn.ErrBusy, txn.ErrInterrupted, txn.ErrTooManyLocks, txn.ErrDeadlock, txn.ErrOverloaded, txn.ErrLevel, context.Canceled} {
		if errors.Is(err, passes) {
			return false
		}
	}
	return !endsTerm(err)
}

// Resumed is what the engine tells of the builds with which it goes on. Its functions are called from one goroutine.
type Resumed struct {
	// Begin is told of a build, for others to see: the table's database, and a statement that stands for the build. state is told how far the build is,
	// and end that it runs no more. The index is dropped where ctx ends before.
	Begin func(database, statement string) (ctx context.Context, state func(string), end func())
	// Done is told what has become of a table's indexes: nil, or why they are dropped.
	Done func(table string, err error)
}

// Clean goes on with the builds that a leader before has left, one after the other, and drops the indexes of which nothing more is known, and tables that are half copied. The door calls it in
// each term, beside the clients: no statement reads such an index, and who builds one has its definition locked. Errors: those of begin; ErrTermOver and
// ErrUnknown of txn; those of the store. A second call goes on where the first has ended.
func (e *Engine) Clean(begin func() (*txn.Tx, error), to Resumed) error {
	type found struct {
		database string
		table    uint64
		tx       *txn.Tx
	}
	type leftCopy struct {
		database string
		*sqlmachine.Table
	}
	var all []found
	var copies []leftCopy
	defer func() {
		for _, f := range all {
			f.tx.Rollback()
		}
	}()
	for _, d := range e.opt.Catalogue().Databases() {
		for _, t := range d.Tables() {
			if isCopy(t.Name) {
				copies = append(copies, leftCopy{d.Name, t})
				continue
			}
			if !leftHalfBuilt(t) {
				continue
			}
			tx, err := begin()
			if err != nil {
				return err
			}
			all = append(all, found{d.Name, t.ID, tx})
			// A statement of a client that defines would wait for one build only, and end the others itself: so the locks are asked for at once.
			if err := tx.LockDefinition(t.ID, txn.Wait{}); err != nil && !errors.Is(err, txn.ErrBusy) {
				return err
			}
		}
	}
	for _, f := range all {
		if err := e.resume(f.database, f.table, f.tx, to); err != nil {
			return err
		}
	}
	for _, t := range copies {
		if err := e.dropLeftCopy(t.database, t.Table, begin); err != nil {
			return err
		}
	}
	return nil
}

// errUnknownBuild is of an index of which the table has no notes.
var errUnknownBuild = errors.New("nothing is known of the statement that has begun it")

// resume ends what was left of one table.
func (e *Engine) resume(databaseName string, id uint64, tx *txn.Tx, to Resumed) error {
	defer tx.Rollback()
	forEver := txn.Wait{Time: -1}
	if err := tx.LockDefinition(id, forEver); err != nil {
		return err
	}
	var t *sqlmachine.Table
	for _, d := range e.opt.Catalogue().Databases() { // it may have another name by now
		for _, is := range d.Tables() {
			if is.ID == id && leftHalfBuilt(is) {
				databaseName, t = d.Name, is
			}
		}
	}
	if t == nil {
		return nil
	}
	if err := tx.Write(forEver); err != nil {
		return err
	}
	defer tx.WriteDone()
	s := e.NewSession(Client{})
	goal, at, ok, err := s.left(tx, t)
	if err != nil {
		return err
	}
	failed := errUnknownBuild
	if ok {
		ctx, state, end := to.Begin(databaseName, fmt.Sprintf("ALTER TABLE `%s` /* begun under another leader */", t.Name))
		s.interrupt, s.state = ctx.Done(), state
		failed = s.guarded(func() error {
			_, err := s.finish(s.context(ctx, ""), tx, databaseName, t, goal, at)
			return err
		})
		s.interrupt = nil
		killed := ctx.Err() != nil
		end()
		if failed != nil && !killed && !endsBuild(failed) {
			return failed
		}
	}
	to.Done(databaseName+"."+t.Name, failed)
	if failed == nil {
		return nil
	}
	_, err = s.takeBack(tx, databaseName, t, forEver)
	return err
}

// guarded runs what the library may panic in.
func (s *Session) guarded(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = wire.Errorf(wire.ErrUnknown, "internal error in the SQL engine: %v", p)
		}
	}()
	return run()
}
