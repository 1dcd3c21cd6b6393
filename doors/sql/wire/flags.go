package wire

// Capabilities are the flags by which client and server agree on the protocol's variants. Source: MySQL 8.0, "Capabilities Flags".
type Capabilities uint32

// The capabilities this package knows. The client has those that both sides announced.
const (
	LongPassword     Capabilities = 1 << 0
	FoundRows        Capabilities = 1 << 1 // an UPDATE's count is of the rows found, not of those changed
	LongFlag         Capabilities = 1 << 2
	ConnectWithDB    Capabilities = 1 << 3
	odbc             Capabilities = 1 << 6
	IgnoreSpace      Capabilities = 1 << 8
	protocol41       Capabilities = 1 << 9
	Interactive      Capabilities = 1 << 10
	useTLS           Capabilities = 1 << 11
	ignoreSigpipe    Capabilities = 1 << 12
	transactions     Capabilities = 1 << 13
	reserved         Capabilities = 1 << 14
	secureConnection Capabilities = 1 << 15
	MultiStatements  Capabilities = 1 << 16
	MultiResults     Capabilities = 1 << 17
	psMultiResults   Capabilities = 1 << 18
	pluginAuth       Capabilities = 1 << 19
	connectAttrs     Capabilities = 1 << 20
	pluginAuthLenenc Capabilities = 1 << 21
	deprecateEOF     Capabilities = 1 << 24
)

// announced are the capabilities of this server. useTLS is added where the server has a certificate. Compression, LOCAL INFILE, query
// attributes and session tracking are not announced, so no client asks for them.
const announced = LongPassword | FoundRows | LongFlag | ConnectWithDB | odbc | IgnoreSpace | protocol41 | Interactive | ignoreSigpipe |
	transactions | reserved | secureConnection | MultiStatements | MultiResults | psMultiResults | pluginAuth | connectAttrs |
	pluginAuthLenenc | deprecateEOF

// Status are the flags of an OK or EOF packet. Source: MySQL 8.0, "SERVER_STATUS_flags_enum".
type Status uint16

// The status flags that a Session sets. statusMore is the Answer's own.
const (
	InTransaction       Status = 1 << 0
	Autocommit          Status = 1 << 1
	statusMore          Status = 1 << 3
	NoGoodIndexUsed     Status = 1 << 4
	NoIndexUsed         Status = 1 << 5
	NoBackslashEscapes  Status = 1 << 9
	ReadOnlyTransaction Status = 1 << 13
)

// Type is the type of a column or of a parameter. Source: MySQL 8.0, "enum_field_types".
type Type byte

// The types that go over the wire.
const (
	Decimal    Type = 0 // old clients' parameters only; columns are NewDecimal
	Tiny       Type = 1
	Short      Type = 2
	Long       Type = 3
	Float      Type = 4
	Double     Type = 5
	Null       Type = 6
	Timestamp  Type = 7
	LongLong   Type = 8
	Int24      Type = 9
	Date       Type = 10
	Time       Type = 11
	DateTime   Type = 12
	Year       Type = 13
	VarChar    Type = 15
	Bit        Type = 16
	JSON       Type = 245
	NewDecimal Type = 246
	Enum       Type = 247
	Set        Type = 248
	TinyBlob   Type = 249
	MediumBlob Type = 250
	LongBlob   Type = 251
	Blob       Type = 252
	VarString  Type = 253
	String     Type = 254
	Geometry   Type = 255
)

// ColumnFlags say more of a column. Source: MySQL 8.0, "Column Definition Flags".
type ColumnFlags uint16

// The flags of a column.
const (
	NotNull       ColumnFlags = 1 << 0
	PrimaryKey    ColumnFlags = 1 << 1
	UniqueKey     ColumnFlags = 1 << 2
	MultipleKey   ColumnFlags = 1 << 3
	BlobColumn    ColumnFlags = 1 << 4
	Unsigned      ColumnFlags = 1 << 5
	ZeroFill      ColumnFlags = 1 << 6
	Binary        ColumnFlags = 1 << 7
	EnumColumn    ColumnFlags = 1 << 8
	AutoIncrement ColumnFlags = 1 << 9
	TimestampAuto ColumnFlags = 1 << 10
	SetColumn     ColumnFlags = 1 << 11
	NoDefault     ColumnFlags = 1 << 12
	OnUpdateNow   ColumnFlags = 1 << 13
	Number        ColumnFlags = 1 << 15
)
