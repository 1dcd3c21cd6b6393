package tlog

import "testing"

// TestRanges: which bytes of a hundred are answered for a Range header, and with which status. "" is the whole, with 200.
func TestRanges(t *testing.T) {
	body := make([]byte, 100)
	for i := range body {
		body[i] = byte(i)
	}
	for _, c := range []struct {
		header, ifRange, want string
		code, from, length    int
	}{
		{"", "", "", 200, 0, 100},
		{"bytes=0-9", "", "bytes 0-9/100", 206, 0, 10},
		{"bytes=90-", "", "bytes 90-99/100", 206, 90, 10},
		{"bytes=90-1000", "", "bytes 90-99/100", 206, 90, 10},
		{"bytes=-10", "", "bytes 90-99/100", 206, 90, 10},
		{"bytes=-1000", "", "bytes 0-99/100", 206, 0, 100},
		{"bytes=99-99", "", "bytes 99-99/100", 206, 99, 1},
		{"bytes=100-", "", "bytes */100", 416, 0, 0},
		{"bytes=-0", "", "bytes */100", 416, 0, 0},
		{"bytes=18446744073709551615-", "", "bytes */100", 416, 0, 0},
		{"bytes=9-0", "", "", 200, 0, 100},
		{"bytes=0-9,20-29", "", "", 200, 0, 100},
		{"bytes=a-9", "", "", 200, 0, 100},
		{"bytes=-", "", "", 200, 0, 100},
		{"bytes=5", "", "", 200, 0, 100},
		{"lines=0-9", "", "", 200, 0, 100},
		{"bytes=18446744073709551616-", "", "", 200, 0, 100},
		{"bytes=0-9", `"this"`, "bytes 0-9/100", 206, 0, 10},
		{"bytes=0-9", `"another"`, "", 200, 0, 100},
		{"bytes=0-9", "Tue, 24 Nov 2026 08:00:00 GMT", "", 200, 0, 100},
	} {
		a := response{code: 200, etag: `"this"`, body: body}.part(&request{method: "GET", bytes: c.header, ifRange: c.ifRange})
		if a.code != c.code || a.contentRange != c.want || c.code != 416 && (len(a.body) != c.length || a.body[0] != byte(c.from)) {
			t.Errorf("%q, if %q: %d %q, %d bytes", c.header, c.ifRange, a.code, a.contentRange, len(a.body))
		}
	}
	if a := (response{code: 200, body: body}).part(&request{method: "HEAD", bytes: "bytes=0-9"}); a.code != 200 {
		t.Errorf("a HEAD has no range: %d", a.code)
	}
}
