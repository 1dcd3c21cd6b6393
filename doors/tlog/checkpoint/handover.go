package checkpoint

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
)

// A leader without a log's key cannot sign it, nor can one that found the log damaged in its store. A follower that can sign asks for
// leadership when it sees the log waiting, and now and then if it does not. Without a signer no entry is added, so a log at rest would
// never be seen waiting.

const (
	// leadService is the call by which a follower asks: its member id (8 bytes, big endian) and the log's name.
	leadService = "tlog.lead"
	// overdue is how long a log may be without the checkpoint it needs before a follower asks.
	overdue = 3 * time.Second
	// nowAndThen is how often a follower looks before it asks although nothing is overdue: once a minute, and soon after a
	// change of leader.
	nowAndThen = 20
	// handoverPause is the wait of a leader that can sign some log after it has handed leadership over once. Two members that each have one
	// key must not pass it to and fro.
	handoverPause = time.Minute
	// handoverTimeout bounds asking, and handing over.
	handoverTimeout = 5 * time.Second
)

// follow looks after overdue logs while another member leads, until over is closed.
func (w *Worker) follow(over <-chan struct{}) {
	w.forgetVerdicts()
	t := time.NewTicker(overdue)
	defer t.Stop()
	var stale stuck
	for tick := 0; ; tick++ {
		select {
		case <-over:
			return
		case <-w.node.StoppedC():
			return
		case <-t.C:
		}
		w.follows()
		name := stale.look(w.waiting(), w.signedSize)
		waits := name != ""
		if !waits && tick%nowAndThen == 0 {
			name = w.idle()
		}
		if name == "" {
			continue
		}
		_, self := w.node.IDs()
		ctx, cancel := context.WithTimeout(context.Background(), handoverTimeout)
		_, err := w.node.Call(ctx, leadService, append(binary.BigEndian.AppendUint64(nil, self), name...))
		cancel()
		if waits || err != nil { // no line where the leader has answered and no log waits
			w.opt.Logger.Info("asked for leadership to sign", "log", name, "err", err)
		}
	}
}

// stuck is the logs that waited for a checkpoint at the last look, with what their newest one covers. A log that grows all the time waits at every
// look: it is overdue only if its checkpoint has not moved between two.
type stuck map[string]uint64

// look returns a log that has waited since the last look, "" if there is none.
func (s *stuck) look(waiting []string, size func(log string) uint64) (overdue string) {
	now := stuck{}
	for _, name := range waiting {
		now[name] = size(name)
		if was, waited := (*s)[name]; waited && was == now[name] {
			overdue = name
		}
	}
	*s = now
	return overdue
}

// signedSize is 1 more than the size of a log's newest checkpoint, 0 if it has none.
func (w *Worker) signedSize(name string) uint64 {
	if l := w.logs.Find(name); l != nil && l.Checkpoint() != nil {
		return l.Checkpoint().Size + 1
	}
	return 0
}

// idle is a log that this member could sign, "" if there is none.
func (w *Worker) idle() string {
	for _, l := range w.logs.Logs() {
		if w.able(l) {
			return l.Spec.Name
		}
	}
	return ""
}

// able reports whether this member could sign a log.
func (w *Worker) able(l *tlogmachine.Log) bool { return !l.Held() && l.Damage() == nil && w.key(l) }

// waiting lists logs that need a checkpoint, or need to begin, and that this member could sign.
func (w *Worker) waiting() (names []string) {
	for _, l := range w.logs.Logs() {
		c := l.Checkpoint()
		if (c == nil || c.Size < l.View().Size) && w.able(l) {
			names = append(names, l.Spec.Name)
		}
	}
	if s := w.opt.First; s != nil && w.logs.Find(s.Name) == nil && w.opt.Key(s.Name) != nil {
		names = append(names, s.Name)
	}
	return names
}

// key reports whether this member has the log's own key.
func (w *Worker) key(l *tlogmachine.Log) bool {
	k := w.opt.Key(l.Spec.Name)
	return k != nil && k.Verifier().Equal(&l.Spec.Key)
}

// handOver serves leadService on the leader.
func (w *Worker) handOver(_ context.Context, req []byte) ([]byte, error) {
	if len(req) < 8 {
		return nil, fmt.Errorf("%s: %d bytes", leadService, len(req))
	}
	to, name := binary.BigEndian.Uint64(req), string(req[8:])
	l := w.logs.Find(name)
	if l != nil && w.able(l) || l == nil && w.opt.Key(name) != nil {
		return nil, nil // it will be signed here
	}
	if w.idle() != "" { // another log is signed here, so the leadership may be asked back
		if l != nil && l.Checkpoint() != nil && l.Checkpoint().Size == l.View().Size {
			return nil, nil // and no log waits
		}
		w.handoverMu.Lock()
		defer w.handoverMu.Unlock()
		if time.Since(w.handedOver) < handoverPause {
			return nil, node.ErrUnhealthy
		}
		w.handedOver = time.Now()
	}
	ctx, cancel := context.WithTimeout(context.Background(), handoverTimeout)
	defer cancel()
	return nil, w.node.TransferLeader(ctx, to)
}
