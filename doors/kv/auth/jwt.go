package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mident "github.com/holdfastdb/holdfast/core/machine/ident"
)

// signedTokens are JSON web tokens: every member that has the key can judge one, and none can take one back before its end. So they name
// the catalogue's revision, and are worthless after its next change. The members' wall clocks decide their end, since another program may
// have issued them.
type signedTokens struct {
	method jwt.SigningMethod
	sign   any // nil: this member only judges
	verify any
	ttl    time.Duration
	parser *jwt.Parser
}

var (
	errVerifyOnly  = status.Error(codes.Unknown, "auth: token signing attempted with verify-only key")
	errMissingKey  = errors.New("auth: missing key data")
	errKeyMismatch = errors.New("auth: public and private keys don't match")
)

// newSignedTokens reads sign-method, pub-key, priv-key and ttl. Other options are left to later servers, as in etcd.
func newSignedTokens(opts map[string]string, readFile func(string) ([]byte, error)) (*signedTokens, error) {
	t := &signedTokens{ttl: 5 * time.Minute}
	var err error
	if text := opts["ttl"]; text != "" {
		if t.ttl, err = time.ParseDuration(text); err != nil {
			return nil, fmt.Errorf("%w: ttl: %w", errAuthOptions, err)
		}
	}
	if t.method = jwt.GetSigningMethod(opts["sign-method"]); t.method == nil {
		return nil, fmt.Errorf("%w: sign-method %q", errAuthOptions, opts["sign-method"])
	}
	read := func(option string) []byte {
		name := opts[option]
		if name == "" || err != nil {
			return nil
		}
		if readFile == nil {
			err = fmt.Errorf("%w: %s: this server reads no files", errAuthOptions, option)
			return nil
		}
		var pem []byte
		if pem, err = readFile(name); err != nil {
			err = fmt.Errorf("%w: %s: %w", errAuthOptions, option, err)
		}
		return pem
	}
	pub, priv := read("pub-key"), read("priv-key")
	if err != nil {
		return nil, err
	}
	if err := t.keys(pub, priv); err != nil {
		return nil, err
	}
	t.parser = jwt.NewParser(jwt.WithValidMethods([]string{t.method.Alg()}))
	return t, nil
}

// keys reads what the method needs: a secret, or a private key, a public one, or both if they belong together.
func (t *signedTokens) keys(pub, priv []byte) (err error) {
	if len(priv) == 0 && len(pub) == 0 {
		return errMissingKey
	}
	switch t.method.(type) {
	case *jwt.SigningMethodHMAC:
		if len(priv) == 0 {
			return errMissingKey
		}
		t.sign, t.verify = priv, priv
		return nil
	case *jwt.SigningMethodRSA, *jwt.SigningMethodRSAPSS:
		return pair(t, pub, priv, jwt.ParseRSAPublicKeyFromPEM, jwt.ParseRSAPrivateKeyFromPEM)
	case *jwt.SigningMethodECDSA:
		return pair(t, pub, priv, jwt.ParseECPublicKeyFromPEM, jwt.ParseECPrivateKeyFromPEM)
	case *jwt.SigningMethodEd25519:
		return pair(t, pub, priv,
			func(pem []byte) (ed25519.PublicKey, error) {
				return edKey[ed25519.PublicKey](jwt.ParseEdPublicKeyFromPEM(pem))
			},
			func(pem []byte) (ed25519.PrivateKey, error) {
				return edKey[ed25519.PrivateKey](jwt.ParseEdPrivateKeyFromPEM(pem))
			})
	}
	return fmt.Errorf("%w: sign-method %s", errAuthOptions, t.method.Alg())
}

// edKey converts what the library returns to an Ed25519 key.
func edKey[K any](key any, err error) (K, error) {
	k, ok := key.(K)
	if err == nil && !ok {
		err = errMissingKey
	}
	return k, err
}

type publicKey interface {
	*rsa.PublicKey | *ecdsa.PublicKey | ed25519.PublicKey
	Equal(crypto.PublicKey) bool
}

func pair[Pub publicKey, Priv crypto.Signer](t *signedTokens, pub, priv []byte, parsePub func([]byte) (Pub, error),
	parsePriv func([]byte) (Priv, error)) error {
	if len(priv) > 0 {
		key, err := parsePriv(priv)
		if err != nil {
			return fmt.Errorf("%w: priv-key: %w", errAuthOptions, err)
		}
		t.sign, t.verify = key, key.Public()
	}
	if len(pub) > 0 {
		key, err := parsePub(pub)
		if err != nil {
			return fmt.Errorf("%w: pub-key: %w", errAuthOptions, err)
		}
		if t.sign != nil && !key.Equal(t.verify) {
			return errKeyMismatch
		}
		t.verify = key
	}
	return nil
}

func (t *signedTokens) issue(_ context.Context, st *mident.State, u *mident.User) (string, bool, error) {
	if t.sign == nil {
		return "", false, errVerifyOnly
	}
	// The revision is the one the password was compared at. If the catalogue has changed since, the token is already worthless.
	claims := jwt.MapClaims{"username": u.Name, "revision": st.Revision, "exp": time.Now().Add(t.ttl).Unix()}
	token, err := jwt.NewWithClaims(t.method, claims).SignedString(t.sign)
	if err != nil {
		return "", false, status.Error(codes.Unknown, err.Error())
	}
	return token, false, nil
}

func (t *signedTokens) owner(_ context.Context, token string) (string, uint64, bool) {
	claims := jwt.MapClaims{}
	if parsed, err := t.parser.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return t.verify, nil }); err != nil || !parsed.Valid {
		return "", 0, false
	}
	name, ok := claims["username"].(string)
	revision, is := claims["revision"].(float64)
	if !ok || !is || revision < 1 {
		return "", 0, false
	}
	return name, uint64(revision), true
}
