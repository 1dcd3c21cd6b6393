package lock

// Mode is what a lock allows its owner to do.
type Mode uint8

// The modes. Shared and Exclusive are of rows, of ranges and of tables. The intents are of ranges and of tables, the others of tables alone.
const (
	// Metadata keeps a table's definition as it is. Every statement that names the table takes it, plain reads too.
	Metadata Mode = iota
	// IntentShared and IntentExclusive announce locks on rows. Each keeps the definition as it is.
	IntentShared
	IntentExclusive
	// Shared is that of a locking read.
	Shared
	// AllRows is Exclusive on every row of a table at once. It keeps the definition as it is, and lets reads through that lock nothing.
	AllRows
	// Exclusive is that of a write. On a table it is that of a change of its definition.
	Exclusive
	modes
)

func (m Mode) String() string {
	return [...]string{"metadata", "intent shared", "intent exclusive", "shared", "all rows", "exclusive"}[m]
}

// IntentOf is what an owner of a lock on a row holds on its table, and on the ranges over it.
func IntentOf(m Mode) Mode { return intents[m] }

// intents: a Mode that is not of rows has none.
var intents = [modes]Mode{Shared: IntentShared, Exclusive: IntentExclusive}

// Covers reports whether the owner of a lock needs no other for a mode.
func (m Mode) Covers(other Mode) bool { return covers[other]&(1<<m) != 0 }

// set is a set of modes, a bit each.
type set uint8

// conflicts has for each mode those that another owner must not hold beside it. The table is symmetric.
var conflicts = [modes]set{
	Metadata:        1 << Exclusive,
	IntentShared:    1<<AllRows | 1<<Exclusive,
	IntentExclusive: 1<<Shared | 1<<AllRows | 1<<Exclusive,
	Shared:          1<<IntentExclusive | 1<<AllRows | 1<<Exclusive,
	AllRows:         1<<IntentShared | 1<<IntentExclusive | 1<<Shared | 1<<AllRows | 1<<Exclusive,
	Exclusive:       1<<Metadata | 1<<IntentShared | 1<<IntentExclusive | 1<<Shared | 1<<AllRows | 1<<Exclusive,
}

// covers has for each mode those whose owner needs no other lock for it.
var covers = [modes]set{
	Metadata:        1<<Metadata | 1<<IntentShared | 1<<IntentExclusive | 1<<Shared | 1<<AllRows | 1<<Exclusive,
	IntentShared:    1<<IntentShared | 1<<IntentExclusive | 1<<Shared | 1<<AllRows | 1<<Exclusive,
	IntentExclusive: 1<<IntentExclusive | 1<<AllRows | 1<<Exclusive,
	Shared:          1<<Shared | 1<<AllRows | 1<<Exclusive,
	AllRows:         1<<AllRows | 1<<Exclusive,
	Exclusive:       1 << Exclusive,
}
