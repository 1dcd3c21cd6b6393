package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/core/node"
)

// NewMember is the body of POST /v1/members.
type NewMember struct {
	Peer    string `json:"peer"`    // host:port of its --peer
	Learner bool   `json:"learner"` // a learner holds the log but does not vote
}

func (a *Admin) getMembers(n *attached, w http.ResponseWriter, r *http.Request) {
	s := n.Status()
	list, _ := members(r.Context(), n, &s, a.opts.Now())
	Answer(w, list)
}

// postMember adds a member to the log; the answer holds the id that its first start will claim.
func (a *Admin) postMember(n *attached, w http.ResponseWriter, r *http.Request) {
	var m NewMember
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		Fail(w, http.StatusBadRequest, "the body is not {\"peer\": \"host:port\", \"learner\": true}: "+err.Error())
		return
	}
	if host, port, err := net.SplitHostPort(m.Peer); err != nil || host == "" || port == "" || port == "0" {
		Fail(w, http.StatusBadRequest, "peer "+strconv.Quote(m.Peer)+" is not the host:port of a member's --peer")
		return
	}
	added, err := n.AddMember(r.Context(), []string{m.Peer}, m.Learner)
	if err != nil {
		failMembership(w, n, err)
		return
	}
	role := "not started"
	w.WriteHeader(http.StatusCreated)
	Answer(w, MemberStatus{ID: hex(added.ID), Name: added.Name, Role: role, Peer: added.PeerURLs, Replicated: -1, Lag: -1, State: "unknown"})
}

func (a *Admin) deleteMember(n *attached, w http.ResponseWriter, r *http.Request) {
	if id, ok := memberID(w, r); ok {
		done(w, n, n.RemoveMember(r.Context(), id))
	}
}

func (a *Admin) promoteMember(n *attached, w http.ResponseWriter, r *http.Request) {
	if id, ok := memberID(w, r); ok {
		done(w, n, n.PromoteMember(r.Context(), id))
	}
}

func done(w http.ResponseWriter, n *attached, err error) {
	if err != nil {
		failMembership(w, n, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// memberID reads the id in the path, hexadecimal as everywhere.
func memberID(w http.ResponseWriter, r *http.Request) (uint64, bool) {
	id, err := strconv.ParseUint(r.PathValue("id"), 16, 64)
	if err != nil || id == 0 {
		Fail(w, http.StatusBadRequest, strconv.Quote(r.PathValue("id"))+" is not a member id in hexadecimal, as GET /v1/members shows it")
		return 0, false
	}
	return id, true
}

// failMembership maps the node's refusals: 404 and 409 will not change by asking again, 412 and 503 may.
func failMembership(w http.ResponseWriter, n *attached, err error) {
	code := http.StatusServiceUnavailable
	text := err.Error()
	for _, c := range []struct {
		err  error
		code int
		next string
	}{
		{node.ErrMemberNotFound, http.StatusNotFound, "GET /v1/members lists them"},
		{node.ErrMemberExists, http.StatusConflict, "it is a member already"},
		{node.ErrPeerAddrExists, http.StatusConflict, "another member has that address; remove that one first"},
		{node.ErrMemberNotLearner, http.StatusConflict, "only learners are promoted"},
		{node.ErrTooManyLearners, http.StatusConflict, "promote or remove the learner there is"},
		{node.ErrLearnerNotReady, http.StatusPreconditionFailed, "wait until it has caught up"},
		{node.ErrNotEnoughStarted, http.StatusPreconditionFailed, notStarted(n.Members())},
		{node.ErrUnhealthy, http.StatusPreconditionFailed, "wait until all members are connected for 5 s"},
	} {
		if errors.Is(err, c.err) {
			if code = c.code; !strings.Contains(text, "; ") {
				text += "; " + c.next
			}
			break
		}
	}
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	Fail(w, code, text)
}

// notStarted says which voters were added and have not started, and what to do about each.
func notStarted(all []node.Member) string {
	var text []string
	for _, m := range all {
		if m.Name == "" && !m.Learner {
			at := strings.NewReplacer("http://", "", "https://", "").Replace(strings.Join(m.PeerURLs, " and "))
			text = append(text, fmt.Sprintf("member %s at %s was added and has not started: start it, or remove it (holdfast member remove %[1]s)", hex(m.ID), at))
		}
	}
	if len(text) == 0 {
		return "start the members that were added before"
	}
	return strings.Join(text, ", ")
}
