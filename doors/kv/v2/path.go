package v2

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"path"
	"strings"

	"github.com/valyala/fasthttp"
)

// unescapePath appends the percent-decoded path; false if an escape is broken.
func unescapePath(dst, p []byte) ([]byte, bool) {
	if bytes.IndexByte(p, '%') < 0 {
		return append(dst, p...), true
	}
	for i := 0; i < len(p); i++ {
		if p[i] != '%' {
			dst = append(dst, p[i])
			continue
		}
		c, ok := unhex(p, i)
		if !ok {
			return nil, false
		}
		dst = append(dst, c)
		i += 2
	}
	return dst, true
}

// unhex decodes the escape at p[i].
func unhex(p []byte, i int) (byte, bool) {
	if i+2 >= len(p) {
		return 0, false
	}
	hi, ok := nibble(p[i+1])
	lo, ok2 := nibble(p[i+2])
	return hi<<4 | lo, ok && ok2
}

func nibble(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// isClean reports whether a path has neither empty components nor dots; one slash at the end is fine.
func isClean(p []byte) bool {
	start := 1
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		switch name := p[start:i]; {
		case len(name) == 0 && i < len(p), string(name) == ".", string(name) == "..":
			return false
		}
		start = i + 1
	}
	return true
}

// redirect sends a client with an unclean path to the clean one, as the original's router does.
func redirect(ctx *fasthttp.RequestCtx, p, query []byte) {
	clean := path.Clean(string(p))
	if p[len(p)-1] == '/' && clean != "/" {
		clean += "/"
	}
	to := (&url.URL{Path: clean, RawQuery: string(query)}).String()
	ctx.Response.Header.Set("Location", to)
	ctx.SetStatusCode(fasthttp.StatusMovedPermanently)
	if ctx.IsGet() || ctx.IsHead() {
		ctx.SetContentType("text/html; charset=utf-8")
		ctx.SetBodyString("<a href=\"" + htmlEscaper.Replace(to) + "\">Moved Permanently</a>.\n\n")
	}
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// plain answers with text.
func plain(ctx *fasthttp.RequestCtx, status int, text string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
	ctx.SetBodyString(text)
}

// basicAuth reads an Authorization header of the Basic kind.
func basicAuth(header []byte) (user, password string, ok bool) {
	const scheme = "basic "
	if len(header) < len(scheme) || !strings.EqualFold(string(header[:len(scheme)]), scheme) {
		return "", "", false
	}
	b, err := base64.StdEncoding.DecodeString(string(header[len(scheme):]))
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(b), ":")
}
