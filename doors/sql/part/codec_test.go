package part

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/codectest"
	"github.com/holdfastdb/holdfast/internal/wire"
)

func ops(all ...Op) (b []byte) {
	for i := range all {
		b = AppendOp(b, &all[i])
	}
	return b
}

// samples holds one part of every kind and verb, the smallest and with every field in use.
func samples() []*Part {
	return []*Part{
		{Kind: Commit},
		{Kind: Commit, Tables: []Writes{{Table: 1, Version: 2, NextAuto: 7}}},
		{Kind: Commit, Tables: []Writes{
			{Table: 3, Version: 9, Rows: -1, NextAuto: 1 << 63, Overwrote: 80, Ops: ops(
				Op{Action: Insert, Key: []byte("a"), Value: []byte("row")},
				Op{Action: Update, Key: []byte("b")},
				Op{Action: Delete, Key: []byte("c")},
				Op{Action: Insert, Index: 65535, Key: []byte("k"), Value: []byte{1}},
			)},
			{Table: MaxID, Version: 1, Ops: ops(Op{Action: Delete, Key: []byte("z")})},
		}, Reads: []Read{{Table: 3, Key: []byte("a")}, {Table: 3, Index: 2, Key: []byte("k"), Hash: 1<<64 - 1}}},
		{Kind: Define, Changes: []Change{{Verb: CreateDatabase, Name: "test"}}},
		{Kind: Define, Changes: []Change{
			{Verb: CreateDatabase, Name: "test", Definition: []byte("utf8mb4")},
			{Verb: CreateTable, Name: "t", Definition: []byte("columns"), Indexes: []Index{{1, Public}, {2, Building}}, NextAuto: 100},
		}},
		{Kind: Define, Changes: []Change{
			{Verb: AlterTable, Object: 4, Version: 9, Database: 2, Name: "u", Definition: []byte("columns")},
			{Verb: Truncate, Object: 5, Version: 3, NextAuto: 1},
			{Verb: DropTable, Object: 6, Version: 4},
			{Verb: AlterDatabase, Object: 2, Version: 1, Name: "test", Definition: []byte("latin1")},
			{Verb: DropDatabase, Object: 3, Version: 1},
		}},
		{Kind: Commit, Tables: []Writes{
			{Table: 3, Version: 9, Rows: 1, NextRow: 7, Ops: ops(Op{Action: Insert, Key: []byte("a"), Value: []byte("row")})},
			{Table: 4, Version: 9, NextAuto: 2},
			{Table: 5, Version: 9, NextRow: 1 << 63},
		}, Reads: []Read{{Table: 3, Key: []byte("a")}}},
		{Kind: Stage, Tx: 1, First: true, Tables: []Writes{{Table: 3, Version: 9, Ops: ops(Op{Action: Insert, Key: []byte("a"), Value: []byte("row")})}}},
		{Kind: Stage, Tx: 1 << 40, Tables: []Writes{
			{Table: 3, Version: 9, Ops: ops(Op{Action: Delete, Key: []byte("a")}, Op{Action: Update, Index: 2, Key: []byte("k")}, Op{Action: Retract, Key: []byte("l")})},
			{Table: MaxID, Version: 1, Ops: ops(Op{Action: Update, Key: []byte("z"), Value: []byte("y")})},
		}},
		{Kind: Decide, Verdict: CommitStaged, Tx: 1, Hash: 1<<64 - 1},
		{Kind: Decide, Verdict: CommitStaged, Tx: 2, Hash: 5, Tables: []Writes{{Table: 3, Version: 9, NextAuto: 7}, {Table: 4, Version: 2, NextRow: 8}},
			Reads: []Read{{Table: 3, Key: []byte("a"), Hash: 6}}},
		{Kind: Decide, Verdict: DropStaged, Tx: 3},
		{Kind: Move, Tx: 4, Bytes: 1 << 20},
		{Kind: Decide, Verdict: PrepareStaged, Tx: 5, Name: []byte("x")},
		{Kind: Decide, Verdict: PrepareStaged, Tx: 6, Hash: 7, Name: []byte("order-1"), Tables: []Writes{{Table: 3, Version: 9, NextAuto: 7}},
			Reads: []Read{{Table: 3, Key: []byte("a"), Hash: 6}},
			Locks: []Lock{{Table: 3, Key: []byte("a"), Shared: true}, {Table: 3, Index: MaxIndexID, Key: []byte("b")}}},
		{Kind: Decide, Verdict: PrepareStaged, Tx: 7, Name: []byte("order-2"), Locks: []Lock{{Table: 3, Key: []byte("a")}},
			Ranges: []Range{{Table: 3, From: []byte("\x00\x00b"), To: []byte("\x00\x00c"), Shared: true}, {Table: 4, To: []byte("\x00\x01")}, {Table: 5, From: []byte("\x00\x02")}}},
		{Kind: Define, Places: true, Changes: []Change{{Verb: AlterTable, Object: 4, Version: 9, Database: 2, Name: "u", Definition: []byte("columns")}}},
	}
}

func decode(b []byte) (*Part, error) {
	p := new(Part)
	return p, p.Decode(b)
}

func codec() *codectest.Codec[*Part] {
	return &codectest.Codec[*Part]{Samples: samples(), Append: AppendPart, Decode: decode, Describe: Describe, Trailing: wire.ErrTrailing, Exact: true}
}

func TestGolden(t *testing.T)    { codec().Golden(t, "testdata/parts.txt") }
func TestRoundTrip(t *testing.T) { codec().RoundTrip(t) }
func FuzzDecode(f *testing.F)    { codec().Fuzz(f) }

// TestRefusals: what a later build may have written is fatal, and what makes no sense is malformed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{{0, 0}, {byte(lastKind) + 1, 0, 0}, {99}} {
		if _, err := decode(b); !errors.Is(err, ErrKind) {
			t.Errorf("unknown kind %x: %v", b, err)
		}
	}
	for _, b := range [][]byte{{byte(Commit), 4, 0}, {byte(Define), 2, 1}, {byte(Stage), 2, 1}, {byte(Decide), 4, 1, 1}, {byte(Move), 1, 1, 1}} {
		if _, err := decode(b); !errors.Is(err, ErrFlags) {
			t.Errorf("unknown flag %x: %v", b, err)
		}
	}
	one := Op{Key: []byte("k")}
	for what, p := range map[string]*Part{
		"no writes":                {Kind: Commit, Tables: []Writes{{Table: 1, Version: 1}}},
		"table 0":                  {Kind: Commit, Tables: []Writes{{Ops: ops(one)}}},
		"tables out of order":      {Kind: Commit, Tables: []Writes{{Table: 2, Ops: ops(one)}, {Table: 1, Ops: ops(one)}}},
		"a table twice":            {Kind: Commit, Tables: []Writes{{Table: 2, Ops: ops(one)}, {Table: 2, Ops: ops(one)}}},
		"a table beyond 32 bits":   {Kind: Commit, Tables: []Writes{{Table: MaxID + 1, Ops: ops(one)}}},
		"an index beyond 16 bits":  {Kind: Commit, Tables: []Writes{{Table: 1, Ops: ops(Op{Index: MaxIndexID + 1, Key: []byte("k")})}}},
		"no key":                   {Kind: Commit, Tables: []Writes{{Table: 1, Ops: ops(Op{})}}},
		"a long key":               {Kind: Commit, Tables: []Writes{{Table: 1, Ops: ops(Op{Key: make([]byte, MaxKey+1)})}}},
		"a fourth action":          {Kind: Commit, Tables: []Writes{{Table: 1, Ops: ops(Op{Action: 3, Key: []byte("k")})}}},
		"a read without a key":     {Kind: Commit, Reads: []Read{{Table: 1}}},
		"a piece of no one":        {Kind: Stage, Tables: []Writes{{Table: 1, Ops: ops(one)}}},
		"a piece of nothing":       {Kind: Stage, Tx: 1},
		"a piece without writes":   {Kind: Stage, Tx: 1, Tables: []Writes{{Table: 1}}},
		"a piece out of order":     {Kind: Stage, Tx: 1, Tables: []Writes{{Table: 2, Ops: ops(one)}, {Table: 1, Ops: ops(one)}}},
		"a verdict on no one":      {Kind: Decide, Verdict: DropStaged},
		"no verdict":               {Kind: Decide, Tx: 1},
		"an unknown verdict":       {Kind: Decide, Tx: 1, Verdict: lastVerdict + 1},
		"a dropped one has read":   {Kind: Decide, Tx: 1, Verdict: DropStaged, Reads: []Read{{Table: 1, Key: []byte("a")}}},
		"prepared without name":    {Kind: Decide, Tx: 1, Verdict: PrepareStaged},
		"prepared by a long name":  {Kind: Decide, Tx: 1, Verdict: PrepareStaged, Name: make([]byte, MaxXID+1)},
		"a lock on nothing":        {Kind: Decide, Tx: 1, Verdict: PrepareStaged, Name: []byte("x"), Locks: []Lock{{Table: 1}}},
		"a lock on no table":       {Kind: Decide, Tx: 1, Verdict: PrepareStaged, Name: []byte("x"), Locks: []Lock{{Key: []byte("k")}}},
		"a range of no table":      {Kind: Decide, Tx: 1, Verdict: PrepareStaged, Name: []byte("x"), Ranges: []Range{{Shared: true}}},
		"a range of half an index": {Kind: Decide, Tx: 1, Verdict: PrepareStaged, Name: []byte("x"), Ranges: []Range{{Table: 1, To: []byte("x")}}},
		"a range of nothing":       {Kind: Decide, Tx: 1, Verdict: PrepareStaged, Name: []byte("x"), Ranges: []Range{{Table: 1, From: []byte("\x00\x00b"), To: []byte("\x00\x00b")}}},
		"a committed range":        {Kind: Decide, Tx: 1, Verdict: CommitStaged, Ranges: []Range{{Table: 1}}},
		"too much of ranges": {Kind: Decide, Tx: 1, Verdict: PrepareStaged, Name: []byte("x"),
			Ranges: slices.Repeat([]Range{{Table: 1, From: make([]byte, MaxKey)}}, MaxRanges/MaxKey+1)},
		"a number that stays":     {Kind: Decide, Tx: 1, Verdict: CommitStaged, Tables: []Writes{{Table: 1, Version: 1}}},
		"a move of no one":        {Kind: Move, Bytes: 1},
		"no changes":              {Kind: Define},
		"no verb":                 {Kind: Define, Changes: []Change{{Name: "x"}}},
		"an unknown verb":         {Kind: Define, Changes: []Change{{Verb: lastVerb + 1, Object: 1}}},
		"a database without name": {Kind: Define, Changes: []Change{{Verb: CreateDatabase}}},
		"a new one with an id":    {Kind: Define, Changes: []Change{{Verb: CreateTable, Object: 1, Name: "x"}}},
		"a new one with version":  {Kind: Define, Changes: []Change{{Verb: CreateTable, Version: 1, Name: "x"}}},
		"a drop of nothing":       {Kind: Define, Changes: []Change{{Verb: DropTable}}},
		"a drop with a name":      {Kind: Define, Changes: []Change{{Verb: DropTable, Object: 1, Name: "x"}}},
		"a drop with definition":  {Kind: Define, Changes: []Change{{Verb: DropTable, Object: 1, Definition: []byte("x")}}},
		"a drop with an index":    {Kind: Define, Changes: []Change{{Verb: DropTable, Object: 1, Indexes: []Index{{1, Public}}}}},
		"a database's database":   {Kind: Define, Changes: []Change{{Verb: CreateDatabase, Name: "x", Database: 1}}},
		"a drop with a value":     {Kind: Define, Changes: []Change{{Verb: DropTable, Object: 1, NextAuto: 1}}},
		"a long name":             {Kind: Define, Changes: []Change{{Verb: CreateDatabase, Name: strings.Repeat("x", MaxName+1)}}},
		"a long definition":       {Kind: Define, Changes: []Change{{Verb: CreateDatabase, Name: "x", Definition: make([]byte, MaxDefinition+1)}}},
		"index 0":                 {Kind: Define, Changes: []Change{{Verb: CreateTable, Name: "x", Indexes: []Index{{0, Public}}}}},
		"indexes out of order":    {Kind: Define, Changes: []Change{{Verb: CreateTable, Name: "x", Indexes: []Index{{2, Public}, {1, Public}}}}},
		"a state of none":         {Kind: Define, Changes: []Change{{Verb: CreateTable, Name: "x", Indexes: []Index{{1, 0}}}}},
		"an unknown state":        {Kind: Define, Changes: []Change{{Verb: CreateTable, Name: "x", Indexes: []Index{{1, 3}}}}},
	} {
		if got, err := decode(AppendPart(nil, p)); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	if _, err := decode([]byte{byte(Commit), flagRows, 1, 3, 9, 0, 5, 0, 0, 0}); !errors.Is(err, ErrForm) {
		t.Errorf("numbers of rows without one: %v", err)
	}
	if _, err := decode(AppendPart(nil, &Part{Kind: Define, Changes: []Change{{Verb: CreateTable, Name: "x", Indexes: make([]Index, MaxIndexes+1)}}})); !errors.Is(err, wire.ErrCount) {
		t.Errorf("too many indexes: %v", err)
	}
}

// TestLevels: a part that an older build does not know waits for the level of those that do.
func TestLevels(t *testing.T) {
	t.Parallel()
	for _, p := range samples() {
		want := uint16(0)
		if p.Kind >= Stage {
			want = StageLevel
		}
		if p.Places {
			want = PlacesLevel
		}
		if len(p.Ranges) > 0 {
			want = RangesLevel
		}
		if got := PartLevel(AppendPart(nil, p)); got != want {
			t.Errorf("%s needs level %d, want %d", p, got, want)
		}
	}
	if PartLevel(nil) != 0 {
		t.Error("no part needs a level")
	}
}
