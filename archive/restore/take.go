package restore

import (
	"context"
	"errors"
	"io"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/objstore"
)

// Take puts the snapshot that r gives into an archive, as one of its cluster's timeline: where the log is shipped there too, it is one of
// those that the leader takes. row sees each row before anything says that the snapshot is whole, and may refuse it. progress is as in
// PutSnapshot, and so are errors; node.ErrBadSnapshot is for what ends early or is damaged.
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
		r.CloseWithError(err) // the writer waits for nobody
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
