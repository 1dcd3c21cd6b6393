package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
)

// levelPatience bounds the question to the leader: a status is asked for while there is none, too.
const levelPatience = 500 * time.Millisecond

// levelNote is why the cluster's level is below what this member's build knows, "" if it is not.
func levelNote(ctx context.Context, n *attached, s *node.Status) string {
	if s.Level >= s.KnownLevel {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, levelPatience)
	defer cancel()
	why, err := n.Call(ctx, "level.waits", nil)
	if err != nil {
		return "the leader does not say why: " + err.Error()
	}
	return string(why)
}

// raiseLevel raises the cluster's level although a member holds it.
func (a *Admin) raiseLevel(n *attached, w http.ResponseWriter, r *http.Request) {
	if _, err := n.Call(r.Context(), "level.raise", nil); err != nil {
		Fail(w, http.StatusConflict, err.Error())
		return
	}
	s := n.Status()
	Answer(w, map[string]uint16{"level": s.Level})
}
