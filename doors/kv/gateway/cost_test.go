package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/spent"
)

// costly are bodies of which a client may send each, made to cost as much as one of its size can.
func costly() map[string]string {
	const all = 3 << 17 // what is linear is so to the end
	many := func(one string) string { return strings.TrimSuffix(strings.Repeat(one+",", all/(len(one)+1)), ",") }
	return map[string]string{
		"as many compares as there may be": `{"compare":[` + strings.Repeat(`{},`, mostValues-3) + `{}]}`,
		"as many puts as there may be":     `{"success":[` + strings.Repeat(`{"requestPut":{}},`, mostValues/3-2) + `{}]}`,
		"compares":                         `{"compare":[` + many(`{}`) + `]}`,
		"operations":                       `{"success":[` + many(`{}`) + `]}`,
		"puts":                             `{"success":[` + many(`{"requestPut":{}}`) + `]}`,
		"one put again and again":          `{"success":[{"requestPut":{` + many(`"key":"YQ=="`) + `}}]}`,
		"a large value":                    `{"success":[{"requestPut":{"key":"YQ==","value":"` + strings.Repeat("AAAA", all/4) + `"}}]}`,
		"a value of escapes":               `{"success":[{"requestPut":{"key":"` + strings.Repeat(`\u0041`, all/24*4) + `"}}]}`,
		"transactions in each other":       strings.Repeat(`{"success":[{"requestTxn":`, all/27) + `{}` + strings.Repeat(`}]}`, all/27),
		"fields that nobody knows":         `{` + many(`"a":0`) + `}`,
		"lists that nobody knows":          `{"a":` + strings.Repeat("[", all/2) + strings.Repeat("]", all/2) + `}`,
		"no JSON":                          strings.Repeat("[", all),
		"blanks":                           `{` + strings.Repeat(" ", all) + `}`,
	}
}

// TestABodyCostsWhatItIsWorth: before the call that it makes is judged.
func TestABodyCostsWhatItIsWorth(t *testing.T) {
	conn, err := grpc.NewClient("passthrough:///nobody", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed })) // what is sent is judged elsewhere
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	g, err := New(conn, mostValues)
	if err != nil {
		t.Fatal(err)
	}
	for what, body := range costly() {
		spent.Within(t, what, len(body), func() {
			r := httptest.NewRequest(http.MethodPost, "/v3/kv/txn", strings.NewReader(body))
			g.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
}

// TestABodyOfTooManyValuesIsRefused: values are counted message by message, and what stands in texts is none.
func TestABodyOfTooManyValuesIsRefused(t *testing.T) {
	g := start(t)
	refused := `{"code":3,"message":"` + tooMany(mostValues).Error() + `"}`
	many := strings.Repeat(`0,`, mostValues) + `0`
	for _, c := range []struct {
		path, body string
		code       int
		want       string
	}{
		{"/v3/kv/range", `{"key":"Zm9v","a":[` + many + `]}`, 400, refused},
		{"/v3/kv/range", `{"key":"Zm9v","a":"` + strings.ReplaceAll(many, "0", `{[\"`) + `"}`, 200, `{"kvs":[{"key":"Zm9v"}]}`},
		{"/v3/watch", strings.Repeat(`{"create_request":{"filters":[0,0,0,0]}} `, mostValues/4), 200, strings.Repeat(`{"result":{"created":true}}`, mostValues/4)},
		{"/v3/watch", `{"create_request":{"filters":[` + many + `]}}`, 200, ""}, // as any watch that is no JSON
	} {
		if code, got := ask(t, g, http.MethodPost, c.path, c.body, ""); code != c.code || got != c.want {
			t.Errorf("%s %.50s…\ngot  %d %.200s\nwant %d %s", c.path, c.body, code, got, c.code, c.want)
		}
	}
}
