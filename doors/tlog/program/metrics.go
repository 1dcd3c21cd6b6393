package program

import (
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/serve/admin"
)

var (
	descLogSize     = admin.NewDesc("tlog_size", "Entries of the log.", "log")
	descLogSigned   = admin.NewDesc("tlog_checkpoint_size", "Entries that the newest checkpoint covers.", "log")
	descLogHeld     = admin.NewDesc("tlog_held", "1 if the log was restored and not resumed: it takes no entries.", "log")
	descLogState    = admin.NewDesc("tlog_state", "1, with the state that the log is in as a label, as `holdfast tlog list` shows it.", "log", "state")
	descLogDamaged  = admin.NewDesc("tlog_damaged", "1 if this member found the log damaged in its store, and will not sign it.", "log")
	descLogAdded    = admin.NewDesc("tlog_added_total", "Entries acknowledged through this member.", "log")
	descLogRefused  = admin.NewDesc("tlog_refused_total", "Adds that are provably not in the log.", "log")
	descLogUnknown  = admin.NewDesc("tlog_unknown_total", "Adds that may be in the log: their outcome is not known.", "log")
	descScrubDone   = admin.NewDesc("tlog_scrub_entries", "Entries the scrub that runs has derived again, else the last one.", "log")
	descScrubAll    = admin.NewDesc("tlog_scrub_entries_to_do", "Entries of the log when that scrub began.", "log")
	descScrubEnded  = admin.NewDesc("tlog_scrub_timestamp_seconds", "When the last scrub that came to a verdict ended; 0: none has.", "log")
	descScrubBad    = admin.NewDesc("tlog_scrub_damage_total", "Scrubs that found damage.", "log")
	descScrubFailed = admin.NewDesc("tlog_scrub_failures_total", "Scrubs that ended without a verdict.", "log")
	descPubSize     = admin.NewDesc("tlog_published_size", "Entries that the published checkpoint covers, on the leader.", "log", "to")
	descPubLag      = admin.NewDesc("tlog_published_lag_entries", "Entries of the newest checkpoint that are not published, on the leader.", "log", "to")
	descPubFailed   = admin.NewDesc("tlog_publish_failures_total", "Publications that ended with an error.", "log", "to")
	descPubBad      = admin.NewDesc("tlog_published_damaged_objects", "Objects that the last scrub of the place found missing or altered, on the leader.", "log", "to")
	descBatch       = admin.NewDesc("tlog_batch_entries", "Entries of one command.")
	descSign        = admin.NewDesc("tlog_sign_seconds", "Checking a log against its right edge, and signing it.")
	descShow        = admin.NewDesc("tlog_checkpoint_seconds", "From signing a checkpoint to its being applied, when all may see it.")
)

// collect exports metrics of transparency logs. Labels are a log's name and, of publications, the place as the operator wrote it. Both are
// bounded, by the machine's most logs and by the command line. Only the leader knows the publications.
func collect(to *admin.Metrics, logs *tlogmachine.Machine, m *meter.Tlog, leads bool) {
	signed := map[string]uint64{}
	for _, l := range logs.Logs() {
		name := l.Spec.Name
		if k := l.Checkpoint(); k != nil {
			signed[name] = k.Size
		}
		to.Gauge(descLogSize, float64(l.View().Size), name)
		to.Gauge(descLogSigned, float64(signed[name]), name)
		to.Flag(descLogHeld, l.Held(), name)
		to.Flag(descLogDamaged, l.Damage() != nil, name)
		k := m.Log(name)
		to.Count(descLogAdded, k.Added.Load(), name)
		to.Count(descLogRefused, k.Refused.Load(), name)
		to.Count(descLogUnknown, k.Unknown.Load(), name)
		to.Gauge(descScrubDone, float64(k.ScrubDone.Load()), name)
		to.Gauge(descScrubAll, float64(k.ScrubAll.Load()), name)
		to.Gauge(descScrubEnded, float64(k.ScrubEnded.Load()), name)
		to.Count(descScrubBad, k.ScrubBad.Load(), name)
		to.Count(descScrubFailed, k.ScrubFailed.Load(), name)
	}
	m.EachPlace(func(at meter.TlogPlace, p *meter.TlogPublish) {
		to.Count(descPubFailed, p.Failed.Load(), at.Log, at.To)
		if !leads {
			return // another member publishes now, so this one's figures are old
		}
		size := uint64(p.Size.Load())
		to.Gauge(descPubSize, float64(size), at.Log, at.To)
		to.Gauge(descPubBad, float64(p.Bad.Load()), at.Log, at.To)
		to.Gauge(descPubLag, float64(max(signed[at.Log], size)-size), at.Log, at.To)
	})
	to.Sizes(descBatch, &m.Batch)
	to.Seconds(descSign, &m.Sign)
	to.Seconds(descShow, &m.Show)
}
