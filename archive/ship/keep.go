package ship

import (
	"encoding/json"
	"strings"
	"time"
)

// placeService is answered by the leader with a report, as JSON.
const placeService = "archive.place"

// report is the leader's message about its archive, so that each other member can continue it.
type report struct {
	URL      string `json:"url"`
	Identity string `json:"identity"` // "": the leader has not looked yet
	// Looked is the index that the archive had at the last look. Entries acknowledged behind it may have to be shipped again.
	Looked uint64 `json:"looked"`
}

func (w *Worker) report() report {
	k := w.known()
	w.mu.Lock()
	defer w.mu.Unlock()
	r := report{URL: place(w.opt.URL), Identity: k.Identity}
	if w.term != nil {
		r.Looked = w.looked
	}
	return r
}

// askAfter bounds how often a member asks the leader, and how long it waits for the answer.
const askAfter = 5 * time.Second

// keep makes a follower keep its log from the leader's last look on, since the next leader continues from there. It also remembers the
// leader's archive. Until the archive is known, the configuration keeps all of the log. A leader keeps its log by itself (term.archived).
func (w *Worker) keep() {
	last, pause := uint64(0), time.Second
	for {
		if at := w.node.ArchivedIndex(); at > last && !w.leads() {
			if w.follow(at) {
				last = at
			}
			pause = askAfter
		} else {
			pause = time.Second
		}
		if w.tasks.Wait(pause, w.node.StoppedC()) == 0 {
			return
		}
	}
}

func (w *Worker) leads() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.term != nil
}

// follow asks the leader about its archive, after something was archived. It returns false if that has to be asked again.
func (w *Worker) follow(at uint64) bool {
	ctx, cancel := w.tasks.Timeout(askAfter)
	defer cancel()
	b, err := w.node.Call(ctx, placeService, nil)
	var r report
	switch {
	case err != nil && strings.Contains(err.Error(), "no such service"):
		w.node.Retain(RetainName, at+1) // a leader of a build that knows no identities looks at nothing either
		return true
	case err != nil || json.Unmarshal(b, &r) != nil || r.Looked == 0 || w.leads():
		return false
	}
	w.node.Retain(RetainName, min(at, r.Looked)+1)
	if own := place(w.opt.URL); r.URL != own {
		w.mu.Lock()
		told := w.elsewhere == r.URL
		w.elsewhere = r.URL
		w.mu.Unlock()
		if !told {
			w.opt.Logger.Warn("the leader ships to another archive than this member would: give all members the same --archive", "leader", r.URL, "here", own)
		}
		return true
	}
	w.mu.Lock()
	w.elsewhere = ""
	w.mu.Unlock()
	if k, now := w.known(), w.node.Mono(); r.Identity != "" && (k.Identity != r.Identity || now-w.followedAt >= lookAfter) {
		w.followedAt = now
		if err := w.remember(r.Identity, r.Looked); err != nil {
			w.opt.Logger.Warn("what the leader says of the archive is not remembered; it is tried again", "err", err)
			return false
		}
	}
	return true
}

// told is up to where the members have acknowledged the log as archived, at this member's place, as far as this member has heard.
func (w *Worker) told() uint64 {
	w.mu.Lock()
	elsewhere := w.elsewhere
	w.mu.Unlock()
	if elsewhere != "" {
		return 0
	}
	return w.node.ArchivedIndex()
}
