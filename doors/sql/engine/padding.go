package engine

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

func init() {
	functions["lpad"] = ofValues("lpad", 3, 3, likeFirst, padText)
	functions["rpad"] = ofValues("rpad", 3, 3, likeFirst, padText)
	functions["sign"] = ofValues("sign", 1, 1, always(types.Int64), func(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
		return int64(f.number(ctx, values, 0).decimal().Sign()), nil
	})
}

// likeFirst is the type of a function whose text is made of its first argument's characters.
func likeFirst(c *sql.Context, args []sql.Expression) sql.Type {
	if types.IsBinaryType(args[0].Type(c)) {
		return types.LongBlob
	}
	return types.CreateLongText(together(c, args[0], args[len(args)-1]).id)
}

// padText is LPAD or RPAD, whose length counts characters, and bytes of a binary string. A text that is longer is cut at its end.
func padText(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
	w := f.whole(ctx, values, 1)
	if w.negative {
		return nil, nil
	}
	text, pad := plainText(ctx, values[0], f.args[0].Type(ctx)), plainText(ctx, values[2], f.args[2].Type(ctx))
	binary := types.IsBinaryType(f.typ)
	count := utf8.RuneCountInString
	cut := func(s string, n int) string {
		at := 0
		for range n {
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
		}
		return s[:at]
	}
	if binary {
		count, cut = func(s string) int { return len(s) }, func(s string, n int) string { return s[:n] }
	}
	made := func(s string) (any, error) {
		if binary {
			return []byte(s), nil
		}
		return s, nil
	}
	has := count(text)
	if !w.over && w.size <= uint64(has) {
		return made(cut(text, int(w.size)))
	}
	if pad == "" {
		return made("")
	}
	most := cmp.Or(sessionOf(ctx).e.opt.MaxPacket, leastParsed)
	if w.over || w.size > uint64(most) {
		ctx.Warn(1301, "Result of %s() was larger than max_allowed_packet (%d) - truncated", f.name, most)
		return nil, nil
	}
	missing, of := int(w.size)-has, count(pad)
	filling := strings.Repeat(pad, missing/of) + cut(pad, missing%of)
	if len(filling)+len(text) > most {
		ctx.Warn(1301, "Result of %s() was larger than max_allowed_packet (%d) - truncated", f.name, most)
		return nil, nil
	}
	if f.name == "lpad" {
		return made(filling + text)
	}
	return made(text + filling)
}

// plainText is a value as the text that functions of texts take.
func plainText(ctx *sql.Context, v any, t sql.Type) string {
	switch s := v.(type) {
	case string:
		if textual(t) || types.IsText(t) {
			return s
		}
	case []byte:
		return string(s)
	}
	if s, _, err := types.ConvertToCollatedString(ctx, v, t); err == nil {
		return s
	}
	return ""
}

// ofCodes is CHAR. of is its collation: the library forgets it with each change of the expression.
func ofCodes(x *function.Char, of sql.CollationID) sql.Expression {
	args := x.Children()
	var typ sql.Type
	if of == sql.Collation_binary || of == sql.Collation_Unspecified {
		of, typ = sql.Collation_binary, types.MustCreateString(sqltypes.VarBinary, int64(len(args)*4), sql.Collation_binary)
	} else {
		typ = types.MustCreateString(sqltypes.VarChar, int64(len(args)*4), of)
	}
	return &codes{valueFunction: valueFunction{name: "char", args: args, typ: typ}, of: of}
}

// codes is CHAR: each number is up to four bytes, and the bytes are a text of a character set. NULL is left out.
type codes struct {
	valueFunction
	of sql.CollationID
}

// WithChildren implements sql.Expression.
func (x *codes) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *x
	n.args = children
	return &n, nil
}

// Eval implements sql.Expression.
func (x *codes) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	var b []byte
	for i, a := range x.args {
		v, err := evalPlain(ctx, a, r)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		values := make([]any, len(x.args))
		values[i] = v
		n := uint32(x.whole(ctx, values, i).bits())
		for shift := 24; shift >= 0; shift -= 8 {
			if shift == 0 || n>>shift != 0 {
				b = append(b, byte(n>>shift))
			}
		}
	}
	if x.of == sql.Collation_binary {
		return b, nil
	}
	set := x.of.CharacterSet()
	unit := map[sql.CharacterSetID]int{sql.CharacterSet_utf16: 2, sql.CharacterSet_utf16le: 2, sql.CharacterSet_ucs2: 2, sql.CharacterSet_utf32: 4}[set]
	for unit > 0 && len(b)%unit != 0 { // zeros before the first byte complete its character
		b = append([]byte{0}, b...)
	}
	text, ok := set.Encoder().Decode(b)
	if !ok || !utf8.Valid(text) {
		ctx.Warn(1300, "Invalid %s character string: '%X'", set.Name(), b)
		return nil, nil
	}
	return string(text), nil
}
