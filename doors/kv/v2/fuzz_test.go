package v2

import (
	"net/url"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/internal/spent"
)

// FuzzRequest feeds the decoder of parameters; the library etcd uses must agree on every one of them.
func FuzzRequest(f *testing.F) {
	for _, q := range []string{"", "value=a+b%20c", "ttl=5&dir=true", "a;b", "%zz", "&&=&value", "prevIndex=18446744073709551616", "wait=1&waitIndex=7",
		"value=a&value=b", "prevExist=false&refresh=true&ttl=x", "%76alue=x"} {
		f.Add(q, q)
	}
	f.Fuzz(func(t *testing.T, query, form string) {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod("PUT")
		ctx.Request.Header.SetContentType(formType)
		ctx.Request.SetBodyString(form)
		var r request
		_, bad := r.read(&ctx, []byte(query), nil)
		body, err1 := url.ParseQuery(form)
		all, err2 := url.ParseQuery(query)
		if (err1 != nil || err2 != nil) != (bad.code == codeInvalidForm) {
			t.Fatalf("%q, %q: %v here, %v and %v there", query, form, bad, err1, err2)
		}
		if bad.code == codeInvalidForm {
			return
		}
		for name, p := range map[string]param{"value": pValue, "ttl": pTTL, "prevValue": pPrevValue, "waitIndex": pWaitIndex} {
			want, given := append(body[name], all[name]...), body.Has(name) || all.Has(name)
			if given != r.given[p] || given && string(r.raw[p]) != want[0] {
				t.Fatalf("%q, %q: %s is %q, %v here, %q there", query, form, name, r.raw[p], r.given[p], want)
			}
		}
	})
}

// FuzzPath feeds the decoder of paths.
func FuzzPath(f *testing.F) {
	for _, p := range []string{"/", "/v2/keys/a", "/a%2Fb", "/%", "/%0", "/a/../b", "//", "/a/./"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if p == "" || p[0] != '/' {
			return
		}
		got, ok := unescapePath(nil, []byte(p))
		want, err := url.PathUnescape(p)
		if ok != (err == nil) || ok && string(got) != want {
			t.Fatalf("%q: %q, %v here, %q, %v there", p, got, ok, want, err)
		}
		if ok {
			isClean(got)
		}
	})
}

// TestAFormCostsWhatItIsWorth: before a request is judged.
func TestAFormCostsWhatItIsWorth(t *testing.T) {
	const all = 1 << 20
	for what, form := range map[string]string{
		"a value":                        "value=" + strings.Repeat("a", all),
		"a value of escapes":             "value=" + strings.Repeat("%41", all/3),
		"a value of blanks":              "value=" + strings.Repeat("+", all),
		"pairs that are empty":           strings.Repeat("&", all),
		"one name again and again":       strings.Repeat("value=%41&", all/10),
		"names of escapes":               strings.Repeat("%76alue=%41&", all/12),
		"names that nobody knows":        strings.Repeat("a=%41&", all/6),
		"a name without end":             strings.Repeat("%41", all/3),
		"a value that is broken at last": "value=" + strings.Repeat("%41", all/3) + "%4",
	} {
		for _, as := range []string{"form", "query"} {
			spent.Within(t, what+", as a "+as, len(form), func() {
				var ctx fasthttp.RequestCtx
				ctx.Request.Header.SetMethod("PUT")
				ctx.Request.Header.SetContentType(formType)
				var r request
				if as == "form" {
					ctx.Request.SetBodyRaw([]byte(form))
					r.read(&ctx, nil, nil)
				} else {
					r.read(&ctx, []byte(form), nil)
				}
			})
		}
	}
}
