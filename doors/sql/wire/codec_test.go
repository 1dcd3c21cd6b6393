package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"
)

// TestNumbers: length-encoded integers in their shortest form, and what is none.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    uint64
		want string
	}{
		{0, "00"}, {250, "fa"}, {251, "fcfb00"}, {1<<16 - 1, "fcffff"}, {1 << 16, "fd000001"}, {1<<24 - 1, "fdffffff"},
		{1 << 24, "fe0000000100000000"}, {math.MaxUint64, "feffffffffffffffff"},
	} {
		b := appendInt(nil, c.n)
		if fmt.Sprintf("%x", b) != c.want {
			t.Errorf("%d is %x, want %s", c.n, b, c.want)
		}
		f := fields{b: append(b, 9)}
		if n := f.int(); n != c.n || f.bad || len(f.b) != 1 {
			t.Errorf("%x is read as %d, %v, %d left", b, n, f.bad, len(f.b))
		}
		for k := range b {
			f := fields{b: b[:k]}
			if n := f.int(); n != 0 || !f.bad {
				t.Errorf("%x is read as %d", b[:k], n)
			}
		}
	}
	for _, first := range []byte{0xfb, 0xff} {
		f := fields{b: []byte{first, 1, 2, 3, 4, 5, 6, 7, 8}}
		if n := f.int(); n != 0 || !f.bad {
			t.Errorf("%#x is read as %d", first, n)
		}
	}
}

// TestPasswords: the vectors of SHA-crypt are glibc's, made with Python's crypt.
func TestPasswords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		password, salt string
		rounds         int
		want           string
	}{
		{"Hello world!", "saltstring", 5000, "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"},
		{"we have a short salt string but not a short password", "short", 77777, "JiO1O3ZpDAxGJeaDIuqCoEFysAe1mZNJRs3pw0KQRd/"},
		{"a", "x", 1000, "SQwVBUy5LmuITCN/Pzolg3R9CfHva3WZZYnD1O10qB5"},
		{strings.Repeat("x", 70), "0123456789abcdef", 5000, "PtktarChupU2HspS5L2tzUZeyI7SEI/LGbCZCyq.ic5"},
	} {
		if got := sha256Crypt([]byte(c.password), []byte(c.salt), c.rounds); string(got) != c.want {
			t.Errorf("%q with %q: %s, want %s", c.password, c.salt, got, c.want)
		}
	}
	if got := fmt.Sprintf("%X", NativeVerifier("password")); got != "2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19" { // SELECT PASSWORD('password')
		t.Errorf("the native verifier: %s", got)
	}
	v := SHA2Verifier("secret")
	if !checkSHA2(v, []byte("secret")) || checkSHA2(v, []byte("Secret")) || checkSHA2(v, nil) || checkSHA2(nil, nil) || checkSHA2(decoy, nil) {
		t.Error("a verifier takes a wrong password, or not its own")
	}
	if NativeVerifier("") != nil || SHA2Verifier("") != nil {
		t.Error("the empty password has a verifier")
	}
	for _, bad := range []string{"", "$A$005$", "$B$005" + string(v[6:]), "$A$0x5" + string(v[6:]), "$A$000" + string(v[6:]), "$A$005." + string(v[7:])} {
		if _, _, _, err := parseSHA2([]byte(bad)); err == nil {
			t.Errorf("%q passes for a verifier", bad)
		}
	}
}

// TestProved remembers what was proved, within its bound.
func TestProved(t *testing.T) {
	t.Parallel()
	var p Proved
	for i := range mostProved {
		p.put(fmt.Appendf(nil, "v%d", i), []byte("x"))
	}
	if _, ok := p.get([]byte("v0")); !ok || len(p.fast) != mostProved {
		t.Errorf("%d are remembered", len(p.fast))
	}
	p.put([]byte("one more"), []byte("y"))
	if fast, ok := p.get([]byte("one more")); !ok || len(p.fast) != 1 || fast != sha2Fast([]byte("y")) {
		t.Errorf("%d are remembered", len(p.fast))
	}
}

// TestValues as text and in binary form. Source of the binary forms: MySQL 8.0, "Binary Protocol Value".
func TestValues(t *testing.T) {
	t.Parallel()
	at := Moment{Year: 2026, Month: 11, Day: 26, Hour: 1, Minute: 2, Second: 3, Micro: 40_500}
	for _, c := range []struct {
		typ      Type
		decimals byte
		value    any
		text     string
		binary   string
	}{
		{Tiny, 0, int64(-1), "-1", "ff"},
		{Tiny, 0, uint64(255), "255", "ff"},
		{Short, 0, int64(-2), "-2", "feff"},
		{Year, 0, uint64(2026), "2026", "ea07"},
		{Int24, 0, int64(-3), "-3", "fdffffff"},
		{Long, 0, uint64(math.MaxUint32), "4294967295", "ffffffff"},
		{LongLong, 0, int64(math.MinInt64), "-9223372036854775808", "0000000000000080"},
		{LongLong, 0, uint64(math.MaxUint64), "18446744073709551615", "ffffffffffffffff"},
		{Float, 31, 0.1, "0.1", "cdcccc3d"},
		{Double, 31, 0.1, "0.1", "9a9999999999b93f"},
		{Double, 31, 0.0, "0", "0000000000000000"},
		{Double, 31, -1e15, "-1e15", ""},
		{Double, 31, 123456789012345.0, "123456789012345", ""},
		{Double, 31, 1.5e-20, "1.5e-20", ""},
		{Double, 31, 1e-15, "0.000000000000001", ""},
		{Double, 31, 1.25e300, "1.25e300", ""},
		{VarString, 0, "añ", "añ", "0361c3b1"},
		{Date, 0, at, "2026-11-26", "04ea070b1a"},
		{Date, 0, Moment{}, "0000-00-00", "00"},
		{DateTime, 0, at, "2026-11-26 01:02:03", "0bea070b1a010203349e0000"},
		{DateTime, 6, at, "2026-11-26 01:02:03.040500", "0bea070b1a010203349e0000"},
		{Timestamp, 2, Moment{Year: 2026, Month: 1, Day: 2, Second: 9}, "2026-01-02 00:00:09.00", "07ea070102000009"},
		{DateTime, 0, Moment{Year: 2026, Month: 1, Day: 2}, "2026-01-02 00:00:00", "04ea070102"},
		{Time, 0, Moment{Negative: true, Day: 34, Hour: 22, Minute: 59, Second: 59}, "-838:59:59", "080122000000163b3b"},
		{Time, 3, Moment{Hour: 1, Micro: 7000}, "01:00:00.007", "0c0000000000010000581b0000"},
		{Time, 0, Moment{}, "00:00:00", "00"},
	} {
		for _, binary := range []bool{false, true} {
			cn := &conn{}
			a := Answer{c: cn, binary: binary, open: true, columns: []Column{{Type: c.typ, Decimals: c.decimals}}}
			switch v := c.value.(type) {
			case int64:
				a.Int(v)
			case uint64:
				a.Uint(v)
			case float64:
				a.Float(v)
			case string:
				a.Text(v)
			case Moment:
				a.Moment(v)
			}
			b := cn.out.buf[headBytes:]
			if !binary {
				if f := (fields{b: b}); string(f.string()) != c.text || f.bad || len(f.b) > 0 {
					t.Errorf("%v of type %d is %q as text, want %q", c.value, c.typ, b, c.text)
				}
				continue
			}
			if got := fmt.Sprintf("%x", b[2:]); c.binary != "" && got != c.binary {
				t.Errorf("%v of type %d is %s in binary form, want %s", c.value, c.typ, got, c.binary)
			}
		}
	}
}

// TestMoments: a client's dates and durations come back as they went.
func TestMoments(t *testing.T) {
	t.Parallel()
	for _, m := range []Moment{{}, {Year: 1}, {Year: 9999, Month: 12, Day: 31}, {Year: 2026, Month: 2, Day: 3, Hour: 23}, {Year: 2026, Month: 2, Day: 3, Micro: 1}} {
		var back Moment
		f := fields{b: m.appendDate(nil, true)}
		if err := back.readDate(&f); err != nil || back != m || f.bad || len(f.b) > 0 {
			t.Errorf("%+v comes back as %+v %v", m, back, err)
		}
	}
	for _, m := range []Moment{{}, {Day: 34, Negative: true}, {Second: 1}, {Micro: 999_999, Negative: true}} {
		var back Moment
		f := fields{b: m.appendTime(nil)}
		if err := back.readTime(&f); err != nil || back != m || f.bad || len(f.b) > 0 {
			t.Errorf("%+v comes back as %+v %v", m, back, err)
		}
	}
	for n := range 20 {
		b := append([]byte{byte(n)}, make([]byte, n)...)
		date, dur := fields{b: b}, fields{b: b}
		if err := new(Moment).readDate(&date); (err == nil) != (n == 0 || n == 4 || n == 7 || n == 11) {
			t.Errorf("a date of %d bytes: %v", n, err)
		}
		if err := new(Moment).readTime(&dur); (err == nil) != (n == 0 || n == 8 || n == 12) {
			t.Errorf("a duration of %d bytes: %v", n, err)
		}
	}
}

// TestTypesAreRemembered: a client sends the types of its parameters once.
func TestTypesAreRemembered(t *testing.T) {
	t.Parallel()
	s, p := &statement{count: 3}, make([]Param, 3)
	read := func(b ...byte) error { f := fields{b: b}; return s.read(&f, p) }
	if err := read(0, 0, 1, 2, 3); err == nil {
		t.Error("values without types")
	}
	if err := read(0b010, 1, 1, 0, 1, 0x80, 2, 0x80, 0xff, 0xfe, 0xff); err != nil {
		t.Fatal(err)
	}
	if p[0].Int != -1 || p[1].Kind != IsNull || p[2].Kind != IsUint || p[2].Uint != 0xfffe {
		t.Errorf("%+v", p)
	}
	if err := read(0, 0, 5, 6, 7, 0); err != nil {
		t.Fatal(err)
	}
	if p[0].Int != 5 || p[1].Kind != IsUint || p[1].Uint != 6 || p[2].Uint != 7 {
		t.Errorf("%+v", p)
	}
	for _, b := range [][]byte{{}, {0}, {0, 2}, {0, 1, 1}, {0, 0, 5, 6, 7}, {0, 1, 200, 0, 1, 0, 1, 0, 1, 1, 1}, {0, 1, 253, 0, 1, 0, 1, 0, 9, 1, 1}} {
		if err := read(b...); err == nil {
			t.Errorf("%x is read as %+v", b, p)
		}
	}
}

// said is a connection on which a client has said everything already. What the server answers is dropped.
type said struct {
	net.Conn
	r io.Reader
}

func (s *said) Read(b []byte) (int, error)       { return s.r.Read(b) }
func (s *said) Write(b []byte) (int, error)      { return len(b), nil }
func (s *said) Close() error                     { return nil }
func (s *said) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (s *said) SetDeadline(time.Time) error      { return nil }
func (s *said) SetReadDeadline(time.Time) error  { return nil }
func (s *said) SetWriteDeadline(time.Time) error { return nil }

// FuzzConversation: whatever a client says after a login, the server neither panics nor takes more memory than was sent.
func FuzzConversation(f *testing.F) {
	packet := func(seq byte, b ...byte) []byte {
		return append([]byte{byte(len(b)), byte(len(b) >> 8), byte(len(b) >> 16), seq}, b...)
	}
	f.Add(false, packet(1, loginOf(rawCapabilities, "root")...))
	f.Add(false, packet(1, loginOf(rawCapabilities|connectAttrs|ConnectWithDB|pluginAuthLenenc, "sha2")...))
	f.Add(true, packet(0, append([]byte{comQuery}, "select a; half"...)...))
	f.Add(true, append(packet(0, append([]byte{comStmtPrepare}, "? ?"...)...), packet(0, comStmtExecute, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 8, 0, 12, 0)...))
	f.Add(true, append(packet(0, append([]byte{comStmtPrepare}, "?"...)...), packet(0, comStmtSendLong, 1, 0, 0, 0, 0, 0, 'x')...))
	f.Add(true, packet(0, append([]byte{comChangeUser}, "root\x00\x00db\x00\x2d\x00caching_sha2_password\x00"...)...))
	f.Add(true, packet(0, append([]byte{comFieldList}, "t\x00%"...)...))
	f.Add(true, packet(0, comSetOption, 1, 0))
	f.Fuzz(func(t *testing.T, loggedIn bool, b []byte) {
		if bytes.Contains(b, []byte("wait")) || bytes.Contains(b, []byte("rows")) || bytes.Contains(b, []byte("long")) {
			return // they wait, do not end, or are large
		}
		if loggedIn {
			b = append(packet(1, loginOf(rawCapabilities, "root")...), b...)
		}
		memory := &room{left: 1 << 30}
		s := &Server{Version: "8", Key: theKey, Room: memory, Accounts: users{"root": {Plugin: CachingSHA2}, "sha2": {Plugin: CachingSHA2,
			Verifier: SHA2Verifier("two")}}, Open: func(_ context.Context, c *Client) (Session, error) {
			return &echo{client: c, closed: make(chan struct{})}, nil
		}}
		s.awake = true // there is no socket for a sentry to look at
		s.Serve(t.Context(), &said{r: bytes.NewReader(b)})
		if memory.left != 1<<30 || s.statements.Load() != 0 || len(s.conns) != 0 {
			t.Errorf("%d bytes, %d statements and %d connections are left over", 1<<30-memory.left, s.statements.Load(), len(s.conns))
		}
		if memory.drawn > int64(2*len(b)) {
			t.Errorf("%d bytes were taken for %d", memory.drawn, len(b))
		}
	})
}
