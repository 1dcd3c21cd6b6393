package row

import (
	"encoding/binary"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
)

// A table's definition may change without its rows. So each column has a place in stored rows, which it keeps: a column that comes gets the next place,
// whichever column it stands behind, and one that goes leaves its place to no other. A row says how many places it was written with. Those behind them
// have the values that their columns were given when they came. A number for each value in a row was rejected: it would be in every row of every table,
// for what few tables have.

// Kind says how the bytes of a value are passed over where nobody knows its type any more. Numbers are part of the format of definitions.
type Kind byte

// The kinds.
const (
	KindVarint  Kind = 1 + iota
	KindEight        // 8 bytes
	KindDecimal      // a byte that says how many follow
	KindText         // a length, and so many bytes
	kinds
)

// Place is a place of stored rows.
type Place struct {
	// Column is the place of its column among the layout's. Negative: the column was dropped.
	Column int
	// Kind is that of a column that was dropped.
	Kind Kind
	// Initial is the value, as a row has it, of the rows that do not have the place. Nil: NULL.
	Initial []byte
}

// place is a Place in a Layout.
type place struct {
	column  int
	kind    Kind
	initial []byte
}

// NewPlaced returns a layout whose rows have these places. Each column has one. first is how many places the rows of the first version have.
// Errors: ErrType, ErrForm.
func NewPlaced(columns []sql.Type, digits func(int) int, first int, places []Place) (*Layout, error) {
	l, err := NewLayout(columns, digits)
	if err != nil {
		return nil, err
	}
	l.first, l.places = first, make([]place, len(places))
	has := make([]bool, len(columns))
	for i, p := range places {
		l.places[i] = place{column: p.Column, kind: p.Kind, initial: p.Initial}
		if p.Column < 0 {
			if p.Kind == 0 || p.Kind >= kinds {
				return nil, fmt.Errorf("%w: place %d", ErrForm, i)
			}
			continue
		}
		if p.Column >= len(columns) || has[p.Column] {
			return nil, fmt.Errorf("%w: place %d", ErrForm, i)
		}
		has[p.Column] = true
		if p.Initial == nil {
			continue
		}
		if _, rest, err := l.fields[p.Column].decode(p.Initial); err != nil || len(rest) > 0 {
			return nil, fmt.Errorf("%w: place %d", ErrForm, i)
		}
	}
	for i := range has {
		if !has[i] {
			return nil, fmt.Errorf("%w: column %d has no place", ErrForm, i)
		}
	}
	if first < 0 || first > len(places) {
		return nil, fmt.Errorf("%w: %d places of %d", ErrForm, first, len(places))
	}
	return l, nil
}

// KindOf is how the values of a column are passed over.
func (l *Layout) KindOf(column int) Kind {
	switch l.fields[column].form {
	case formInt, formUint, formTime, formDuration, formYear:
		return KindVarint
	case formFloat:
		return KindEight
	case formDecimal:
		return KindDecimal
	}
	return KindText
}

// AppendValue appends the value of a column as a row has it. It is not NULL. Error: ErrValue.
func (l *Layout) AppendValue(ctx *sql.Context, dst []byte, column int, v any) ([]byte, error) {
	return l.fields[column].append(ctx, dst, v)
}

func (l *Layout) appendPlaced(ctx *sql.Context, dst []byte, values sql.Row) ([]byte, error) {
	dst = binary.AppendUvarint(append(dst, placedVersion), uint64(len(l.places)))
	nulls := len(dst)
	for range (len(l.places) + 7) / 8 {
		dst = append(dst, 0)
	}
	for i := range l.places {
		c := l.places[i].column
		if c < 0 || values[c] == nil {
			dst[nulls+i/8] |= 1 << (i % 8)
			continue
		}
		var err error
		if dst, err = l.fields[c].append(ctx, dst, values[c]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (l *Layout) decodePlaced(value []byte, more int) (sql.Row, error) {
	if len(value) == 0 {
		return nil, ErrForm
	}
	n, b := l.first, value[1:]
	switch value[0] {
	case version:
	case placedVersion:
		count, size := binary.Uvarint(b)
		if size <= 0 || count > uint64(len(l.places)) {
			return nil, ErrForm
		}
		n, b = int(count), b[size:]
	default:
		return nil, ErrForm
	}
	bits := (n + 7) / 8
	if len(b) < bits {
		return nil, ErrForm
	}
	nulls, b := b[:bits], b[bits:]
	r := make(sql.Row, len(l.fields), len(l.fields)+more)
	var err error
	for i := range l.places {
		p := &l.places[i]
		switch {
		case i >= n:
			if p.column >= 0 && p.initial != nil {
				if r[p.column], _, err = l.fields[p.column].decode(p.initial); err != nil {
					return nil, err
				}
			}
		case nulls[i/8]&(1<<(i%8)) != 0:
		case p.column < 0:
			if b, err = pass(p.kind, b); err != nil {
				return nil, err
			}
		default:
			if r[p.column], b, err = l.fields[p.column].decode(b); err != nil {
				return nil, err
			}
		}
	}
	if len(b) != 0 {
		return nil, ErrForm
	}
	return r, nil
}

// pass passes over a value.
func pass(k Kind, b []byte) (rest []byte, err error) {
	n := 0
	switch k {
	case KindVarint:
		if _, n = binary.Uvarint(b); n <= 0 {
			return nil, ErrForm
		}
	case KindEight:
		n = 8
	case KindDecimal:
		if n = decimalBytes(b); n == 0 {
			return nil, ErrForm
		}
	case KindText:
		length, size := binary.Uvarint(b)
		if size <= 0 || length > uint64(len(b)-size) {
			return nil, ErrForm
		}
		n = size + int(length)
	}
	if n > len(b) {
		return nil, ErrForm
	}
	return b[n:], nil
}
