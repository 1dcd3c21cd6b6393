//go:build !linux

// Package startpages does nothing here.
package startpages

// Forget does nothing here.
func Forget() {}
