package server

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfastdb/holdfast/serve/admin"
)

// An own certificate is worth a warning when it ends within endsSoon, and again every lookAgain.
const (
	endsSoon  = 14 * 24 * time.Hour
	lookAgain = 24 * time.Hour
)

// expiryNote says that a certificate is not good, or not for long; "" if it is.
func expiryNote(file string, leaf *x509.Certificate, now time.Time) string {
	const day = 24 * time.Hour
	at := leaf.NotAfter.UTC().Format(time.RFC3339)
	switch left := leaf.NotAfter.Sub(now); {
	case left <= 0:
		return fmt.Sprintf("the certificate %s has expired at %s: clients and members that check it refuse it; replace the file, it is read again by itself", file, at)
	case now.Before(leaf.NotBefore):
		return fmt.Sprintf("the certificate %s is not good before %s: clients and members that check it refuse it; see to this machine's clock, or replace the file",
			file, leaf.NotBefore.UTC().Format(time.RFC3339))
	case left <= endsSoon && left < day:
		return fmt.Sprintf("the certificate %s ends at %s, within a day; replace the file, it is read again by itself", file, at)
	case left <= endsSoon:
		return fmt.Sprintf("the certificate %s ends at %s, in %d days; replace the file, it is read again by itself", file, at, left/day)
	}
	return ""
}

// certificateStatus is one certificate of this server in the answer of GET /v1/status.
type certificateStatus struct {
	File     string    `json:"file"`
	NotAfter time.Time `json:"not_after"`
	Note     string    `json:"note,omitempty"` // its fault, "" for none
}

func (su *Setup) certificateStatus(now time.Time) (all []certificateStatus) {
	for _, c := range su.Certificates {
		if leaf := c.Get().Leaf; leaf != nil {
			all = append(all, certificateStatus{c.certFile, leaf.NotAfter, expiryNote(c.certFile, leaf, now)})
		}
	}
	return all
}

// certificateNotes names the faults of own certificates, a line each.
func (su *Setup) certificateNotes(now time.Time) (notes []string) {
	for _, c := range su.certificateStatus(now) {
		if c.Note != "" {
			notes = append(notes, c.Note)
		}
	}
	return notes
}

// warnOfCertificates logs the notes.
func (su *Setup) warnOfCertificates(log *slog.Logger, now time.Time) {
	for _, note := range su.certificateNotes(now) {
		log.Warn(note)
	}
}

// watchCertificates warns at once and every day until ctx ends.
func (su *Setup) watchCertificates(ctx context.Context, log *slog.Logger) {
	t := time.NewTicker(lookAgain)
	defer t.Stop()
	for {
		su.warnOfCertificates(log, time.Now())
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

var descNotAfter = admin.NewDesc("certificate_not_after_seconds", "When a certificate of this server ends, in seconds since 1970.", "file")

func (su *Setup) collectCertificates(m *admin.Metrics) {
	for _, c := range su.certificateStatus(time.Now()) {
		m.Gauge(descNotAfter, float64(c.NotAfter.Unix()), c.File)
	}
}
