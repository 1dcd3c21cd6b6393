package engine

import (
	"strings"
	"testing"
)

// TestStatementsShareThePool: what one statement keeps is not there for the others, and is again when it ends or gives it back.
func TestStatementsShareThePool(t *testing.T) {
	all := pool{most: 1 << 20}
	var a, b, c kept
	a.begin(&all, 1<<20)
	b.begin(&all, 1<<20)
	c.begin(&all, 1<<20)
	if err := a.add(600 << 10); err != nil {
		t.Fatal(err)
	}
	err := b.add(600 << 10)
	if err == nil || !strings.Contains(err.Error(), "1048576") || !strings.Contains(err.Error(), "all that run") {
		t.Errorf("the second has %v, want that all have too much", err)
	}
	if b.UsedMemory() < b.MaxMemory() {
		t.Error("the library goes on")
	}
	b.end()
	a.give(400 << 10)
	if err := c.add(600 << 10); err != nil {
		t.Errorf("behind what the first gives back: %v", err)
	}
	if err := c.add(600 << 10); err == nil || strings.Contains(err.Error(), "all that run") {
		t.Errorf("beyond its own bound: %v", err)
	}
	a.end()
	a.give(1 << 20)
	c.end()
	if n := all.taken.Load(); n != 0 {
		t.Errorf("%d bytes are taken of the pool by nobody", n)
	}
}
