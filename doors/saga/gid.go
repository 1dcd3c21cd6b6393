package saga

import (
	"crypto/rand"
	"math/big"
)

// The form of DTM's gids: 128 bits in 22 of these characters, which cannot be mistaken for each other.
const (
	gidAlphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	gidLength   = 22
)

// newGid makes a unique gid.
func newGid() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	n, rest, base := new(big.Int).SetBytes(random[:]), new(big.Int), big.NewInt(int64(len(gidAlphabet)))
	gid := make([]byte, gidLength)
	for i := range gid {
		n.DivMod(n, base, rest)
		gid[gidLength-1-i] = gidAlphabet[rest.Int64()]
	}
	return string(gid)
}
