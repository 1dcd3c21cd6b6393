package wire

import (
	"crypto/sha1"
	"crypto/subtle"
)

// NativePassword is the plugin of MySQL 5 and of MariaDB. Source: MySQL 8.0, "Native Authentication".
const NativePassword = "mysql_native_password"

// NativeVerifier returns the verifier of a password, SHA1(SHA1(password)). Nil: the empty password.
func NativeVerifier(password string) []byte {
	if password == "" {
		return nil
	}
	once := sha1.Sum([]byte(password))
	twice := sha1.Sum(once[:])
	return twice[:]
}

// checkNative reports whether a response to the nonce is by the password of the verifier. The response is SHA1(password) XOR
// SHA1(nonce, verifier), so the client shows that it knows SHA1(password), of which the verifier is the hash.
func checkNative(verifier, nonce, response []byte) bool {
	if len(verifier) != sha1.Size || len(response) != sha1.Size {
		return false
	}
	mask := sha1.Sum(append(append(make([]byte, 0, nonceBytes+sha1.Size), nonce...), verifier...))
	for i := range mask {
		mask[i] ^= response[i]
	}
	again := sha1.Sum(mask[:])
	return subtle.ConstantTimeCompare(again[:], verifier) == 1
}
