package v2

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"
)

// adopt copies a net/http request into the form Handle knows. Only what the handler looks at is copied.
func (h *Handler) adopt(_ http.ResponseWriter, r *http.Request) (*fasthttp.RequestCtx, error) {
	limit := int64(h.opts.MaxRequestBytes)*3 + 4096 // a form may escape every byte by three
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, errTooLarge
	}
	var req fasthttp.Request
	req.Header.SetMethod(r.Method)
	req.SetRequestURI(r.URL.RequestURI())
	req.Header.SetHost(r.Host)
	for _, k := range []string{"Content-Type", "Authorization"} {
		if v := r.Header.Get(k); v != "" {
			req.Header.Set(k, v)
		}
	}
	req.SetBody(body)
	ctx := &fasthttp.RequestCtx{}
	ctx.Init(&req, &net.TCPAddr{}, nil)
	return ctx, nil
}

// copyHead copies header lines as they stand in a watch's head.
func copyHead(out http.Header, head []byte) {
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if k, v, ok := strings.Cut(line, ": "); ok {
			out.Set(k, v)
		}
	}
}
