package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

const (
	// mostKept is how many bytes of groups wait in memory before no more are made; a group has at most 4 MiB of pages.
	mostKept = 12 << 20
	// attempt is how long an upload may take, with another second for each MiB.
	attempt = 10 * time.Second
	// firstPause and mostPause are between attempts at a request that fails: they double.
	firstPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

// ship is a group on its way.
type ship struct {
	identity  string // of the replica
	confirmed bool   // the store was asked who it is, behind the upload
	alone     bool   // it is the first of an owner that made no fence
	seq       uint64
	file      replica.File
	head      replica.Head // behind it
	body      replica.Body
	end       walfile.Position
	bytes     int64 // in memory
	stream    bool  // it reads the database while it is sent
	group     *capture.Group
	there     bool
	made      time.Time
	// snapshot is stored behind the group, before that counts as stored; nil body: none is. branch: the record of a restore goes then.
	snapshot     replica.File
	snapshotBody replica.Body
	branch       bool
}

// ship makes a file of a captured group and sends it.
func (d *database) ship(g *capture.Group) {
	if g.Before != 0 && replica.Checksum(g.Before) != d.head.Post {
		d.fail(errors.New("what was captured does not follow what is stored"))
		return
	}
	if d.target.Ack == gate.Archive && g.Before != 0 { // else it is the first of this agent, and has the earlier commits
		d.witness.captured(g, d.now())
	}
	d.seq++
	s := &ship{seq: d.seq, identity: d.replicaID, alone: d.alone, end: g.Position, group: g, stream: !g.Kept() && g.Bytes() > mostKept/3, made: d.now()}
	h := replica.Header{PageSize: g.PageSize, Commit: g.State.Pages, Timestamp: d.now().UnixMilli(), NodeID: d.owner,
		PreApplyChecksum: d.head.Post, WALOffset: g.Offset, WALSize: g.Size}
	if g.Offset != 0 {
		h.WALSalt1, h.WALSalt2 = binary.BigEndian.Uint32(g.Salt[:]), binary.BigEndian.Uint32(g.Salt[4:])
	}
	h.MinTXID, h.MaxTXID = d.head.Next()
	post := replica.Checksum(g.Sum)
	s.file = replica.File{Min: h.MinTXID, Max: h.MaxTXID, Pre: h.PreApplyChecksum, Post: post, Time: time.UnixMilli(h.Timestamp).UTC()}
	s.body = func(w io.Writer) error { return replica.WriteGroup(w, h, g.Each, post) }
	s.head = replica.Head{TXID: h.MaxTXID, Post: post, Pages: g.State.Pages, PageSize: g.PageSize, Owner: d.owner, Time: s.file.Time}
	if d.renew {
		whole := h // a header of its own: the group's body is written with h later
		whole.MinTXID, whole.PreApplyChecksum, whole.WALOffset, whole.WALSize, whole.WALSalt1, whole.WALSalt2 = 1, 0, 0, 0, 0, 0
		s.snapshot = replica.File{Level: snapshotLevel, Min: 1, Max: h.MaxTXID, Post: post, Time: s.file.Time}
		s.snapshotBody = func(w io.Writer) error { return replica.WriteGroup(w, whole, g.Each, post) }
	}
	s.branch, d.renew, d.branch = d.branch, false, false
	if !s.stream {
		var b, snapshot bytes.Buffer
		err := s.body(&b)
		if err == nil && s.snapshotBody != nil {
			err = s.snapshotBody(&snapshot)
			s.snapshotBody, s.snapshot.Size = replica.Bytes(snapshot.Bytes()), int64(snapshot.Len())
		}
		g.Release()
		if err != nil {
			d.fail(err)
			return
		}
		s.body, s.file.Size, s.bytes, s.group = replica.Bytes(b.Bytes()), int64(b.Len()), int64(b.Len()), nil
	} else {
		d.streams++
	}
	d.head = s.head
	d.bytes += s.bytes
	d.ships = append(d.ships, s)
	for _, l := range d.levels {
		l.note(g, d.now())
	}
	if g.Whole {
		d.snapshotNow() // files below it have another page size and are of no use with it
	}
	times := d.times
	d.async(func(ctx context.Context) func() {
		err := d.upload(ctx, s)
		return func() {
			if times == d.times { // else the database was opened anew, and this is forgotten
				d.landed(s, err)
			}
		}
	})
}

// upload puts a ship until it is there or never can be.
func (d *database) upload(ctx context.Context, s *ship) error {
	if s.stream {
		if err := measure(&s.file, s.body); err != nil {
			return err
		}
	}
	create := d.target.Replica.Create
	if s.alone {
		create = d.target.Replica.CreateAlone
	}
	if err := d.put(ctx, s.file.String(), s.file.Size, func(ctx context.Context) error { return create(ctx, s.file, s.body) }); err != nil {
		return err
	}
	if err := d.complete(ctx, s); err != nil {
		return err
	}
	return d.confirm(ctx, s)
}

// complete does what belongs to a group behind its upload, before it counts as stored.
func (d *database) complete(ctx context.Context, s *ship) error {
	if s.snapshotBody != nil {
		if s.stream {
			if err := measure(&s.snapshot, s.snapshotBody); err != nil {
				return err
			}
		}
		if err := d.put(ctx, s.snapshot.String(), s.snapshot.Size, func(ctx context.Context) error {
			return d.target.Replica.PutLevel(ctx, s.snapshot, s.snapshotBody)
		}); err != nil {
			return err
		}
	}
	if s.branch {
		if err := restore.RemoveRecord(d.agent.cfg.FS, d.target.Path); err != nil {
			d.log.Warn("remove the record of a restore", "err", err) // it is true, and is judged beside the state
		}
	}
	return nil
}

// put insists on an upload of size bytes and counts each attempt.
func (d *database) put(ctx context.Context, name string, size int64, f func(ctx context.Context) error) error {
	return d.insist(ctx, "put "+name, size, func(ctx context.Context) error {
		err := f(ctx)
		d.counted(size, err)
		return err
	})
}

// insist repeats f until it succeeds or fails for good. An error that only a person can mend is repeated too, less often.
func (d *database) insist(ctx context.Context, what string, size int64, f func(ctx context.Context) error) error {
	failing := false
	defer func() {
		if failing {
			d.storeFails(-1, "")
		}
	}()
	for wait := firstPause; ; {
		err := d.once(ctx, size, f)
		if err == nil || errors.Is(err, replica.ErrFenced) || errors.Is(err, replica.ErrOutdated) || errors.Is(err, capture.ErrChanged) || isSwapped(err) || ctx.Err() != nil {
			d.failed(nil)
			return err
		}
		d.trouble(err)
		by := 1
		if failing {
			by = 0
		}
		failing = true
		d.storeFails(by, what+": "+err.Error())
		d.failed(err)
		if d.agent.sleep(ctx, wait); ctx.Err() != nil {
			return ctx.Err()
		}
		if most := mostPause; final(err) {
			wait = min(2*wait, 5*most)
		} else {
			wait = min(2*wait, most)
		}
	}
}

// counted adds an attempt at an upload to the numbers of View.
func (d *database) counted(size int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.said.putFailures++
		return
	}
	d.said.puts++
	d.said.putBytes += size
}

// storeFails counts the requests that are repeated because they fail; the alarm is on while there are any. Any goroutine.
func (d *database) storeFails(by int, text string) {
	d.mu.Lock()
	d.failing += by
	if by > 0 {
		d.confirmed = time.Time{}
	}
	over := d.failing == 0
	d.mu.Unlock()
	if over {
		d.clear(alarmStore)
	} else if text != "" {
		d.raise(alarmStore, text)
	}
}

// once does f with one of the agent's uploads.
func (d *database) once(ctx context.Context, size int64, f func(ctx context.Context) error) error {
	select {
	case d.agent.uploads <- struct{}{}:
		defer func() { <-d.agent.uploads }()
	case <-ctx.Done():
		return ctx.Err()
	}
	d.agent.requests.add()
	ctx, cancel := d.agent.cfg.Timeout(ctx, attempt+time.Duration(size>>20)*time.Second)
	defer cancel()
	return f(ctx)
}

// landed is called by the loop when a ship is there, or never will be.
func (d *database) landed(s *ship, err error) {
	if s.stream {
		s.group.Release()
		d.streams--
	}
	switch {
	case errors.Is(err, replica.ErrFenced):
		d.fenced()
		return
	case isSwapped(err):
		d.swapped(err)
		return
	case d.agent.ctx.Err() != nil:
		return
	case err != nil:
		d.fail(err)
		return
	}
	s.there = true
	// Commit point of every commit in these groups: all files up to theirs are there.
	for len(d.ships) > 0 && d.ships[0].there {
		s := d.ships[0]
		d.ships[0] = nil // its bytes are of no use any more, and the slice lies there as long as nothing comes
		d.ships = d.ships[1:]
		d.through, d.stored, d.alone, d.lastGroup = s.seq, s.head, false, s.head
		if s.confirmed {
			d.sure, d.sureAt = s.head, d.now()
		}
		d.bytes -= s.bytes
		d.known = append(d.known, s.file)
		if s.snapshotBody != nil {
			d.known = append(d.known, s.snapshot)
		}
		d.stale = true
	}
	for len(d.waiting) > 0 && d.waiting[0].seq <= d.through {
		d.waiting[0].send()
		d.waiting = d.waiting[1:]
	}
}

// fail drops the uploads in flight, because no file can follow them, and begins anew: with a takeover, and the difference then.
func (d *database) fail(err error) {
	d.trouble(err)
	d.log.Error("the database is read again", "err", err)
	d.leave()
	d.answerAll(gate.NotStored, err)
	d.enter(gate.Opening, "the database is read again: "+err.Error())
}

// leave forgets what was captured and is on its way.
func (d *database) leave() {
	if d.files != nil {
		d.files.Close()
	}
	d.files, d.ships, d.bytes, d.streams, d.levels, d.waiting, d.view, d.mending = nil, nil, 0, 0, nil, nil, false, false
	d.through, d.times = d.seq, d.times+1
}

// measure finds how many bytes a file has, by encoding it once and keeping nothing.
func measure(f *replica.File, body replica.Body) error {
	var n counter
	if err := body(&n); err != nil {
		return err
	}
	f.Size = int64(n)
	return nil
}

type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
