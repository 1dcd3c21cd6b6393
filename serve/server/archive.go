package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	archiveship "github.com/holdfastdb/holdfast/archive/ship"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// archiveConfig is what this server is told of the archive.
type archiveConfig struct {
	url       string // "": there is none
	lost      string // the identity of an archive that was given up
	store     objstore.Store
	interval  time.Duration
	requests  int64
	keepAge   time.Duration // below zero: for ever
	keepCount int
}

// archiveOptions are the archive's settings.
func (c *Config) archiveOptions() []serve.Option {
	a := &c.archive
	return []serve.Option{
		{Name: "archive", Arg: "URL", Help: "ship the log as it grows to file:///dir or s3://bucket/prefix; the same for all members",
			Set: func(v string) error { return setArchive(a, v) }},
		{Name: "archive-lost", Arg: "ID", Help: "give up the archive of this identity: what is at --archive may take its place",
			Set: func(v string) error { return setLost(&a.lost, v) }},
		{Name: "archive-interval", Arg: "TIME", Default: "1s", Help: "gather entries for so long while nobody waits for them to be archived",
			Set: func(v string) error { return setInterval(&a.interval, v) }},
		{Name: "archive-requests", Arg: "NUMBER", Default: "3000000", Help: "requests a month to the archive's store; near it entries are gathered for longer",
			Set: func(v string) error { return setCount(&a.requests, v) }},
		{Name: "archive-keep", Arg: "TIME", Default: "30d", Help: "how far back a restore must be possible, in days or hours, or forever",
			Set: func(v string) error { return setKeep(&a.keepAge, v) }},
		{Name: "archive-keep-snapshots", Arg: "NUMBER", Default: "2", Help: "how many snapshots the archive has at least, however old they are",
			Set: func(v string) (err error) {
				var n int64
				if err = setCount(&n, v); n > 1<<20 {
					err = errors.New("more than any archive has; write a small number")
				}
				a.keepCount = int(n)
				return err
			}},
		{Name: "log-retention", Arg: "SIZE", Default: "1GiB", Help: "how much of the log is kept at most for an archive that is behind",
			Set: func(v string) error { return cli.SetSize(&c.logRetention, v) }},
	}
}

func setArchive(a *archiveConfig, v string) (err error) {
	if strings.HasPrefix(v, "gs://") {
		return errors.New("no client for Google's own interface is built in, but it has that of S3; write s3://bucket/prefix, with " +
			"AWS_ENDPOINT_URL=https://storage.googleapis.com and an HMAC key in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	a.url = v
	a.store, err = objstore.Open(v)
	return err
}

// setLost takes the identity in the alarm of an archive that is away, or the word for an unknown one.
func setLost(dst *string, v string) error {
	if v != archiveship.LostUnknown && (len(v) != 32 || strings.Trim(v, "0123456789abcdef") != "") {
		return errors.New("no identity of an archive; write the one that the alarm names, 32 digits, or " + archiveship.LostUnknown)
	}
	*dst = v
	return nil
}

func setInterval(dst *time.Duration, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 10*time.Millisecond || d > time.Hour {
		return errors.New("no time from 10ms to 1h; write 1s or 500ms")
	}
	*dst = d
	return nil
}

func setCount(dst *int64, v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		return errors.New("no number from 1 on; write it in digits")
	}
	*dst = n
	return nil
}

func setKeep(dst *time.Duration, v string) error {
	if v == "forever" {
		*dst = -1
		return nil
	}
	bad := errors.New("no time from 1h to 10000d; write 30d, 12h or forever")
	if days, ok := strings.CutSuffix(v, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 10_000 {
			return bad
		}
		*dst = time.Duration(n) * 24 * time.Hour
		return nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Hour || d > 10_000*24*time.Hour {
		return bad
	}
	*dst = d
	return nil
}

// archiveClaim is the shipper's memory: spans in flight, and a piece of a snapshot.
var archiveClaim = budget.Claim{Name: "archive", Weight: 5, Floor: 12 << 20, Ceiling: 56 << 20}

// Archive is where a server ships its log to.
type Archive struct {
	URL     string
	Store   objstore.Store
	Options archiveship.Options // Start adds Logger
}

// archiveSetup is what Start takes of it; nil: there is no archive.
func (c *Config) archiveSetup(share *budget.Shares) *Archive {
	a := &c.archive
	if a.url == "" {
		return nil
	}
	return &Archive{URL: a.url, Store: a.store, Options: archiveship.Options{Interval: a.interval, Requests: a.requests, KeepAge: a.keepAge,
		KeepCount: a.keepCount, Memory: share.Of(archiveClaim.Name), URL: a.url, Lost: a.lost}}
}

// archiveService is answered by each member with the Status of its worker, as JSON.
const archiveService = "archive.status"

// archiveStatus is the archive in the answer of GET /v1/status.
type archiveStatus struct {
	To string `json:"to"`
	archiveship.Status
	// Note says why what only the leader knows is missing, "" if nothing is.
	Note string `json:"note,omitempty"`
}

// shipArchive starts the worker, when the node runs.
func (s *Server) shipArchive() {
	a := s.setup.Archive
	opt := a.Options
	opt.Logger = s.log
	if opt.FS, opt.Dir = s.setup.Node.FS, s.setup.Node.Dir; opt.FS == nil {
		opt.FS = disk.OS()
	}
	opt.Reopen = func() (objstore.Store, error) { return objstore.Open(a.URL, objstore.MustExist()) }
	w := archiveship.New(archiveship.NodeMember{Node: s.node}, a.Store, opt)
	s.node.Handle(archiveService, func(context.Context, []byte) ([]byte, error) { return json.Marshal(w.Status()) })
	s.shipper = w
	s.wg.Go(w.Run)
}

// archiveNow is the present state of the archive, with the leader's help.
func (s *Server) archiveNow(ctx context.Context) archiveStatus {
	st := archiveStatus{To: s.setup.Archive.URL, Status: s.shipper.Status()}
	if st.Leads {
		return st
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a person waits for the answer
	defer cancel()
	b, err := s.node.Call(ctx, archiveService, nil)
	var leader archiveship.Status
	if err == nil {
		err = json.Unmarshal(b, &leader)
	}
	if err != nil {
		st.Note = "the leader did not say how far the archive is: " + err.Error()
		return st
	}
	own, archived := st.Alarm, st.Archived
	st.Status, st.Leads = leader, false
	st.Archived = max(archived, leader.Archived)
	if own != "" {
		st.Note = "this member will not ship when it leads: " + own
	}
	return st
}

// archiveSection is the archive's part of the operator's port.
func (s *Server) archiveSection() admin.Section {
	return admin.Section{
		Status: func(ctx context.Context) []admin.Field {
			return []admin.Field{{Name: "archive", Value: s.archiveNow(ctx)}}
		},
		Collect: func(m *admin.Metrics) { collectArchive(m, s.shipper.Status()) },
		Notes:   s.archiveNotes,
	}
}

// noteWait bounds how long /readyz of a follower waits for the leader's word on the archive.
const noteWait = 300 * time.Millisecond

// archiveNotes are the lines of /readyz: why nothing is acknowledged as archived, on any member.
func (s *Server) archiveNotes(ctx context.Context) (notes []string) {
	ctx, cancel := context.WithTimeout(ctx, noteWait)
	defer cancel()
	st := s.archiveNow(ctx)
	if st.Alarm != "" {
		notes = append(notes, "archiving has stopped: "+st.Alarm)
	}
	if own := s.shipper.Status().Alarm; own != "" && own != st.Alarm {
		notes = append(notes, "archiving has stopped on this member: "+own)
	}
	if st.Away != "" {
		notes = append(notes, "the archive is away, and nothing is acknowledged as archived: "+st.Away)
	}
	if m := st.Missing; m != nil {
		notes = append(notes, fmt.Sprintf("entries %d to %d were acknowledged as archived and are not in the archive: they are shipped again", m.First, m.Last))
	}
	return notes
}

var (
	descArchived      = admin.NewDesc("archive_archived_index", "Up to which index the archive has the log, as far as this member has heard.")
	descArchiveLag    = admin.NewDesc("archive_lag_entries", "Entries applied here that are not archived.")
	descArchiveBytes  = admin.NewDesc("archive_lag_bytes", "Bytes of the log that are not archived, on the leader.")
	descArchiveAge    = admin.NewDesc("archive_lag_seconds", "Age of the oldest entry that is not archived, on the leader.")
	descArchiveFlight = admin.NewDesc("archive_uploads", "Uploads of entries that are on their way.")
	descArchiveAsked  = admin.NewDesc("archive_requests_total", "Requests of this member to the archive's store.")
	descArchiveMonth  = admin.NewDesc("archive_requests_this_month", "Those of this calendar month (UTC) since this member was started.")
	descArchiveBudget = admin.NewDesc("archive_requests_budget", "How many a month may have (--archive-requests).")
	descArchiveFails  = admin.NewDesc("archive_failing", "1 if the archive's store fails and is tried again.")
	descArchiveAlarm  = admin.NewDesc("archive_stopped", "1 if this member ships nothing any more: the archive is of another history, damaged, or in a store that keeps no conditions.")
	descArchiveAway   = admin.NewDesc("archive_away", "1 if the store is not this cluster's archive, or refuses until a person changes something: nothing is acknowledged as archived.")
	descArchiveMiss   = admin.NewDesc("archive_missing_entries", "Entries that were acknowledged as archived and are not in the archive, until they are shipped again, on the leader.")
	descArchiveGaps   = admin.NewDesc("archive_gaps_total", "How often entries were lost to the archive because the log is not kept for longer (--log-retention).")
	descArchiveSnap   = admin.NewDesc("archive_snapshot_index", "Index of the newest snapshot in the archive, on the leader.")
	descArchiveSnapAt = admin.NewDesc("archive_snapshot_timestamp_seconds", "Time along the log of that snapshot, on the leader.")
)

func collectArchive(m *admin.Metrics, st archiveship.Status) {
	m.Gauge(descArchived, float64(st.Archived))
	m.Gauge(descArchiveLag, float64(st.Entries))
	m.Count(descArchiveAsked, st.Total)
	m.Gauge(descArchiveMonth, float64(st.Requests))
	m.Gauge(descArchiveBudget, float64(st.Budget))
	m.Flag(descArchiveAlarm, st.Alarm != "")
	m.Count(descArchiveGaps, uint64(st.Gaps))
	if !st.Leads {
		return
	}
	m.Gauge(descArchiveBytes, float64(st.Bytes))
	m.Gauge(descArchiveAge, st.Seconds)
	m.Gauge(descArchiveFlight, float64(st.Flight))
	m.Flag(descArchiveFails, st.Failing != "")
	m.Flag(descArchiveAway, st.Away != "")
	missing := uint64(0)
	if st.Missing != nil {
		missing = st.Missing.Last - st.Missing.First + 1
	}
	m.Gauge(descArchiveMiss, float64(missing))
	if st.Snapshot.Index > 0 {
		m.Gauge(descArchiveSnap, float64(st.Snapshot.Index))
		m.Gauge(descArchiveSnapAt, float64(st.Snapshot.Time.Unix()))
	}
}
