package part

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Errors of the decoder, beside those of wire. ErrKind and ErrFlags are fatal to the node that applies, because another build wrote the part.
// Everything else is rejected as malformed.
var (
	ErrKind  = errors.New("table part of a kind this build does not know")
	ErrFlags = errors.New("table part with a flag this build does not know")
	ErrForm  = errors.New("table part that makes no sense")
)

const (
	flagReads = 1 // of a Commit: reads follow the writes
	flagRows  = 2 // of a Commit: writes have a NextRow
	flagFirst = 1 // of a Stage: it is the first
	// flagRanges of a Decide: ranges follow the locks of a transaction that is prepared.
	flagRanges = 2
	// flagPlaces of a Define: rows of a table say how many places they have.
	flagPlaces = 1

	actionBits = 3 // of an op's first byte; the index's id follows above them
	actionSize = 2
)

// AppendPart appends p's encoding to dst.
func AppendPart(dst []byte, p *Part) []byte {
	dst = append(dst, byte(p.Kind))
	switch p.Kind {
	case Commit:
		rows := slices.ContainsFunc(p.Tables, func(w Writes) bool { return w.NextRow != 0 })
		dst = append(dst, wire.Bit(len(p.Reads) > 0, flagReads)|wire.Bit(rows, flagRows))
		dst = binary.AppendUvarint(dst, uint64(len(p.Tables)))
		for i := range p.Tables {
			dst = appendWrites(dst, &p.Tables[i], rows)
		}
		dst = appendReads(dst, p.Reads)
	case Stage:
		dst = append(dst, wire.Bit(p.First, flagFirst))
		dst = binary.AppendUvarint(dst, p.Tx)
		dst = binary.AppendUvarint(dst, uint64(len(p.Tables)))
		for i := range p.Tables {
			w := &p.Tables[i]
			dst = binary.AppendUvarint(dst, w.Table)
			dst = binary.AppendUvarint(dst, w.Version)
			dst = wire.AppendBytes(dst, w.Ops)
		}
	case Decide:
		dst = append(dst, wire.Bit(len(p.Reads) > 0, flagReads)|wire.Bit(len(p.Ranges) > 0, flagRanges), byte(p.Verdict))
		dst = binary.AppendUvarint(dst, p.Tx)
		if p.Verdict != DropStaged {
			dst = binary.LittleEndian.AppendUint64(dst, p.Hash)
			dst = binary.AppendUvarint(dst, uint64(len(p.Tables)))
			for i := range p.Tables {
				w := &p.Tables[i]
				dst = binary.AppendUvarint(dst, w.Table)
				dst = binary.AppendUvarint(dst, w.Version)
				dst = binary.AppendUvarint(dst, w.NextAuto)
				dst = binary.AppendUvarint(dst, w.NextRow)
			}
			dst = appendReads(dst, p.Reads)
		}
		if p.Verdict == PrepareStaged {
			dst = wire.AppendBytes(dst, p.Name)
			dst = binary.AppendUvarint(dst, uint64(len(p.Locks)))
			for i := range p.Locks {
				l := &p.Locks[i]
				dst = binary.AppendUvarint(dst, l.Table)
				dst = binary.AppendUvarint(dst, l.Index<<1|uint64(wire.Bit(l.Shared, 1)))
				dst = wire.AppendBytes(dst, l.Key)
			}
			if len(p.Ranges) > 0 {
				dst = AppendRanges(dst, p.Ranges)
			}
		}
	case Move:
		dst = append(dst, 0)
		dst = binary.AppendUvarint(dst, p.Tx)
		dst = binary.AppendUvarint(dst, p.Bytes)
	case Define:
		dst = append(dst, wire.Bit(p.Places, flagPlaces))
		dst = binary.AppendUvarint(dst, uint64(len(p.Changes)))
		for i := range p.Changes {
			dst = appendChange(dst, &p.Changes[i])
		}
	}
	return dst
}

// appendReads appends a list that a flag has announced; of none it appends nothing.
func appendReads(dst []byte, all []Read) []byte {
	if len(all) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for i := range all {
		r := &all[i]
		dst = binary.AppendUvarint(dst, r.Table)
		dst = binary.AppendUvarint(dst, r.Index)
		dst = wire.AppendBytes(dst, r.Key)
		dst = binary.LittleEndian.AppendUint64(dst, r.Hash)
	}
	return dst
}

func appendWrites(dst []byte, w *Writes, rows bool) []byte {
	dst = binary.AppendUvarint(dst, w.Table)
	dst = binary.AppendUvarint(dst, w.Version)
	dst = binary.AppendVarint(dst, w.Rows)
	dst = binary.AppendUvarint(dst, w.NextAuto)
	if rows {
		dst = binary.AppendUvarint(dst, w.NextRow)
	}
	dst = binary.AppendUvarint(dst, w.Overwrote)
	return wire.AppendBytes(dst, w.Ops)
}

// AppendOp appends an op to the Ops of Writes.
func AppendOp(dst []byte, op *Op) []byte {
	dst = binary.AppendUvarint(dst, op.Index<<actionSize|uint64(op.Action))
	dst = wire.AppendBytes(dst, op.Key)
	if op.Action < Delete {
		dst = wire.AppendBytes(dst, op.Value)
	}
	return dst
}

// NextOp decodes the first of some encoded ops. The op and rest alias ops. The ops of a decoded Part have no error.
func NextOp(ops []byte) (op Op, rest []byte, err error) {
	r := wire.NewReader(ops)
	head := r.Uvarint()
	op.Index, op.Action = head>>actionSize, Action(head&actionBits)
	op.Key = r.Bytes()
	if op.Action < Delete {
		op.Value = r.Bytes()
	}
	if op.Index > MaxIndexID || len(op.Key) == 0 || len(op.Key) > MaxKey {
		r.Fail(ErrForm)
	}
	return op, r.Rest(), r.Err()
}

func appendChange(dst []byte, c *Change) []byte {
	dst = append(dst, byte(c.Verb))
	dst = binary.AppendUvarint(dst, c.Object)
	dst = binary.AppendUvarint(dst, c.Version)
	dst = binary.AppendUvarint(dst, c.Database)
	dst = binary.AppendUvarint(dst, c.NextAuto)
	dst = wire.AppendBytes(dst, c.Name)
	dst = wire.AppendBytes(dst, c.Definition)
	return AppendIndexes(dst, c.Indexes)
}

// AppendIndexes appends a table's indexes. They are also part of the table's row in the store.
func AppendIndexes(dst []byte, all []Index) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for _, x := range all {
		dst = append(binary.AppendUvarint(dst, x.ID), byte(x.State))
	}
	return dst
}

// Decode decodes b into p, whose byte fields alias it. It uses the slices that p has. After an error p is of no use.
func (p *Part) Decode(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("decode: %w", wire.ErrShort)
	}
	*p = Part{Kind: Kind(b[0]), Tables: p.Tables[:0], Reads: p.Reads[:0], Changes: p.Changes[:0], Locks: p.Locks[:0], Ranges: p.Ranges[:0]}
	if p.Kind == 0 || p.Kind > lastKind {
		return fmt.Errorf("decode kind %d: %w", b[0], ErrKind)
	}
	r := wire.NewReader(b[1:])
	switch p.Kind {
	case Commit:
		p.decodeCommit(&r)
	case Stage:
		p.decodeStage(&r)
	case Decide:
		p.decodeDecide(&r)
	case Move:
		r.Flags(0, ErrFlags)
		p.Tx, p.Bytes = r.Uvarint(), r.Uvarint()
		if p.Tx == 0 {
			r.Fail(ErrForm)
		}
	case Define:
		p.Places = r.Flags(flagPlaces, ErrFlags) != 0
		n := r.Count(MaxChanges, 8)
		if n == 0 {
			r.Fail(ErrForm)
		}
		for range n {
			p.Changes = append(p.Changes, change(&r))
		}
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

func (p *Part) decodeCommit(r *wire.Reader) {
	flags := r.Flags(flagReads|flagRows, ErrFlags)
	last, rows := uint64(0), flags&flagRows == 0
	for range r.Count(MaxTables, 6) {
		w := Writes{Table: r.Uvarint(), Version: r.Uvarint(), Rows: r.Varint(), NextAuto: r.Uvarint()}
		if flags&flagRows != 0 {
			w.NextRow = r.Uvarint()
			rows = rows || w.NextRow != 0
		}
		w.Overwrote = r.Uvarint()
		if w.Table <= last || w.Table > MaxID {
			r.Fail(ErrForm)
		}
		last = w.Table
		w.Ops = operations(r, Delete)
		if len(w.Ops) == 0 && w.Rows == 0 && w.NextAuto == 0 && w.NextRow == 0 {
			r.Fail(ErrForm)
		}
		p.Tables = append(p.Tables, w)
	}
	if !rows { // the flag was set for nothing
		r.Fail(ErrForm)
	}
	if flags&flagReads != 0 {
		p.decodeReads(r)
	}
}

// operations decodes the ops of one table, and looks at each. last is the last action that they may have.
func operations(r *wire.Reader, last Action) []byte {
	ops := r.Bytes()
	for rest := ops; len(rest) > 0; {
		var op Op
		var err error
		if op, rest, err = NextOp(rest); err == nil && op.Action > last {
			err = ErrForm
		}
		if err != nil {
			r.Fail(err)
			break
		}
	}
	return ops
}

func (p *Part) decodeStage(r *wire.Reader) {
	p.First = r.Flags(flagFirst, ErrFlags) != 0
	p.Tx = r.Uvarint()
	last, n := uint64(0), r.Count(MaxTables, 3)
	if p.Tx == 0 || n == 0 {
		r.Fail(ErrForm)
	}
	for range n {
		w := Writes{Table: r.Uvarint(), Version: r.Uvarint()}
		w.Ops = operations(r, Retract)
		if w.Table <= last || w.Table > MaxID || len(w.Ops) == 0 {
			r.Fail(ErrForm)
		}
		last = w.Table
		p.Tables = append(p.Tables, w)
	}
}

func (p *Part) decodeDecide(r *wire.Reader) {
	flags := r.Flags(flagReads|flagRanges, ErrFlags)
	p.Verdict, p.Tx = Verdict(r.Byte()), r.Uvarint()
	if p.Verdict == 0 || p.Verdict > lastVerdict || p.Tx == 0 || p.Verdict == DropStaged && flags != 0 || p.Verdict != PrepareStaged && flags&flagRanges != 0 {
		r.Fail(ErrForm)
	}
	if p.Verdict == DropStaged {
		return
	}
	p.Hash = r.Uint64()
	last := uint64(0)
	for range r.Count(MaxTables, 4) {
		w := Writes{Table: r.Uvarint(), Version: r.Uvarint(), NextAuto: r.Uvarint(), NextRow: r.Uvarint()}
		if w.Table <= last || w.Table > MaxID || w.NextAuto == 0 && w.NextRow == 0 {
			r.Fail(ErrForm)
		}
		last = w.Table
		p.Tables = append(p.Tables, w)
	}
	if flags&flagReads != 0 {
		p.decodeReads(r)
	}
	if p.Verdict != PrepareStaged {
		return
	}
	if p.Name = r.Bytes(); len(p.Name) == 0 || len(p.Name) > MaxXID {
		r.Fail(ErrForm)
	}
	for range r.Count(r.Len(), 3) {
		l := Lock{Table: r.Uvarint()}
		index := r.Uvarint()
		l.Index, l.Shared, l.Key = index>>1, index&1 != 0, r.Bytes()
		if l.Table == 0 || l.Table > MaxID || l.Index > MaxIndexID || len(l.Key) == 0 || len(l.Key) > MaxKey {
			r.Fail(ErrForm)
		}
		p.Locks = append(p.Locks, l)
	}
	if flags&flagRanges != 0 {
		p.Ranges = Ranges(r, p.Ranges)
	}
}

// AppendRanges appends at least one range.
func AppendRanges(dst []byte, all []Range) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for i := range all {
		dst = binary.AppendUvarint(dst, all[i].Table<<1|uint64(wire.Bit(all[i].Shared, 1)))
		dst = wire.AppendBytes(wire.AppendBytes(dst, all[i].From), all[i].To)
	}
	return dst
}

// Ranges decodes what AppendRanges has written, and appends it to all. From and To alias what r reads.
func Ranges(r *wire.Reader, all []Range) []Range {
	n, bytes := r.Count(r.Len(), 3), 0
	for range n {
		table := r.Uvarint()
		one := Range{Table: table >> 1, Shared: table&1 != 0, From: r.Bytes(), To: r.Bytes()}
		for _, key := range [][]byte{one.From, one.To} {
			if len(key) == 1 || len(key) > indexBytes+MaxKey+1 {
				r.Fail(ErrForm)
			}
		}
		if bytes += len(one.From) + len(one.To); one.Table == 0 || one.Table > MaxID || len(one.To) > 0 && string(one.From) >= string(one.To) || bytes > MaxRanges {
			r.Fail(ErrForm)
		}
		all = append(all, one)
	}
	if n == 0 {
		r.Fail(ErrForm)
	}
	return all
}

// indexBytes are those of an index before a key of a Range.
const indexBytes = 2

func (p *Part) decodeReads(r *wire.Reader) {
	n := r.Count(r.Len(), 11)
	if n == 0 {
		r.Fail(ErrForm)
	}
	for range n {
		read := Read{Table: r.Uvarint(), Index: r.Uvarint(), Key: r.Bytes(), Hash: r.Uint64()}
		if read.Table > MaxID || read.Index > MaxIndexID || len(read.Key) == 0 {
			r.Fail(ErrForm)
		}
		p.Reads = append(p.Reads, read)
	}
}

func change(r *wire.Reader) Change {
	c := Change{Verb: Verb(r.Byte()), Object: r.Uvarint(), Version: r.Uvarint(), Database: r.Uvarint(), NextAuto: r.Uvarint(), Name: r.Text()}
	c.Definition = r.Bytes()
	c.Indexes = Indexes(r)
	creates := c.Verb == CreateDatabase || c.Verb == CreateTable
	named := creates || c.Verb == AlterDatabase || c.Verb == AlterTable
	ofTable := c.Verb == CreateTable || c.Verb == AlterTable
	switch {
	case c.Verb == 0 || c.Verb > lastVerb,
		creates != (c.Object == 0), creates && c.Version != 0, c.Object > MaxID, c.Database > MaxID,
		named != (c.Name != ""), len(c.Name) > MaxName, len(c.Definition) > MaxDefinition,
		!named && len(c.Definition) > 0, !ofTable && (len(c.Indexes) > 0 || c.Database != 0),
		!ofTable && c.Verb != Truncate && c.NextAuto != 0:
		r.Fail(ErrForm)
	}
	return c
}

// Indexes is the inverse of AppendIndexes.
func Indexes(r *wire.Reader) []Index {
	n := r.Count(MaxIndexes, 2)
	if n == 0 {
		return nil
	}
	all := make([]Index, 0, n)
	last := uint64(0)
	for range n {
		x := Index{ID: r.Uvarint(), State: State(r.Byte())}
		if x.ID <= last || x.ID > MaxIndexID || x.State != Building && x.State != Public {
			r.Fail(ErrForm)
		}
		last = x.ID
		all = append(all, x)
	}
	return all
}
