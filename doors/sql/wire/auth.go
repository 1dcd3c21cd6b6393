package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"
)

// newNonce returns random bytes that are neither zero nor '$', as MySQL has them.
func newNonce() (n [nonceBytes]byte) {
	_, _ = rand.Read(n[:]) // it never fails
	for i, c := range n {
		n[i] = 0x21 + c%0x5e
		if n[i] == '$' {
			n[i] = '#'
		}
	}
	return n
}

// prove finds out whether the client knows the password of the user it names. l.response answers c.nonce by the plugin l.plugin.
func (c *conn) prove(l *login) error {
	from := addressOf(c.nc.RemoteAddr())
	if err := c.turn(from); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.parent, orElse(c.server.LoginTimeout, defaultLoginTimeout))
	defer cancel()
	account, known, err := c.server.Accounts.Account(ctx, l.user, c.nc.RemoteAddr())
	if err != nil {
		return err
	}
	if !known {
		account = Account{Plugin: c.server.plugin(), Verifier: decoy}
	}
	response := bytes.Clone(l.response)
	if l.capabilities&pluginAuth == 0 {
		l.plugin = NativePassword
		if len(account.Verifier) == 0 {
			account.Plugin = NativePassword // such a client knows no other, and without a password there is nothing to prove
		}
	}
	if l.plugin != account.Plugin {
		if l.capabilities&pluginAuth == 0 {
			return Errorf(ErrAuthMode, "Client does not support authentication protocol requested by server; consider upgrading MySQL client")
		}
		// Also where no password is asked for: libmariadb names a plugin of its own when it cannot load the server's, and waits for the switch.
		switched, err := c.switchAuth(account.Plugin)
		if err != nil {
			return err
		}
		response = switched
	}
	if len(response) == 1 && response[0] == 0 { // so a client of CachingSHA2 says that it has no password
		response = nil
	}
	ok := known && len(account.Verifier) == 0 && len(response) == 0
	if !ok && len(account.Verifier) > 0 {
		var err error
		if ok, err = c.check(&account, response); err != nil {
			return err
		}
	}
	if !known || !ok {
		c.server.throttle.failed(from, time.Now())
		return denied(l.user, c.nc.RemoteAddr(), len(response) > 0)
	}
	c.server.throttle.passed(from)
	c.account = account
	return nil
}

// turn waits until a login from an address may begin.
func (c *conn) turn(of netip.Prefix) error {
	wait, ok := c.server.throttle.enter(of, time.Now())
	if !ok {
		return Errorf(ErrBlocked, "Host '%s' is blocked because of many failed logins; try again in some seconds", HostOf(c.nc.RemoteAddr()))
	}
	if wait == 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-c.parent.Done():
		return errKilled
	}
}

// decoy is the verifier of users that do not exist. Judging it takes as long as judging a real one, and no password passes.
var decoy = []byte(sha2Prefix + "nobody.has.this.salt" + strings.Repeat(".", sha2Digits))

// denied is the answer to an unknown user and to a wrong password.
func denied(user string, from net.Addr, password bool) *Error {
	using := "NO"
	if password {
		using = "YES"
	}
	return Errorf(ErrAccessDenied, "Access denied for user '%s'@'%s' (using password: %s)", user, HostOf(from), using)
}

// switchAuth has the client answer a new nonce by another plugin.
func (c *conn) switchAuth(plugin string) ([]byte, error) {
	c.nonce = newNonce()
	c.packet(func(b []byte) []byte {
		b = append(b, 0xfe)
		b = append(append(b, plugin...), 0)
		return append(append(b, c.nonce[:]...), 0)
	})
	return c.ask()
}

// ask sends what was built and returns a copy of the client's next packet.
func (c *conn) ask() ([]byte, error) {
	c.out.flush()
	if c.out.err != nil {
		return nil, c.out.err
	}
	c.in.seq = c.out.seq
	b, err := c.in.next()
	c.out.seq = c.in.seq
	return bytes.Clone(b), err
}

// The bytes of the conversation of CachingSHA2. Source: MySQL 8.0, "Caching SHA-2 Pluggable Authentication".
const (
	sha2AskKey  = 2
	sha2FastOK  = 3
	sha2FullAsk = 4
)

// check judges a response to c.nonce.
func (c *conn) check(a *Account, response []byte) (bool, error) {
	if a.Plugin == NativePassword {
		return checkNative(a.Verifier, c.nonce[:], response), nil
	}
	if len(bytes.TrimSuffix(response, []byte{0})) == 0 {
		return len(a.Verifier) == 0, nil
	}
	if fast, ok := c.server.proved.get(a.Verifier); ok && checkSHA2Fast(fast, c.nonce[:], response) {
		c.packet(func(b []byte) []byte { return append(b, 1, sha2FastOK) })
		return true, nil
	}
	c.packet(func(b []byte) []byte { return append(b, 1, sha2FullAsk) })
	password, err := c.ask()
	if err != nil {
		return false, err
	}
	if !c.client.TLS && !(inClear(password) && HostOf(c.nc.RemoteAddr()) == localhost) {
		if password, err = c.hidden(password); err != nil {
			return false, err
		}
	}
	password = bytes.TrimSuffix(password, []byte{0})
	if len(password) > mostPassword {
		return false, nil
	}
	ok := false
	err = c.bounded(func() {
		if fast, known := c.server.proved.get(a.Verifier); known && fast == sha2Fast(password) {
			ok = true // another connection has computed it meanwhile
			return
		}
		ok = checkSHA2(a.Verifier, password)
	})
	if ok {
		c.server.proved.put(a.Verifier, password)
	}
	return ok, err
}

// bounded computes something expensive for a login.
func (c *conn) bounded(fn func()) error {
	if !c.server.crypts.run(c.parent, orElse(c.server.LoginTimeout, defaultLoginTimeout), fn) {
		return Errorf(ErrTooManyConnections, "Too many connections are logging in; try again")
	}
	return nil
}

// mostPassword is the length of a password that the client may send, as in MySQL.
const mostPassword = 256

// inClear reports whether a client without TLS has sent the password itself, with the zero byte behind it, and neither asked for the key nor hidden
// the password with it. MariaDB's clients do where their user has not said --skip-ssl and the server has no TLS. Over loopback the password is as
// safe as over a socket, where MySQL takes it; from elsewhere it is not judged.
func inClear(sent []byte) bool {
	return len(sent) > 0 && len(sent) < hiddenBytes && sent[len(sent)-1] == 0
}

// hiddenBytes is the length of what the key, of 2,048 bits, hides a password in.
const hiddenBytes = 256

// hidden gets the password from a client without TLS, which hides it with the server's key. asked is the client's first packet.
func (c *conn) hidden(asked []byte) ([]byte, error) {
	key, err := c.server.Key()
	if err != nil {
		return nil, err
	}
	if len(asked) == 1 && asked[0] == sha2AskKey {
		der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		if err != nil {
			return nil, err
		}
		c.packet(func(b []byte) []byte {
			return append(append(b, 1), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
		})
		if asked, err = c.ask(); err != nil {
			return nil, err
		}
	}
	var password []byte
	if e := c.bounded(func() { password, err = rsa.DecryptOAEP(sha1.New(), nil, key, asked, nil) }); e != nil {
		return nil, e
	}
	if errors.Is(err, rsa.ErrDecryption) {
		return nil, nil // a wrong password: the client hid it with another key
	}
	for i := range password {
		password[i] ^= c.nonce[i%nonceBytes]
	}
	return password, err
}
