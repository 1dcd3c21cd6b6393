//go:build !linux

package sqlite

// forgetStart does nothing here.
func forgetStart() {}
