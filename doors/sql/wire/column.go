package wire

import "encoding/binary"

// Column describes a column of a result.
type Column struct {
	Schema   string
	Table    string // as the statement calls it
	OrgTable string // as the schema calls it
	Name     string // as the statement calls it
	OrgName  string // as the table calls it

	Collation uint16 // 63, binary, for what is no text
	Length    uint32 // the most bytes a value has as text
	Type      Type
	Flags     ColumnFlags
	Decimals  byte // 31, as many as a value has, for floating types
}

// append appends the column's definition, ColumnDefinition41.
func (c *Column) append(b []byte) []byte {
	b = appendString(b, "def")
	b = appendString(b, c.Schema)
	b = appendString(b, c.Table)
	b = appendString(b, c.OrgTable)
	b = appendString(b, c.Name)
	b = appendString(b, c.OrgName)
	b = append(b, 0x0c)
	b = binary.LittleEndian.AppendUint16(b, c.Collation)
	b = binary.LittleEndian.AppendUint32(b, c.Length)
	b = append(b, byte(c.Type))
	b = binary.LittleEndian.AppendUint16(b, uint16(c.Flags))
	return append(b, c.Decimals, 0, 0)
}
