package admin

import "github.com/prometheus/client_golang/prometheus"

var (
	descHeard       = NewDesc("member_heard_seconds", "How long ago another member was heard, on every member.", "member")
	descUnreachable = NewDesc("member_unreachable", "1 if another member is not heard, or cannot be sent to, from this one.", "member")
)

// collectContacts exports the way to each other member.
func collectContacts(n *attached, ch chan<- prometheus.Metric) {
	for _, c := range n.Contacts() {
		ch <- prometheus.MustNewConstMetric(descHeard, prometheus.GaugeValue, c.Heard.Seconds(), hex(c.ID))
		ch <- prometheus.MustNewConstMetric(descUnreachable, prometheus.GaugeValue, truth(c.Lost > 0), hex(c.ID))
	}
}
