package outcall

import (
	"fmt"
	"net/http"
	"net/url"
)

// maxRedirects is how many redirects of a call are followed.
const maxRedirects = 3

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// follow is the verdict on an answer that leads elsewhere. A 301, 302 or 303 turns a POST into a GET, as browsers and Go's client do;
// 307 and 308 send the same again.
func (c *call) follow(a answer) verdict {
	if c.hops == maxRedirects {
		return verdict{outcome: Transient, message: fmt.Sprintf("%s answered %d, the redirect after %d others", c.target.endpoint(), a.status, maxRedirects)}
	}
	base := &url.URL{Scheme: c.target.scheme, Host: c.target.authority}
	if i := len(c.target.path); i > 0 {
		if u, err := url.ParseRequestURI(c.target.path); err == nil {
			base.Path, base.RawPath = u.Path, u.RawPath
		}
	}
	u, err := base.Parse(a.location)
	if err != nil {
		return verdict{outcome: Transient, message: fmt.Sprintf("%s answered %d with a Location that cannot be read: %v", c.target.endpoint(), a.status, err)}
	}
	if a.status != http.StatusTemporaryRedirect && a.status != http.StatusPermanentRedirect {
		c.method, c.body = http.MethodGet, nil
	}
	return verdict{outcome: Transient, next: u.String()}
}

// redirect continues a call whose place at the previous endpoint has been given back. It queues at the redirect's target, and is judged
// there.
func (n *Net) redirect(c *call, to string) {
	was := c.target
	t, err := parseHTTP(to)
	if err == nil {
		c.target = t
		if r := n.judge.target(&t); r != nil {
			err = r
		}
	}
	if err != nil {
		c.end(Refused, fmt.Sprintf("%s redirects: %v", was.endpoint(), err))
		return
	}
	c.hops++
	c.strip = c.strip || t.host != was.host || was.scheme == "https" && t.scheme == "http"
	if n.enter(c) {
		go n.work(c)
	}
}
