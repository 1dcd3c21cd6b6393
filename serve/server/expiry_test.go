package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
)

// A certificate that has ended, ends soon, or is not good yet is named with the time and the remedy. A good one is not.
func TestCertificatesThatEndAreNamed(t *testing.T) {
	t.Parallel()
	a, dir := certtest.NewAuthority("members"), t.TempDir()
	su := &Setup{}
	now := time.Now()
	for name, end := range map[string]time.Duration{"gone": -time.Hour / 2, "today": 5 * time.Hour, "soon": 9*24*time.Hour + time.Hour, "good": 15 * 24 * time.Hour} {
		cert, key, err := certtest.WriteFiles(dir, name, a.Issue(name, certtest.NotAfter(now.Add(end))))
		if err != nil {
			t.Fatal(err)
		}
		pair, err := LoadKeyPair(cert, key, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		su.Certificates = append(su.Certificates, pair)
	}
	var log bytes.Buffer
	su.warnOfCertificates(NewLog(&log, slog.LevelInfo), now)
	for _, want := range []string{"warn  the certificate " + filepath.Join(dir, "gone.pem") + " has expired at ", "today.pem ends at ", ", within a day; replace the file", "soon.pem ends at ", ", in 9 days; replace the file"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, log.String())
		}
	}
	if strings.Count(log.String(), "\n") != 3 {
		t.Error(log.String())
	}
	for _, c := range su.certificateStatus(now) {
		if (c.Note == "") != strings.HasSuffix(c.File, "good.pem") || c.NotAfter.IsZero() {
			t.Errorf("%+v", c)
		}
	}
	if len(su.certificateNotes(now)) != 3 || len(su.certificateNotes(now.Add(2*24*time.Hour))) != 4 {
		t.Error("what is noted does not go by the time")
	}
	if note := expiryNote("f", &x509.Certificate{NotBefore: now.Add(time.Hour), NotAfter: now.Add(100 * 24 * time.Hour)}, now); !strings.Contains(note, "is not good before") {
		t.Error(note)
	}
}

// A hangup reads the authorities. A client with a certificate of a new one is let in, and a server with one is believed, for clients and
// members.
func TestAHangupReadsAuthoritiesAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, next := certtest.NewAuthority("old"), certtest.NewAuthority("next")
	ca, err := old.WriteFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := certtest.WriteFiles(dir, "server", old.Issue("server"))
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	log := NewLog(&lines, slog.LevelInfo)
	certs, err := loadCertificates(&Config{tlsCert: cert, tlsKey: key, tlsCA: ca}, log)
	if err != nil {
		t.Fatal(err)
	}
	su := &Setup{Certificates: []*KeyPair{certs.forClients}, Authorities: []*Authorities{certs.clientCAs}}
	clients, members := certs.clients(), certs.members()
	enters := func(conf *tls.Config, a *certtest.Authority) bool {
		c, s := net.Pipe()
		defer c.Close()
		defer s.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		done := make(chan error, 1)
		go func() { done <- tls.Server(s, conf).Handshake() }()
		client := tls.Client(c, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{a.Issue("client")}})
		go func() {
			_ = client.Handshake()
			_, _ = client.Read(make([]byte, 1)) // the server's refusal comes behind the handshake
		}()
		return <-done == nil
	}
	for _, conf := range []*tls.Config{clients, members} {
		if !enters(conf, old) || enters(conf, next) {
			t.Fatal("not as the file has it")
		}
	}
	both, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	other, err := next.WriteFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
		su.Reload(log)
	}
	write(append(both, more...))
	for _, conf := range []*tls.Config{clients, members} {
		if !enters(conf, old) || !enters(conf, next) {
			t.Error("both authorities are in the file, and not both are believed")
		}
	}
	write(more)
	for _, conf := range []*tls.Config{clients, members} {
		if enters(conf, old) || !enters(conf, next) {
			t.Error("the old authority was dropped and is believed, or the new one is not")
		}
	}
	if _, err := next.Issue("m").Leaf.Verify(x509.VerifyOptions{Roots: certs.memberCAs.Pool()}); err != nil {
		t.Error("members that are dialled are not believed:", err)
	}
	write([]byte("nothing"))
	if !enters(clients, next) || !strings.Contains(lines.String(), "new authorities not taken, the old ones count on") {
		t.Error("a file that cannot be read has changed what is believed, or was not named: ", lines.String())
	}
	if strings.Count(lines.String(), "authorities read again") != 2 {
		t.Error(lines.String())
	}
}
