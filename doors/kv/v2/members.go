package v2

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/core/node"
)

// members answers /v2/members and /v2/members/ID: the same members that v3 and `holdfast member` know.
func (h *Handler) members(ctx *fasthttp.RequestCtx, s *scratch, id []byte) {
	if !allow(ctx, "GET,POST,DELETE,PUT") {
		return
	}
	// A change that was permitted a moment before the role is taken away goes through, as in v3: only root could arrange that.
	if _, ok := h.allowed(ctx); !ok {
		h.message(ctx, s, fasthttp.StatusUnauthorized, "Insufficient credentials")
		return
	}
	ctx.Response.Header.SetCanonical(headerCluster, h.cluster)
	if !ctx.IsGet() && h.node.Status().Learner {
		h.message(ctx, s, fasthttp.StatusServiceUnavailable, errLearner.Error())
		return
	}
	switch string(ctx.Method()) {
	case "GET":
		h.listMembers(ctx, s, string(id))
	case "POST":
		h.addMember(ctx, s)
	default:
		h.changeMember(ctx, s, string(id))
	}
}

func (h *Handler) listMembers(ctx *fasthttp.RequestCtx, s *scratch, id string) {
	all := h.node.Members()
	slices.SortFunc(all, func(a, b node.Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	switch id {
	case "":
		s.body = append(s.body[:0], `{"members":[`...)
		for i := range all {
			if i > 0 {
				s.body = append(s.body, ',')
			}
			s.body = appendMember(s.body, &all[i])
		}
		s.body = append(s.body, ']', '}', '\n')
	case "leader":
		leader := h.node.Status().Leader
		i := slices.IndexFunc(all, func(m node.Member) bool { return m.ID == leader })
		if i < 0 {
			h.message(ctx, s, fasthttp.StatusServiceUnavailable, "During election")
			return
		}
		s.body = append(appendMember(s.body[:0], &all[i]), '\n')
	default:
		h.message(ctx, s, fasthttp.StatusNotFound, "Not found")
		return
	}
	h.json(ctx, s, fasthttp.StatusOK)
}

func (h *Handler) addMember(ctx *fasthttp.RequestCtx, s *scratch) {
	urls, ok := h.peerURLs(ctx, s)
	if !ok {
		return
	}
	m, err := h.node.AddMember(h.bounded(), urls, false)
	if err != nil {
		h.memberError(ctx, s, err, "")
		return
	}
	s.body = append(appendMember(s.body[:0], &m), '\n')
	h.json(ctx, s, fasthttp.StatusCreated)
}

// changeMember answers DELETE (remove the member) and PUT (change its peer addresses).
func (h *Handler) changeMember(ctx *fasthttp.RequestCtx, s *scratch, text string) {
	if text == "" {
		plain(ctx, fasthttp.StatusMethodNotAllowed, "Method Not Allowed\n")
		return
	}
	id, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		h.memberError(ctx, s, node.ErrMemberNotFound, text)
		return
	}
	text = strconv.FormatUint(id, 16)
	if ctx.IsDelete() {
		if err = h.node.RemoveMember(h.bounded(), id); errors.Is(err, node.ErrMemberNotFound) && h.node.Removed(id) {
			h.message(ctx, s, fasthttp.StatusGone, "Member permanently removed: "+text)
			return
		}
	} else {
		urls, ok := h.peerURLs(ctx, s)
		if !ok {
			return
		}
		err = h.node.UpdateMember(h.bounded(), id, urls)
	}
	if err != nil {
		h.memberError(ctx, s, err, text)
		return
	}
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}

// memberError answers with the error of a change of members.
func (h *Handler) memberError(ctx *fasthttp.RequestCtx, s *scratch, err error, id string) {
	switch {
	case errors.Is(err, node.ErrPeerAddrExists):
		h.message(ctx, s, fasthttp.StatusConflict, "membership: peerURL exists")
	case errors.Is(err, node.ErrMemberExists):
		h.message(ctx, s, fasthttp.StatusConflict, "membership: ID exists")
	case errors.Is(err, node.ErrMemberNotFound):
		h.message(ctx, s, fasthttp.StatusNotFound, "No such member: "+id)
	default: // the original says no more than "Internal Server Error"
		h.message(ctx, s, fasthttp.StatusInternalServerError, cause(err))
	}
}

// peerURLs reads the addresses of a request, or answers what is wrong with them. Members change rarely: this is the one
// place where JSON is read, and a library may do it.
func (h *Handler) peerURLs(ctx *fasthttp.RequestCtx, s *scratch) ([]string, bool) {
	given := string(ctx.Request.Header.ContentType())
	if t, _, err := mime.ParseMediaType(given); err != nil || t != "application/json" {
		h.message(ctx, s, fasthttp.StatusUnsupportedMediaType, fmt.Sprintf("Bad Content-Type %s, accept application/json", given))
		return nil, false
	}
	var req struct {
		PeerURLs []string `json:"peerURLs"`
	}
	err := json.Unmarshal(ctx.Request.Body(), &req)
	if err == nil {
		req.PeerURLs, err = checkURLs(req.PeerURLs)
	}
	if err != nil {
		h.message(ctx, s, fasthttp.StatusBadRequest, err.Error())
		return nil, false
	}
	return req.PeerURLs, true
}

// checkURLs judges peer addresses by etcd's rules and returns them sorted.
func checkURLs(given []string) ([]string, error) {
	if len(given) == 0 {
		return nil, errors.New("no valid URLs given")
	}
	var urls []string
	for _, g := range given {
		g = strings.TrimSpace(g)
		u, err := url.Parse(g)
		if err != nil {
			return nil, err
		}
		switch u.Scheme {
		case "http", "https":
			if _, _, err := net.SplitHostPort(u.Host); err != nil {
				return nil, fmt.Errorf(`URL address does not have the form "host:port": %s`, g)
			}
			if u.Path != "" {
				return nil, fmt.Errorf("URL must not contain a path: %s", g)
			}
		case "unix", "unixs":
		default:
			return nil, fmt.Errorf("URL scheme must be http, https, unix, or unixs: %s", g)
		}
		urls = append(urls, u.String())
	}
	slices.Sort(urls)
	return urls, nil
}

func appendMember(dst []byte, m *node.Member) []byte {
	dst = strconv.AppendUint(append(dst, `{"id":"`...), m.ID, 16)
	dst = appendString(append(dst, `","name":`...), []byte(m.Name))
	dst = appendStrings(append(dst, `,"peerURLs":`...), m.PeerURLs)
	dst = appendStrings(append(dst, `,"clientURLs":`...), m.ClientURLs)
	return append(dst, '}')
}

func appendStrings(dst []byte, all []string) []byte {
	dst = append(dst, '[')
	for i, one := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, []byte(one))
	}
	return append(dst, ']')
}

// machines answers /v2/machines: where clients can go.
func (h *Handler) machines(ctx *fasthttp.RequestCtx) {
	if !allow(ctx, "GET,HEAD") {
		return
	}
	var urls []string
	for _, m := range h.node.Members() {
		urls = append(urls, m.ClientURLs...)
	}
	slices.Sort(urls)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(strings.Join(urls, ", "))
}

// noAuth answers /v2/auth.
func (h *Handler) noAuth(ctx *fasthttp.RequestCtx, s *scratch) {
	ctx.Response.Header.SetCanonical(headerCluster, h.cluster)
	h.message(ctx, s, fasthttp.StatusNotImplemented, "v2 users and roles are not offered: this server has one set of users for all its "+
		"protocols; make them with etcdctl (API version 3), and use v2 as a user with the role root by HTTP Basic authentication")
}

// message answers with a text in JSON.
func (h *Handler) message(ctx *fasthttp.RequestCtx, s *scratch, status int, text string) {
	s.body = appendMessage(s.body[:0], text)
	h.json(ctx, s, status)
}

// json sends s.body.
func (h *Handler) json(ctx *fasthttp.RequestCtx, s *scratch, status int) {
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentTypeBytes(contentJSON)
	ctx.SetBody(s.body)
}
