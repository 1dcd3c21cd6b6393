package mysql

import (
	"context"
	"strings"
	"testing"
)

func TestOpenRefuses(t *testing.T) {
	for _, text := range []string{
		"mysql://host/db", "mysql://user@/db", "mysql://user@host", "mysql://user@host/", "mysql://user@host/a/b", "mysql://user@host/db#x",
		"mysql://user@host/db?tls=skip", "mysql://user@host/db?multiStatements=true", "mysql://user@host:port/db", "mysql:db", "%",
		"mysql://user:SECRET@host/db", "mysql://user:SECRET%zz@host/db", "mysql://user:SECRET@ho st/db",
	} {
		if d, err := Open(text, ""); err == nil {
			d.Close()
			t.Errorf("%s was taken for a database", text)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error tells the password: %v", text, err)
		}
	}
	for _, text := range []string{"mysql://user@host/db", "mysql://user@host:3307/db", "mysql://user@[::1]:3307/db", "mysql://user@host/db?tls=true"} {
		d, err := Open(text, "SECRET")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		d.Close()
	}
}

// TestAServerThatIsAwayIsNoEmptyOne: what cannot be read must not look as if nothing had been published.
func TestAServerThatIsAwayIsNoEmptyOne(t *testing.T) {
	d, err := Open("mysql://user@127.0.0.1:1/db", "SECRET")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.State(context.Background()); err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("state: %v", err)
	}
	if _, err := d.Begin(context.Background()); err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("begin: %v", err)
	}
}
