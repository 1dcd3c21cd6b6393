package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// raw is a client that says what it likes.
type raw struct {
	t  testing.TB
	nc net.Conn
}

func (r *rig) dial(t testing.TB) *raw {
	t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(wait.Limit(t))); err != nil {
		t.Fatal(err)
	}
	return &raw{t, nc}
}

// send sends a packet.
func (c *raw) send(seq byte, payload ...byte) {
	c.t.Helper()
	n := len(payload)
	c.write(append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}, payload...))
}

func (c *raw) write(b []byte) {
	if _, err := c.nc.Write(b); err != nil {
		c.t.Logf("write: %v", err) // the server may have closed the connection already
	}
}

// read returns the next packet with its head.
func (c *raw) read() ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.nc, head); err != nil {
		return nil, err
	}
	b := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, err := io.ReadFull(c.nc, b)
	return append(head, b...), err
}

const rawCapabilities = protocol41 | secureConnection | pluginAuth

// login is a HandshakeResponse41 of root.
func loginOf(caps Capabilities, user string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(caps))
	b = binary.LittleEndian.AppendUint32(b, 1<<24)
	b = append(b, 45)
	b = append(b, make([]byte, 23)...)
	b = append(append(b, user...), 0)
	b = append(b, 0)
	return append(append(b, CachingSHA2...), 0)
}

// loginBy is a HandshakeResponse41 of a user with an answer to the server's nonce.
func loginBy(caps Capabilities, user string, answer []byte) []byte {
	b := loginOf(caps, user)
	b = b[:len(b)-len(CachingSHA2)-2]
	b = append(append(b, byte(len(answer))), answer...)
	return append(append(b, CachingSHA2...), 0)
}

func (c *raw) login(caps Capabilities) {
	c.t.Helper()
	if _, err := c.read(); err != nil {
		c.t.Fatal(err)
	}
	c.send(1, loginOf(caps, "root")...)
	if b, err := c.read(); err != nil || b[4] != 0 {
		c.t.Fatalf("login: %x %v", b, err)
	}
}

// TestBytes pins the server's packets, as docs/formats/mysql.md has them: once with EOF packets, once without.
func TestBytes(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	var out strings.Builder
	for _, caps := range []Capabilities{rawCapabilities, rawCapabilities | deprecateEOF | MultiStatements} {
		c := r.dial(t)
		b, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		mask := func(from, n int) { copy(b[from:], bytes.Repeat([]byte{0xee}, n)) } // what is random
		at := 4 + 1 + len("8.0.36-holdfast") + 1
		mask(at, 4)
		mask(at+4, 8)
		mask(at+4+8+1+2+1+2+2+1+10, 12)
		fmt.Fprintf(&out, "# capabilities %#x\ngreeting\n%s", uint32(caps), hex.Dump(b))
		say := func(what string, answers int, seq byte, payload ...byte) {
			c.send(seq, payload...)
			fmt.Fprintf(&out, "%s\n", what)
			for range answers {
				b, err := c.read()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				out.WriteString(hex.Dump(b))
			}
		}
		lists := 1 // the EOF packet behind definitions
		if caps&deprecateEOF != 0 {
			lists = 0
		}
		say("login", 1, 1, loginOf(caps, "root")...)
		say("COM_PING", 1, 0, comPing)
		say("COM_INIT_DB none", 1, 0, append([]byte{comInitDB}, "none"...)...)
		say("COM_QUERY insert", 1, 0, append([]byte{comQuery}, "insert"...)...)
		say("COM_QUERY select one two", 5+lists, 0, append([]byte{comQuery}, "select one two"...)...)
		say("COM_QUERY half", 4+lists, 0, append([]byte{comQuery}, "half"...)...)
		say("COM_QUERY halfrow, the row that was begun is not sent", 5+lists, 0, append([]byte{comQuery}, "halfrow"...)...)
		say("COM_FIELD_LIST t", 2, 0, append([]byte{comFieldList}, "t\x00%"...)...)
		say("COM_STATISTICS", 1, 0, comStatistics)
		say("COM_SET_OPTION 0", 1, 0, comSetOption, 0, 0)
		say("COM_STMT_PREPARE select ?", 3+2*lists, 0, append([]byte{comStmtPrepare}, "select ?"...)...)
		args := []byte{comStmtExecute, 1, 0, 0, 0, 0, 1, 0, 0, 0}
		say("COM_STMT_EXECUTE with a type and 7", 4+lists, 0, append(args, 0, 1, 8, 0, 7, 0, 0, 0, 0, 0, 0, 0)...)
		c.send(0, comStmtSendLong, 1, 0, 0, 0, 0, 0, 'x')
		say("COM_STMT_SEND_LONG_DATA has no answer; COM_STMT_RESET", 1, 0, comStmtReset, 1, 0, 0, 0)
		say("COM_STMT_FETCH", 1, 0, comStmtFetch, 1, 0, 0, 0, 1, 0, 0, 0)
		c.send(0, comStmtClose, 1, 0, 0, 0)
		say("COM_STMT_CLOSE has no answer; COM_PING", 1, 0, comPing)
		say("COM_STMT_EXECUTE of a closed one", 1, 0, args...)
		say("COM_RESET_CONNECTION", 1, 0, comResetConnection)
		say("COM_SHUTDOWN is unknown", 1, 0, 0x08)
		say("an empty command", 1, 0)
		c.send(0, comQuit)
		if b, err := c.read(); err != io.EOF {
			t.Errorf("after COM_QUIT: %x %v", b, err)
		}
	}
	golden.Check(t, "testdata/packets.txt", out.String())
}

// TestStrangers: each says something that no client should, before or after its login. The server answers with an error or closes the
// connection, and another client does not notice.
func TestStrangers(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	// Two that do not wait for long. Everything else has the time that a busy machine may need.
	hurriesLogin := serve(t, func(s *Server) { s.LoginTimeout = 300 * time.Millisecond })
	hurriesRead := serve(t, func(s *Server) { s.ReadTimeout = 300 * time.Millisecond })
	neighbour := r.dial(t)
	neighbour.login(rawCapabilities)
	query := func(q string) []byte { return append([]byte{comQuery}, q...) }
	for _, c := range []struct {
		what     string
		at       *rig
		loggedIn bool
		send     func(c *raw)
		code     uint16 // of the error; 0: the connection is closed without one
	}{
		{"nothing", hurriesLogin, false, func(c *raw) {}, 0},
		{"half a head", hurriesLogin, false, func(c *raw) { c.write([]byte{1, 2}) }, 0},
		{"half a login", hurriesLogin, false, func(c *raw) { c.write(append([]byte{200, 0, 0, 1}, 1, 2, 3)) }, 0},
		{"an empty login", r, false, func(c *raw) { c.send(1) }, ErrHandshake},
		{"a login that ends in its start", r, false, func(c *raw) { c.send(1, make([]byte, 31)...) }, ErrHandshake},
		{"a login of the protocol before 4.1", r, false, func(c *raw) { c.send(1, loginOf(LongPassword, "root")...) }, ErrHandshake},
		{"a response longer than the login", r, false, func(c *raw) {
			c.send(1, append(loginOf(rawCapabilities, "root")[:32+5], 200)...)
		}, ErrHandshake},
		{"a login of 1 GB in pieces", r, false, func(c *raw) { c.write([]byte{0xff, 0xff, 0xff, 1, 0}) }, ErrPacketTooLarge},
		{"a login of 65 KiB", r, false, func(c *raw) { c.write([]byte{0, 4, 1, 1, 0}) }, ErrPacketTooLarge},
		{"a login with the wrong number", r, false, func(c *raw) { c.send(2, loginOf(rawCapabilities, "root")...) }, ErrOutOfOrder},
		{"HTTP", r, false, func(c *raw) { c.write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) }, ErrOutOfOrder},
		{"TLS where there is none", r, false, func(c *raw) {
			c.send(1, loginOf(rawCapabilities|useTLS, "root")[:32]...)
		}, ErrHandshake},
		{"a user that is not there", r, false, func(c *raw) { c.send(1, loginOf(rawCapabilities, "nobody")...) }, ErrAccessDenied},
		{"half a head after the login", hurriesRead, true, func(c *raw) { c.write([]byte{1, 2}) }, ErrIdle},
		{"half a packet after the login", hurriesRead, true, func(c *raw) { c.write([]byte{200, 0, 0, 0, comQuery}) }, ErrIdle},
		{"a wrong number after the login", r, true, func(c *raw) { c.send(7, query("select a")...) }, ErrOutOfOrder},
		{"a user change without a user", r, true, func(c *raw) { c.send(0, comChangeUser) }, ErrHandshake},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			bad := c.at.dial(t)
			if c.loggedIn {
				bad.login(rawCapabilities)
			} else if _, err := bad.read(); err != nil {
				t.Fatal(err)
			}
			c.send(bad)
			b, err := bad.read()
			switch {
			case c.code == 0 && err == nil:
				t.Errorf("answered %x", b)
			case c.code != 0 && (err != nil || b[4] != 0xff || binary.LittleEndian.Uint16(b[5:]) != c.code):
				t.Errorf("%q %v, want %d", b, err, c.code)
			}
			if _, err := bad.read(); err == nil {
				t.Error("the connection goes on")
			}
		})
	}
	neighbour.send(0, comPing)
	if b, err := neighbour.read(); err != nil || b[4] != 0 {
		t.Errorf("the neighbour: %x %v", b, err)
	}
}

// TestALargePacket arrives although it takes longer than the server waits for more of it, and is refused only beyond the bound.
func TestALargePacket(t *testing.T) {
	t.Parallel()
	r := serve(t, func(s *Server) { s.MaxPacket = 1 << 20 })
	c := r.dial(t)
	c.login(rawCapabilities)
	text := append([]byte{comQuery}, "select "+strings.Repeat("a", 1<<20-8)...)
	c.send(0, text...)
	for range 5 { // columns, one of them, its end, the row, the end
		if b, err := c.read(); err != nil || b[4] == 0xff {
			t.Fatalf("a packet of the largest length: %.60q %v", b, err)
		}
	}
	c.send(0, append(text, 'a')...)
	if b, err := c.read(); err != nil || b[4] != 0xff || binary.LittleEndian.Uint16(b[5:]) != ErrPacketTooLarge {
		t.Errorf("a byte more: %.60q %v", b, err)
	}
	if _, err := c.read(); err == nil {
		t.Error("the connection goes on")
	}

	// A packet of which something comes every now and then may take longer than the server waits for more.
	r = serve(t, func(s *Server) { s.ReadTimeout = 2 * time.Second })
	query := append([]byte{9, 0, 0, 0, comQuery}, "select a"...)
	for end := time.Now().Add(wait.Limit(t)); ; {
		slow, longest := r.dial(t), time.Duration(0)
		slow.login(rawCapabilities)
		var err error
		for i := 0; i < len(query) && err == nil; i++ {
			at := time.Now()
			_, err = slow.nc.Write(query[i : i+1])
			time.Sleep(200 * time.Millisecond) // thirteen of them are more than two seconds
			longest = max(longest, time.Since(at))
		}
		b, readErr := slow.read()
		if err == nil && readErr == nil && b[4] == 1 {
			return
		}
		if longest < time.Second || time.Now().After(end) { // else the machine was busy with something else for as long as the server waits
			t.Fatalf("byte by byte, %v at most between two: %q %v %v", longest, b, err, readErr)
		}
	}
}

// room is a Room of so many bytes.
type room struct{ left, drawn int64 }

func (r *room) Draw(n int64) bool {
	if n > r.left {
		return false
	}
	r.left -= n
	r.drawn += n
	return true
}
func (r *room) Return(n int64) { r.left += n }

// TestAnAnnouncementTakesNoMemory: a buffer has at most twice the bytes that have come, and at least what is asked for comes from the room.
func TestAnAnnouncementTakesNoMemory(t *testing.T) {
	t.Parallel()
	announced := append([]byte{0xff, 0xff, 0xff, 0}, make([]byte, 100<<10)...)
	memory := &room{left: 1 << 30}
	in := input{from: bytes.NewReader(announced), room: memory, most: 64 << 20}
	if _, err := in.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if len(in.buf) > 2*len(announced) || memory.drawn > int64(2*len(announced)) {
		t.Errorf("%d bytes came, the buffer has %d, %d were drawn", len(announced), len(in.buf), memory.drawn)
	}
	in.end()
	if memory.left != 1<<30 {
		t.Errorf("%d bytes were not given back", 1<<30-memory.left)
	}
	in = input{from: bytes.NewReader(announced), room: &room{left: 10 << 10}, most: 64 << 20}
	if _, err := in.next(); !errors.Is(err, errNoRoom) {
		t.Error(err)
	}
}

// TestPiecesHaveABound: parameters in pieces take room, which comes back with the execution and with the connection, and are refused without it.
func TestPiecesHaveABound(t *testing.T) {
	t.Parallel()
	var memory atomic.Int64
	memory.Store(100_000)
	r := serve(t, func(s *Server) { s.Room = shared{&memory} })
	c := r.dial(t)
	c.login(rawCapabilities)
	session := <-r.sessions
	c.send(0, append([]byte{comStmtPrepare}, "?"...)...)
	for range 3 {
		if _, err := c.read(); err != nil {
			t.Fatal(err)
		}
	}
	piece := append([]byte{comStmtSendLong, 1, 0, 0, 0, 0, 0}, make([]byte, 1000)...)
	execute := []byte{comStmtExecute, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 253, 0}
	for _, step := range []struct {
		pieces int
		code   uint16
	}{{90, 0}, {101, ErrOutOfMemory}, {90, 0}} {
		for range step.pieces {
			c.send(0, piece...)
		}
		c.send(0, execute...)
		b, err := c.read()
		if err != nil || (b[4] == 0xff) != (step.code != 0) || step.code != 0 && binary.LittleEndian.Uint16(b[5:]) != step.code {
			t.Fatalf("%d pieces: %.60q %v", step.pieces, b, err)
		}
		for range 4 * btoi(step.code == 0) {
			if _, err := c.read(); err != nil {
				t.Fatal(err)
			}
		}
		if left := memory.Load(); left != 100_000 {
			t.Errorf("after %d pieces %d bytes are left", step.pieces, left)
		}
	}
	for range 50 {
		c.send(0, piece...)
	}
	c.send(0, comQuit)
	<-session.closed
	if left := memory.Load(); left != 100_000 {
		t.Errorf("after the connection %d bytes are left", left)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// shared is a Room of several connections.
type shared struct{ left *atomic.Int64 }

func (s shared) Draw(n int64) bool {
	if s.left.Add(-n) < 0 {
		s.left.Add(n)
		return false
	}
	return true
}
func (s shared) Return(n int64) { s.left.Add(n) }

// TestIdleClientsKeepNoBuffers: after a large statement and a large answer a connection is as small as before.
func TestIdleClientsKeepNoBuffers(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	o := output{to: &sent}
	for range 3 {
		for range 20 {
			o.begin()
			o.buf = append(o.buf, make([]byte, 3000)...)
			o.end()
		}
		o.flush()
		o.rest()
		if cap(o.buf) > keepBytes {
			t.Errorf("an idle connection keeps %d bytes for answers", cap(o.buf))
		}
	}
	if sent.Len() != 3*20*3004 {
		t.Errorf("%d bytes were sent", sent.Len())
	}
	in := input{from: &sent, most: 1 << 20}
	for range 60 {
		if b, err := in.next(); err != nil || len(b) != 3000 {
			t.Fatal(len(b), err)
		}
	}
}

// shy returns few bytes at a time.
type shy struct {
	r io.Reader
	n int
}

func (s shy) Read(b []byte) (int, error) { return s.r.Read(b[:min(len(b), s.n)]) }

// TestPackets: what an output sends an input reads, whatever the pieces in which it arrives.
func TestPackets(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 250, idleBytes - headBytes, idleBytes - headBytes + 1, idleBytes, keepBytes, keepBytes + 1, 3, chunkBytes - 1, 7,
		chunkBytes, chunkBytes + 1, 2 * chunkBytes, 2*chunkBytes + 5, 0}
	var sent bytes.Buffer
	o := output{to: &sent}
	for i, n := range sizes {
		o.begin()
		for k := range n {
			o.buf = append(o.buf, byte(i+k))
		}
		o.end()
	}
	o.flush()
	for _, n := range []int{1 << 20, 1000, 7} {
		in := input{from: shy{bytes.NewReader(sent.Bytes()), n}, most: 3 * chunkBytes}
		for i, size := range sizes {
			if size > 1<<20 && n < 1000 {
				in.from = bytes.NewReader(sent.Bytes()[sent.Len()-in.from.(shy).r.(*bytes.Reader).Len():])
				n = 1000 // byte by byte would take long
			}
			b, err := in.next()
			if err != nil || len(b) != size {
				t.Fatalf("packet %d in pieces of %d: %d bytes %v, want %d", i, n, len(b), err, size)
			}
			for k := range b {
				if b[k] != byte(i+k) {
					t.Fatalf("packet %d in pieces of %d: byte %d is %d", i, n, k, b[k])
				}
			}
			in.rest()
			if len(in.buf) > keepBytes && in.w-in.r < idleBytes {
				t.Fatalf("packet %d: a buffer of %d bytes is kept", i, len(in.buf))
			}
		}
		if _, err := in.next(); err != io.EOF {
			t.Error(err)
		}
	}
}

// TestAnotherPluginWithoutAPassword: a client that cannot load the server's plugin names one of its own, sends nothing and waits for the switch.
// Before, the server said OK at once, and the client answered that with an empty packet.
func TestAnotherPluginWithoutAPassword(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	for _, plugin := range []string{"dummy_fallback_auth", NativePassword} {
		c := r.dial(t)
		if _, err := c.read(); err != nil {
			t.Fatal(err)
		}
		login := bytes.TrimSuffix(loginOf(rawCapabilities, "root"), append([]byte(CachingSHA2), 0))
		c.send(1, append(append(login, plugin...), 0)...)
		b, err := c.read()
		if err != nil || b[4] != 0xfe || !bytes.HasPrefix(b[5:], append([]byte(CachingSHA2), 0)) {
			t.Fatalf("%s: %x %v, want a switch", plugin, b, err)
		}
		c.send(3)
		if b, err := c.read(); err != nil || b[3] != 4 || b[4] != 0 {
			t.Fatalf("%s: %x %v, want OK", plugin, b, err)
		}
		c.send(0, comPing)
		if b, err := c.read(); err != nil || b[4] != 0 {
			t.Errorf("%s: %x %v", plugin, b, err)
		}
	}
}

// TestAPasswordInTheClearOverLoopback is judged, as MariaDB's clients send it where the server has no TLS. A client that has asked for the key, or
// hidden the password with it, has not sent it in the clear.
func TestAPasswordInTheClearOverLoopback(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	for password, want := range map[string]byte{"two": 0, "another": 0xff, "": 0xff} { // any order: each has a connection of its own
		c := r.dial(t)
		if _, err := c.read(); err != nil {
			t.Fatal(err)
		}
		c.send(1, loginBy(rawCapabilities, "sha2", make([]byte, 32))...)
		if b, err := c.read(); err != nil || len(b) != 6 || b[5] != sha2FullAsk {
			t.Fatalf("%x %v", b, err)
		}
		c.send(3, append([]byte(password), 0)...)
		if b, err := c.read(); err != nil || b[4] != want {
			t.Errorf("%q: %x %v", password, b, err)
		}
	}
	for _, c := range []struct {
		sent []byte
		want bool
	}{{nil, false}, {[]byte{sha2AskKey}, false}, {make([]byte, hiddenBytes), false}, {[]byte("x"), false}, {[]byte("x\x00"), true}, {[]byte{0}, true}} {
		if got := inClear(c.sent); got != c.want {
			t.Errorf("%x: %v", c.sent, got)
		}
	}
}
