package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

// A raw client's commands, in the protocol's numbers.
const (
	comQuery     = 0x03
	comFieldList = 0x04
	comPing      = 0x0e
	comPrepare   = 0x16
	comExecute   = 0x17

	plainLogin      = 1<<9 | 1<<15 | 1<<19 // the protocol of 4.1, a response of its own length, plugins
	lenencLogin     = plainLogin | 1<<21   // the length of the response is a packed number
	attributesLogin = plainLogin | 1<<20

	chunk    = 1<<24 - 1 // bytes of a packet that goes on in the next
	endsMost = 20 * time.Second
)

// lenencGigabyte is the packed number 1 << 30.
var lenencGigabyte = []byte{0xfe, 0, 0, 0, 0x40, 0, 0, 0, 0}

// raw is a connection on which every byte is the caller's.
type raw struct{ nc net.Conn }

// dial connects and reads the greeting.
func dial(addr string) (*raw, error) {
	c, _, err := dialFirst(addr)
	return c, err
}

// dialFirst is dial. It returns the first packet, which is the greeting or an error.
func dialFirst(addr string) (*raw, []byte, error) {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, nil, err
	}
	c := &raw{nc}
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, nil, errors.Join(err, nc.Close())
	}
	first, err := c.read()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("no greeting: %w", err), nc.Close())
	}
	return c, first, nil
}

func (c *raw) write(b ...byte) error {
	_, err := c.nc.Write(b)
	return err
}

func (c *raw) packet(seq byte, payload ...byte) error {
	n := len(payload)
	return c.write(append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}, payload...)...)
}

// half ends the client's side alone, so that the server's last words can still be read.
func (c *raw) half() error { return c.nc.(*net.TCPConn).CloseWrite() }

// read returns the payload of the next packet.
func (c *raw) read() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	if _, err := io.ReadFull(c.nc, b); err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, errors.New("an empty packet")
	}
	return b, nil
}

// fill sends a first byte and then blanks, n bytes in all.
func (c *raw) fill(first byte, n int) error {
	piece := make([]byte, 1<<20)
	for i := range piece {
		piece[i] = ' '
	}
	piece[0] = first
	for n > 0 {
		k := min(n, len(piece))
		if err := c.write(piece[:k]...); err != nil {
			return err
		}
		piece[0] = ' '
		n -= k
	}
	return nil
}

// gigabyte sends packets that go on and on, until the server takes no more.
func (c *raw) gigabyte(seq, first byte) error {
	for range 1 << 30 / chunk {
		if err := c.write(0xff, 0xff, 0xff, seq); err != nil {
			return err
		}
		if err := c.fill(first, chunk); err != nil {
			return err
		}
		seq, first = seq+1, ' '
	}
	return errors.New("the server has taken 1 GB")
}

// almost sends a command of n bytes but for the last.
func (c *raw) almost(n int) error {
	first := byte(comQuery)
	for seq := byte(0); ; seq++ {
		k := min(n, chunk)
		if err := c.write(byte(k), byte(k>>8), byte(k>>16), seq); err != nil {
			return err
		}
		if k < chunk {
			return c.fill(first, k-1)
		}
		if err := c.fill(first, k); err != nil {
			return err
		}
		n, first = n-k, ' '
	}
}

// ends reads until the connection ends, and fails if the server sends anything but an error before.
func (c *raw) ends() error {
	if err := c.nc.SetDeadline(time.Now().Add(endsMost)); err != nil {
		return err
	}
	for {
		b, err := c.read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("the connection stands %s later", endsMost)
		case err != nil && gone(err):
			return nil
		case err != nil:
			return err
		case b[0] != 0xff:
			return fmt.Errorf("answered %x", b[:min(len(b), 40)])
		}
	}
}

// loginHead is a login of root up to its response.
func loginHead(capabilities uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, capabilities)
	b = binary.LittleEndian.AppendUint32(b, 1<<24)
	b = append(b, 45)
	b = append(b, make([]byte, 23)...)
	return append(b, "root\x00"...)
}

const plugin = "caching_sha2_password\x00"

// login is a login of root without a password.
func login() []byte { return append(append(loginHead(plainLogin), 0), plugin...) }

// loginAttributes is a login of root up to the length of its attributes.
func loginAttributes() []byte { return append(append(loginHead(attributesLogin), 0), plugin...) }

func query(text string) []byte { return append([]byte{comQuery}, text...) }

func (c *raw) login() error {
	if err := c.packet(1, login()...); err != nil {
		return err
	}
	b, err := c.read()
	if err == nil && b[0] != 0 {
		err = fmt.Errorf("answered %q", b)
	}
	if err != nil {
		return fmt.Errorf("login: %w", err)
	}
	return nil
}

// executeGigabyte executes a statement with a parameter that says it has 1 GB.
func (c *raw) executeGigabyte() error {
	if err := c.packet(0, append([]byte{comPrepare}, "SELECT k FROM hostile.t WHERE id = ?"...)...); err != nil {
		return err
	}
	b, err := c.read()
	if err != nil || b[0] != 0 || len(b) < 9 {
		return fmt.Errorf("prepare: answered %x, %w", b, err)
	}
	id := b[1:5]
	for range 2 + 2 { // a parameter and a column, each list with its end
		if _, err := c.read(); err != nil {
			return err
		}
	}
	const varString = 0xfd
	command := append(append([]byte{comExecute}, id...), 0, 1, 0, 0, 0, 0, 1, varString, 0)
	if err := c.packet(0, append(command, lenencGigabyte...)...); err != nil {
		return err
	}
	if b, err := c.read(); err != nil || b[0] != 0xff {
		return fmt.Errorf("a parameter of 1 GB: answered %x, %w", b, err)
	}
	return nil
}

// noise is 4 KiB that no client says, the same in every run.
func noise() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 4096)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	b[3] = 0xee // no client has come so far
	return b
}
