package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfastdb/holdfast/internal/meter"
)

// tlogCollector exports what is known of transparency logs. Labels are a log's name and, of publications, the place as the
// operator wrote it: both are bounded, by the machine's most logs and by the command line.
type tlogCollector struct{ admin *Admin }

var (
	descLogSize     = desc("tlog_size", "Entries of the log.", "log")
	descLogSigned   = desc("tlog_checkpoint_size", "Entries that the newest checkpoint covers.", "log")
	descLogHeld     = desc("tlog_held", "1 if the log was restored and not resumed: it takes no entries.", "log")
	descLogDamaged  = desc("tlog_damaged", "1 if this member found the log damaged in its store, and will not sign it.", "log")
	descLogAdded    = desc("tlog_added_total", "Entries acknowledged through this member.", "log")
	descLogRefused  = desc("tlog_refused_total", "Adds that are provably not in the log.", "log")
	descLogUnknown  = desc("tlog_unknown_total", "Adds that may be in the log: their outcome is not known.", "log")
	descScrubDone   = desc("tlog_scrub_entries", "Entries the scrub that runs has derived again, else the last one.", "log")
	descScrubAll    = desc("tlog_scrub_entries_to_do", "Entries of the log when that scrub began.", "log")
	descScrubEnded  = desc("tlog_scrub_timestamp_seconds", "When the last scrub that came to a verdict ended; 0: none has.", "log")
	descScrubBad    = desc("tlog_scrub_damage_total", "Scrubs that found damage.", "log")
	descScrubFailed = desc("tlog_scrub_failures_total", "Scrubs that ended without a verdict.", "log")
	descPubSize     = desc("tlog_published_size", "Entries that the published checkpoint covers, on the leader.", "log", "to")
	descPubLag      = desc("tlog_published_lag_entries", "Entries of the newest checkpoint that are not published, on the leader.", "log", "to")
	descPubFailed   = desc("tlog_publish_failures_total", "Publications that ended with an error.", "log", "to")
	descPubBad      = desc("tlog_published_damaged_objects", "Objects that the last scrub of the place found missing or altered, on the leader.", "log", "to")
	descBatch       = desc("tlog_batch_entries", "Entries of one command.")
	descSign        = desc("tlog_sign_seconds", "Checking a log against its right edge, and signing it.")
	descShow        = desc("tlog_checkpoint_seconds", "From signing a checkpoint to its being applied, when all may see it.")
)

// Describe implements prometheus.Collector. What is exported depends on which logs there are: unchecked.
func (c *tlogCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *tlogCollector) Collect(ch chan<- prometheus.Metric) {
	n, m := c.admin.node.Load(), c.admin.opts.Tlog
	if n == nil || n.logs.tree == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	signed := map[string]uint64{}
	for _, l := range n.logs.tree.Logs() {
		name := l.Spec.Name
		if k := l.Checkpoint(); k != nil {
			signed[name] = k.Size
		}
		gauge(descLogSize, float64(l.View().Size), name)
		gauge(descLogSigned, float64(signed[name]), name)
		gauge(descLogHeld, truth(l.Held()), name)
		gauge(descLogDamaged, truth(l.Damage() != nil), name)
		k := m.Log(name)
		count(descLogAdded, k.Added.Load(), name)
		count(descLogRefused, k.Refused.Load(), name)
		count(descLogUnknown, k.Unknown.Load(), name)
		gauge(descScrubDone, float64(k.ScrubDone.Load()), name)
		gauge(descScrubAll, float64(k.ScrubAll.Load()), name)
		gauge(descScrubEnded, float64(k.ScrubEnded.Load()), name)
		count(descScrubBad, k.ScrubBad.Load(), name)
		count(descScrubFailed, k.ScrubFailed.Load(), name)
	}
	s := n.Status()
	m.EachPlace(func(at meter.TlogPlace, p *meter.TlogPublish) {
		count(descPubFailed, p.Failed.Load(), at.Log, at.To)
		if s.Leader != s.MemberID {
			return // another member publishes now, so this one's figures are old
		}
		size := uint64(p.Size.Load())
		gauge(descPubSize, float64(size), at.Log, at.To)
		gauge(descPubBad, float64(p.Bad.Load()), at.Log, at.To)
		gauge(descPubLag, float64(max(signed[at.Log], size)-size), at.Log, at.To)
	})
	groups, entries, atMost := m.Batch.Read()
	ch <- prometheus.MustNewConstHistogram(descBatch, groups, float64(entries), atMost)
	for _, h := range []struct {
		d *prometheus.Desc
		h *meter.Histogram
	}{{descSign, &m.Sign}, {descShow, &m.Show}} {
		var r meter.Reading
		h.h.Read(&r)
		ch <- prometheus.MustNewConstHistogram(h.d, r.Count, r.Sum.Seconds(), exportedBuckets(&r))
	}
}
