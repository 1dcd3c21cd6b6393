package program

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
)

// setAuthToken takes the kind of tokens after reading the key files it names: a server that could issue none must not start.
func setAuthToken(dst *string, v string) error {
	if err := doorkv.CheckAuthToken(v, os.ReadFile); err != nil {
		return fmt.Errorf("%w; write simple, or jwt,sign-method=RS256,pub-key=FILE,priv-key=FILE,ttl=5m", err)
	}
	*dst = v
	return nil
}

// setLifetime reads a duration above zero.
func setLifetime(dst *time.Duration, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return errors.New("not a time; write for example 300s or 5m")
	}
	*dst = d
	return nil
}

func setBcryptCost(dst *int, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 4 || n > 31 {
		return errors.New("not a cost of bcrypt; write a number from 4 to 31")
	}
	*dst = n
	return nil
}
