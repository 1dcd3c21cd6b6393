package wire

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"strings"
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
	account, known := c.server.Accounts.Account(l.user, c.nc.RemoteAddr())
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
		return denied(l.user, c.nc.RemoteAddr(), len(response) > 0)
	}
	return nil
}

// decoy is the verifier of users that do not exist. Judging it takes as long as judging a real one, and no password passes.
var decoy = []byte(sha2Prefix + "nobody.has.this.salt" + strings.Repeat(".", sha2Digits))

// denied is the answer to an unknown user and to a wrong password.
func denied(user string, from net.Addr, password bool) *Error {
	host, _, err := net.SplitHostPort(from.String())
	if err != nil {
		host = from.String()
	}
	using := "NO"
	if password {
		using = "YES"
	}
	return Errorf(ErrAccessDenied, "Access denied for user '%s'@'%s' (using password: %s)", user, host, using)
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
	if !c.client.TLS {
		if password, err = c.hidden(password); err != nil {
			return false, err
		}
	}
	password = bytes.TrimSuffix(password, []byte{0})
	if len(password) > mostPassword || !checkSHA2(a.Verifier, password) {
		return false, nil
	}
	c.server.proved.put(a.Verifier, password)
	return true, nil
}

// mostPassword is the length of a password that the client may send, as in MySQL.
const mostPassword = 256

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
	password, err := rsa.DecryptOAEP(sha1.New(), nil, key, asked, nil)
	if errors.Is(err, rsa.ErrDecryption) {
		return nil, nil // a wrong password: the client hid it with another key
	}
	for i := range password {
		password[i] ^= c.nonce[i%nonceBytes]
	}
	return password, err
}
