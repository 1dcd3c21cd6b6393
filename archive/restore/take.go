package restore

import (
	"context"
	"errors"
	"io"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/objstore"
)

// Take puts the snapshot of r into an archive, in its cluster's timeline. If the log is shipped there too, the snapshot counts like the
// leader's own. row sees each row before the snapshot is complete, and may refuse it. progress and errors are as in PutSnapshot;
// node.ErrBadSnapshot is for a damaged or short snapshot.
func Take(ctx context.Context, s objstore.Store, r io.Reader, row func(key, value []byte) error, progress func(bytes int64)) (*format.Manifest, error) {
	info, state, rest, err := node.ReadSnapshotHead(r)
	if err != nil {
		return nil, err
	}
	m := format.Manifest{Cluster: info.Cluster, Timeline: info.Cluster, Index: info.Index, Term: info.Term, State: state.Hash, WallNs: state.WallNs}
	judged := judge(rest, row)
	defer judged.stop()
	return PutSnapshot(ctx, s, m, judged, progress)
}

// judged is a snapshot that is looked at while it is read. Its end is an error if it is not one.
type judged struct {
	from io.Reader
	to   *io.PipeWriter
	end  chan error
}

var errUnread = errors.New("the snapshot was not read to its end")

func judge(from io.Reader, row func(key, value []byte) error) *judged {
	r, w := io.Pipe()
	j := &judged{from: from, to: w, end: make(chan error, 1)}
	go func() {
		_, err := node.ReadSnapshot(r, nil, row)
		if err == nil {
			if n, _ := io.Copy(io.Discard, r); n > 0 {
				err = node.ErrBadSnapshot
			}
		}
		r.CloseWithError(err) // the writer must not block
		j.end <- err
	}()
	return j
}

// Read implements io.Reader.
func (j *judged) Read(b []byte) (int, error) {
	n, err := j.from.Read(b)
	if n > 0 {
		if _, werr := j.to.Write(b[:n]); werr != nil {
			return 0, werr
		}
	}
	if errors.Is(err, io.EOF) {
		j.to.Close()
		if verdict := <-j.end; verdict != nil {
			err = verdict
		}
		j.end <- nil
	}
	return n, err
}

// stop ends the look at one that is read no further.
func (j *judged) stop() {
	j.to.CloseWithError(errUnread)
	<-j.end
}
