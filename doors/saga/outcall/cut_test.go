package outcall

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestAMessageIsCutBetweenLetters: it is valid UTF-8 of no more bytes than there may be, and only a letter that does not fit goes.
func TestAMessageIsCutBetweenLetters(t *testing.T) {
	for _, s := range []string{"", "abcdefgh", "éééé", "x€€€", "😀😀😀", "a😀é€z"} {
		for n := range len(s) + 3 {
			got := cut(s, n)
			if !strings.HasPrefix(s, got) || !utf8.ValidString(got) || len(got) > n || len(got) < min(n-utf8.UTFMax+1, len(s)) || len(s) <= n && got != s {
				t.Errorf("%q cut to %d bytes is %q", s, n, got)
			}
		}
	}
	// Bytes that are no text take more room as text.
	for _, s := range []string{"\xff\xfe", strings.Repeat("a\xff", 30), strings.Repeat("\xff", 30), "é\xc3", strings.Repeat("\xf0\x9f", 20)} {
		for n := range len(s) + 3 {
			if got := cut(s, n); !utf8.ValidString(got) || len(got) > n {
				t.Fatalf("%q cut to %d bytes is %q, %d bytes", s, n, got, len(got))
			}
		}
	}
}

// TestAMessageOfTheGreatestLengthComesWhole, over HTTP and over JSON-RPC.
func TestAMessageOfTheGreatestLengthComesWhole(t *testing.T) {
	head := `{"error":{"code":-32901,"message":"`
	rpc := head + strings.Repeat("x", MaxMessage-len(head)-3) + `"}}`
	for protocol, body := range map[string]string{HTTP: strings.Repeat("x", MaxMessage-7) + "FAILURE", JSONRPC: rpc} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		r := do(t, newNet(t, Options{}), &Request{URL: s.URL + "/?method=pay", Protocol: protocol})
		if r.Outcome != Failure || r.Message != body {
			t.Errorf("%s: %v with %d bytes of %d: %q", protocol, r.Outcome, len(r.Message), len(body), r.Message)
		}
	}
}
