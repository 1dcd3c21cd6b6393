package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// CachingSHA2 is the plugin of MySQL 8. Source: MySQL 8.0, "Caching SHA-2 Pluggable Authentication".
const CachingSHA2 = "caching_sha2_password"

const (
	sha2Rounds    = 5000
	sha2SaltBytes = 20
	sha2Prefix    = "$A$005$"
	// sha2Digits is the length of a SHA-256 sum in the alphabet of crypt.
	sha2Digits = 43
)

// SHA2Verifier returns the verifier of a password as MySQL stores it: "$A$005$", a random salt of 20 bytes and 43 digits. Nil: the empty
// password.
func SHA2Verifier(password string) []byte {
	if password == "" {
		return nil
	}
	salt := make([]byte, sha2SaltBytes)
	_, _ = rand.Read(salt) // it never fails
	for i, c := range salt {
		salt[i] = crypt64[c&63] // MySQL allows neither zero bytes nor '$'
	}
	return append(append([]byte(sha2Prefix), salt...), sha256Crypt([]byte(password), salt, sha2Rounds)...)
}

// checkSHA2 reports whether a password is that of the verifier. It takes 5,000 rounds of SHA-256, some milliseconds.
func checkSHA2(verifier, password []byte) bool {
	rounds, salt, digest, err := parseSHA2(verifier)
	return err == nil && subtle.ConstantTimeCompare(sha256Crypt(password, salt, rounds), digest) == 1
}

// parseSHA2 takes a verifier apart. Its three hexadecimal digits count thousands of rounds.
func parseSHA2(verifier []byte) (rounds int, salt, digest []byte, err error) {
	v := string(verifier)
	if len(v) != len(sha2Prefix)+sha2SaltBytes+sha2Digits || !strings.HasPrefix(v, "$A$") || v[6] != '$' {
		return 0, nil, nil, fmt.Errorf("a verifier of %s has %d bytes and begins with %s", CachingSHA2, len(sha2Prefix)+sha2SaltBytes+sha2Digits, sha2Prefix)
	}
	n, err := strconv.ParseUint(v[3:6], 16, 16)
	if err != nil || n == 0 {
		return 0, nil, nil, fmt.Errorf("a verifier of %s has no number of rounds: %q", CachingSHA2, v[3:6])
	}
	return int(n) * 1000, verifier[len(sha2Prefix):][:sha2SaltBytes], verifier[len(sha2Prefix)+sha2SaltBytes:], nil
}

// sha2Fast returns what the server remembers of a password that was proved once: SHA256(SHA256(password)).
func sha2Fast(password []byte) [sha256.Size]byte {
	once := sha256.Sum256(password)
	return sha256.Sum256(once[:])
}

// checkSHA2Fast reports whether a response to the nonce is by the password of fast. The response is SHA256(password) XOR
// SHA256(fast, nonce).
func checkSHA2Fast(fast [sha256.Size]byte, nonce, response []byte) bool {
	if len(response) != sha256.Size {
		return false
	}
	mask := sha256.Sum256(append(append(make([]byte, 0, sha256.Size+nonceBytes), fast[:]...), nonce...))
	for i := range mask {
		mask[i] ^= response[i]
	}
	again := sha256.Sum256(mask[:])
	return subtle.ConstantTimeCompare(again[:], fast[:]) == 1
}

// crypt64 is the alphabet of crypt's digits.
const crypt64 = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// sha256Crypt returns the 43 digits of SHA-crypt with SHA-256. Source: Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512", version 0.6.
// MySQL differs in the salt alone, which has 20 bytes instead of at most 16.
func sha256Crypt(password, salt []byte, rounds int) []byte {
	repeated := func(sum []byte, n int) []byte {
		b := make([]byte, 0, n+sha256.Size)
		for len(b) < n {
			b = append(b, sum...)
		}
		return b[:n]
	}
	h := sha256.New()
	h.Write(password)
	h.Write(salt)
	h.Write(password)
	b := h.Sum(nil)

	h.Reset()
	h.Write(password)
	h.Write(salt)
	h.Write(repeated(b, len(password)))
	for n := len(password); n > 0; n >>= 1 {
		if n&1 != 0 {
			h.Write(b)
		} else {
			h.Write(password)
		}
	}
	a := h.Sum(nil)

	h.Reset()
	for range password {
		h.Write(password)
	}
	p := repeated(h.Sum(nil), len(password))
	h.Reset()
	for range 16 + int(a[0]) {
		h.Write(salt)
	}
	s := repeated(h.Sum(nil), len(salt))

	for i := range rounds {
		h.Reset()
		if i&1 != 0 {
			h.Write(p)
		} else {
			h.Write(a)
		}
		if i%3 != 0 {
			h.Write(s)
		}
		if i%7 != 0 {
			h.Write(p)
		}
		if i&1 != 0 {
			h.Write(a)
		} else {
			h.Write(p)
		}
		a = h.Sum(a[:0])
	}

	out := make([]byte, 0, sha2Digits)
	digits := func(x, y, z byte, n int) {
		for v := uint(x)<<16 | uint(y)<<8 | uint(z); n > 0; n-- {
			out = append(out, crypt64[v&63])
			v >>= 6
		}
	}
	for i := range 10 { // the bytes go round in threes: 0 10 20, 21 1 11, 12 22 2, 3 13 23 …
		t := [3]int{i, i + 10, i + 20}
		switch i % 3 {
		case 1:
			t = [3]int{i + 20, i, i + 10}
		case 2:
			t = [3]int{i + 10, i + 20, i}
		}
		digits(a[t[0]], a[t[1]], a[t[2]], 4)
	}
	digits(0, a[31], a[30], 3)
	return out
}

// Proved remembers passwords that were proved with caching_sha2_password, so that the next login costs one hash instead of 5,000. It keeps
// no password, and an entry belongs to one verifier: it ends when the password changes. It may be used from several goroutines. The zero
// Proved is empty.
type Proved struct {
	mu   sync.Mutex
	fast map[string][sha256.Size]byte // by verifier; guarded by mu
}

// mostProved bounds Proved. At more it begins anew.
const mostProved = 10_000

func (p *Proved) get(verifier []byte) (fast [sha256.Size]byte, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fast, ok = p.fast[string(verifier)]
	return fast, ok
}

func (p *Proved) put(verifier, password []byte) {
	fast := sha2Fast(password)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fast == nil || len(p.fast) >= mostProved {
		p.fast = map[string][sha256.Size]byte{}
	}
	p.fast[string(verifier)] = fast
}
