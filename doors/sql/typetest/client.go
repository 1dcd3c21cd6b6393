package typetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Numbers of the protocol. Source: MySQL 8.0's documentation, "Client/Server Protocol".
const (
	comQuery   = 0x03
	comPrepare = 0x16
	comExecute = 0x17
	comClose   = 0x19

	// loginFlags: the protocol of 4.1, a response of its own length, plugins.
	loginFlags = 1<<9 | 1<<15 | 1<<19
	// utf8mb4 is the number of utf8mb4_general_ci.
	utf8mb4 = 45

	patience = 60 * time.Second
)

// client is a connection of a user who has no password. One goroutine uses it.
type client struct {
	nc  net.Conn
	seq byte
}

// failure is an error that the server told.
type failure struct {
	number uint16
	state  string
	text   string
}

func (f *failure) Error() string { return fmt.Sprintf("%d %s %s", f.number, f.state, f.text) }

var errForm = errors.New("the server's packet has another form than its kind")

// dial connects and logs in.
func dial(addr, user string) (*client, error) {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	c := &client{nc: nc}
	if err := c.login(user); err != nil {
		return nil, errors.Join(fmt.Errorf("log in: %w", err), nc.Close())
	}
	return c, nil
}

func (c *client) close() { _ = c.nc.Close() } // the server takes a closed connection for COM_QUIT

func (c *client) login(user string) error {
	if err := c.nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.read(); err != nil { // the greeting: nothing in it matters to a user without a password
		return err
	}
	b := binary.LittleEndian.AppendUint32(nil, loginFlags)
	b = binary.LittleEndian.AppendUint32(b, 1<<24)
	b = append(b, utf8mb4)
	b = append(b, make([]byte, 23)...)
	b = append(append(b, user...), 0, 0)
	b = append(b, "mysql_native_password\x00"...)
	for {
		if err := c.write(b); err != nil {
			return err
		}
		answer, err := c.read()
		if err != nil {
			return err
		}
		if answer[0] != 0xfe {
			return failed(answer)
		}
		b = nil // another plugin is asked for: an empty response is that of no password
	}
}

func (c *client) write(payload []byte) error {
	n := len(payload)
	_, err := c.nc.Write(append([]byte{byte(n), byte(n >> 8), byte(n >> 16), c.seq}, payload...))
	c.seq++
	return err
}

func (c *client) read() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return nil, err
	}
	c.seq = head[3] + 1
	b := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	if _, err := io.ReadFull(c.nc, b); err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, errForm
	}
	return b, nil
}

// command sends a command and returns the first packet of its answer.
func (c *client) command(kind byte, payload []byte) ([]byte, error) {
	if err := c.nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	c.seq = 0
	if err := c.write(append([]byte{kind}, payload...)); err != nil {
		return nil, err
	}
	b, err := c.read()
	if err == nil {
		err = failed(b)
	}
	return b, err
}

// failed returns the error of a packet that is one.
func failed(b []byte) error {
	if b[0] != 0xff {
		return nil
	}
	if len(b) < 9 {
		return errForm
	}
	return &failure{number: binary.LittleEndian.Uint16(b[1:]), state: string(b[4:9]), text: string(b[9:])}
}

// column is what a client needs of a column to read its values.
type column struct {
	kind     byte
	unsigned bool
}

// rows are the values of a result, as text. A NULL is nil.
type rows [][]*string

// query runs a statement and returns its rows, if it has some.
func (c *client) query(text string) (rows, error) {
	b, err := c.command(comQuery, []byte(text))
	if err != nil {
		return nil, err
	}
	return c.result(b, (*fields).textRow)
}

// exec runs statements of which none may fail.
func (c *client) exec(texts ...string) error {
	for _, text := range texts {
		if _, err := c.query(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// run prepares a statement, executes it once and returns its rows, if it has some.
func (c *client) run(text string, params ...param) (rows, error) {
	b, err := c.command(comPrepare, []byte(text))
	if err != nil {
		return nil, err
	}
	if len(b) < 12 {
		return nil, errForm
	}
	id := append([]byte{}, b[1:5]...)
	for _, n := range []uint16{binary.LittleEndian.Uint16(b[7:]), binary.LittleEndian.Uint16(b[5:])} {
		for i := uint16(0); n > 0 && i <= n; i++ { // and the end of the list
			if _, err := c.read(); err != nil {
				return nil, err
			}
		}
	}
	command := append(append([]byte{}, id...), 0, 1, 0, 0, 0)
	if len(params) > 0 {
		command = appendParams(command, params)
	}
	b, err = c.command(comExecute, command)
	var all rows
	if err == nil {
		all, err = c.result(b, (*fields).binaryRow)
	}
	c.seq = 0
	if e := c.write(append([]byte{comClose}, id...)); err == nil { // it has no answer
		err = e
	}
	return all, err
}

// result reads the rest of an answer, whose first packet is first.
func (c *client) result(first []byte, row func(*fields, []column) ([]*string, error)) (rows, error) {
	if first[0] == 0 {
		return nil, nil
	}
	n := (&fields{b: first}).number()
	columns := make([]column, n)
	for i := range columns {
		b, err := c.read()
		if err != nil {
			return nil, err
		}
		f := &fields{b: b}
		for range 6 { // catalogue, schema, table, its own name, name, its own name
			f.text()
		}
		f.take(1 + 2 + 4)
		columns[i] = column{kind: f.byte()}
		columns[i].unsigned = f.uint16()&32 != 0
		if f.bad {
			return nil, errForm
		}
	}
	if _, err := c.read(); err != nil {
		return nil, err
	}
	all := rows{}
	for {
		b, err := c.read()
		if err != nil {
			return nil, err
		}
		if b[0] == 0xfe && len(b) < 9 {
			return all, nil
		}
		if err := failed(b); err != nil {
			return nil, err
		}
		r, err := row(&fields{b: b}, columns)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
}
