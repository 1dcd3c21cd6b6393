package objstore

import "testing"

// TestBelowKeepsTheSettings of a URL behind the name.
func TestBelowKeepsTheSettings(t *testing.T) {
	for _, c := range [][3]string{{"file:///d", "a.db", "file:///d/a.db"}, {"file:///d/", "a.db", "file:///d/a.db"},
		{"file:///d?mode=0644", "a.db", "file:///d/a.db?mode=0644"}, {"s3://b/p/?endpoint=http://h:1", "a", "s3://b/p/a?endpoint=http://h:1"}} {
		if got := Below(c[0], c[1]); got != c[2] {
			t.Errorf("%s below %s: %s", c[1], c[0], got)
		}
	}
}
