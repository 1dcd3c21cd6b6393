package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer/analyzererrors"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

func errValue(t sql.Type, v any) error {
	return fmt.Errorf("a value of Go type %T in a column of type %s", v, t)
}

func sameKind(a, b any) bool { return fmt.Sprintf("%T", a) == fmt.Sprintf("%T", b) }

// kinds are errors of the library to which it gives no number, or a wrong one.
var kinds = []struct {
	is   func(error) bool
	code uint16
}{
	{sql.ErrTableAlreadyExists.Is, 1050},
	{sql.ErrColumnNotFound.Is, errBadField},
	{sql.ErrTableColumnNotFound.Is, errBadField},
	{sql.ErrUnknownColumn.Is, errBadField},
	{sql.ErrAmbiguousColumnName.Is, 1052},
	{sql.ErrUnknownSystemVariable.Is, errUnknownVar},
	{sql.ErrSystemVariableReadOnly.Is, errReadOnlyVar},
	{sql.ErrInvalidSystemVariableValue.Is, errWrongValue},
	{sql.ErrNoDatabaseSelected.Is, 1046},
	{sql.ErrDatabaseNotFound.Is, 1049},
	{sql.ErrFunctionNotFound.Is, 1305},
	{sql.ErrUnsupportedFeature.Is, errNotSupported},
	{sql.ErrUnsupportedSyntax.Is, errNotSupported},
	{sql.ErrInsertIntoMismatchValueCount.Is, 1136},
	{sql.ErrColumnCountMismatch.Is, 1222},
	{sql.ErrInsertIntoNonNullableDefaultNullColumn.Is, 1364},
	{sql.ErrInsertIntoNonNullableProvidedNull.Is, 1048},
	{sql.ErrValueOutOfRange.Is, 1264},
	{sql.ErrSyntaxError.Is, errParse},
	{sql.ErrInvalidArgumentNumber.Is, 1582},
	{sql.ErrDuplicateColumn.Is, 1060},
	{sql.ErrExpectedSingleRow.Is, 1242},
	{sql.ErrMultiplePrimaryKeysDefined.Is, 1068},
	{sql.ErrInvalidAutoIncCols.Is, 1075},
	{sql.ErrJSONIndex.Is, 3152},
	{sql.ErrCollationInvalidForCharSet.Is, 1253},
	{besideAggregates, errNotSupported},
	{sql.ErrNonAggregatedColumnWithoutGroupBy.Is, 1140},
	{expression.ErrIndexOutOfBounds.Is, wire.ErrUnknown},
	{sql.ErrCheckConstraintViolated.Is, 3819},
	{sql.ErrInvalidColumnDefaultValue.Is, 1067},
	{analyzererrors.ErrValidationGroupBy.Is, 1055},
	{analyzererrors.ErrValidationGroupByOrderBy.Is, 1055},
	{types.ErrConvertToDecimalLimit.Is, 1264},
	{types.ErrLengthBeyondLimit.Is, 1406},
	{types.ErrConvertingToTime.Is, errWrongMoment},
	{types.ErrConvertingToTimeOutOfRange.Is, errWrongMoment},
	{isWrongMoment, errWrongMoment},
	{sql.ErrInvalidValue.Is, errWrongField},
}

// wrongValue takes the value and its type out of an error of the library.
var wrongValue = regexp.MustCompile(`(?s)^error: '(.*)' is not a valid value for '([a-z]+).*'$`)

// isWrongMoment reports whether a text is no date or time.
func isWrongMoment(err error) bool {
	m := wrongValue.FindStringSubmatch(err.Error())
	return m != nil && (m[2] == "date" || m[2] == "datetime" || m[2] == "timestamp" || m[2] == "time")
}

// missing stands in an error of the library that it makes without the values of its text.
const missing = "(MISSING)"

// besideAggregates reports whether a statement has window functions and aggregate functions: the library has 1140 for it, and names no column.
func besideAggregates(err error) bool {
	return sql.ErrNonAggregatedColumnWithoutGroupBy.Is(err) && strings.Contains(err.Error(), missing)
}

// mysqlError turns an error into MySQL's number and words. Errors of txn stay as they are, because the door decides by them.
func mysqlError(text, database string, err error) error {
	var own *wire.Error
	if sql.ErrUnableSort.Is(err) {
		if c, ok := err.(interface{ Cause() error }); ok && c.Cause() != nil {
			err = c.Cause()
		}
	}
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &own):
		return own
	case isTransaction(err):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return wire.Errorf(wire.ErrInterrupted, "Query execution was interrupted")
	}
	var key sql.UniqueKeyError
	if errors.As(err, &key) || sql.ErrPrimaryKeyViolation.Is(err) || sql.ErrUniqueKeyViolation.Is(err) {
		return wire.Errorf(1062, "%s", duplicateText(err))
	}
	cause := err
	var w sql.WrappedInsertError
	if errors.As(err, &w) {
		cause = w.Cause
		if errors.As(cause, &own) {
			return own
		}
		if isTransaction(cause) {
			return cause
		}
		if sql.ErrPrimaryKeyViolation.Is(cause) || sql.ErrUniqueKeyViolation.Is(cause) {
			return wire.Errorf(1062, "%s", duplicateText(cause))
		}
	}
	for _, k := range kinds {
		if k.is(cause) {
			return wire.Errorf(k.code, "%s", words(k.code, cause.Error()))
		}
	}
	if sql.ErrTableNotFound.Is(cause) {
		_, name, _ := strings.Cut(cause.Error(), ": ")
		return wire.Errorf(1146, "Table '%s' doesn't exist", qualified(database, name))
	}
	var known *mysql.SQLError
	if known = sql.CastSQLError(cause); known != nil && known.Num != mysql.ERUnknownError {
		e := wire.Errorf(uint16(known.Num), "%s", known.Message)
		return e
	}
	for prefix, code := range texts {
		if strings.HasPrefix(cause.Error(), prefix) {
			return wire.Errorf(code, "%s", words(code, cause.Error()))
		}
	}
	if strings.Contains(cause.Error(), "syntax error") {
		return syntaxError(text, cause)
	}
	return wire.Errorf(wire.ErrUnknown, "%s", words(wire.ErrUnknown, cause.Error()))
}

// texts are beginnings of errors that the library makes without a kind.
var texts = map[string]uint16{"Data truncated for column": 1265, "failed to resolve aggregate column argument": 1111, "TIME length not yet supported": errNotSupported, "table doesn't support ": errNotSupported,
	"unsupported type for greatest/least argument": errNotSupported, "function is not a window adaptable": errNotSupported, "Default value expression of column": 3772,
	"strconv.ParseFloat: parsing": 1367, "All parts of PRIMARY KEY must be NOT NULL": 1171}

// words are MySQL's for an error whose number is known. Programs read some of them.
func words(code uint16, text string) string {
	_, name, _ := strings.Cut(text, ": ")
	quoted := name
	if parts := strings.Split(text, "\""); len(parts) > 2 {
		quoted = parts[1]
	}
	switch code {
	case wire.ErrUnknown:
		if strings.Contains(text, "This is a bug") || strings.Contains(text, "github.com/") { // the library sends its users to its authors
			return "The SQL engine cannot run this statement: it has lost a column of it; write the statement in another way, and report it with the tables' definitions"
		}
	case errNotSupported:
		if strings.Contains(text, missing) {
			return refused("window functions beside aggregate functions; a derived table with the aggregates may stand below").Message
		}
	case 1049:
		return fmt.Sprintf("Unknown database '%s'", name)
	case errBadField:
		if quoted == "" {
			_, quoted, _ = strings.Cut(text, "'")
			quoted, _, _ = strings.Cut(quoted, "'")
		}
		return fmt.Sprintf("Unknown column '%s' in 'field list'", strings.Trim(quoted, "'`"))
	case 3819:
		return fmt.Sprintf("Check constraint '%s' is violated.", quoted)
	case 1052:
		return fmt.Sprintf("Column '%s' in field list is ambiguous", quoted)
	case 1060:
		return fmt.Sprintf("Duplicate column name '%s'", strings.Trim(name, "`"))
	case 1111:
		return "Invalid use of group function"
	case 1367:
		number := strings.Split(text, "\"")
		if len(number) > 1 {
			return fmt.Sprintf("Illegal double '%s' value found during parsing", number[1])
		}
	case 1171:
		return "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead"
	case 1136:
		return "Column count doesn't match value count at row 1"
	case 1242:
		return "Subquery returns more than 1 row"
	case 1048:
		_, column, _ := strings.Cut(text, "'")
		column, _, _ = strings.Cut(column, "'")
		return fmt.Sprintf("Column '%s' cannot be null", column)
	case 1264:
		if strings.HasSuffix(text, "Decimal type ") {
			return "Out of range value for column of type decimal"
		}
	case 1406:
		if _, column, ok := strings.Cut(text, "' is too large for column '"); ok {
			return fmt.Sprintf("Data too long for column '%s'", strings.TrimSuffix(column, "'"))
		}
	case errWrongMoment, errWrongField:
		if m := wrongValue.FindStringSubmatch(text); m != nil {
			if strings.HasSuffix(m[2], "int") {
				m[2] = "integer"
			}
			return fmt.Sprintf("Incorrect %s value: '%s'", m[2], m[1])
		}
	case 1305:
		return fmt.Sprintf("FUNCTION %s does not exist", strings.TrimSuffix(strings.Trim(name, "'"), "' not found"))
	}
	return text
}

// duplicateText takes the text of a duplicate key out of the library's error around it.
func duplicateText(err error) string {
	text := err.Error()
	if i := strings.Index(text, "Duplicate entry"); i >= 0 {
		text = text[i:]
		if j := strings.LastIndex(text, "'"); j >= 0 {
			text = text[:j+1]
		}
	}
	return text
}

// qualified is a table's name with its database.
func qualified(database, name string) string {
	name, _, _ = strings.Cut(name, ",") // the library adds what the client may have meant
	if database == "" || strings.Contains(name, ".") {
		return name
	}
	return database + "." + name
}

// isTransaction reports whether an error is one of txn.
func isTransaction(err error) bool {
	for _, e := range []error{txn.ErrNotLeader, txn.ErrTermOver, txn.ErrUnknown, txn.ErrDeadlock, txn.ErrLockTimeout, txn.ErrBusy, txn.ErrInterrupted,
		txn.ErrTooManyLocks, txn.ErrOverloaded, txn.ErrLevel, txn.ErrEnded, txn.ErrTooLarge, txn.ErrTooOld} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
