package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// A member is started with a certificate that has expired. It says so itself, in log, status, /readyz and metrics; the others say why they do not
// reach it. A new certificate in the same files is all that it takes.
func TestAnExpiredCertificateIsNamed(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue(t, "member", 2)
	flags := []string{"--peer-tls-cert", cert, "--peer-tls-key", key, "--peer-tls-ca", a.dir + "/ca.pem"}
	c := newTrio(t, false, flags...)
	c.nodes["n3"].stop()
	old, oldKey, err := certtest.WriteFiles(t.TempDir(), "old", a.Issue("member", certtest.NotAfter(time.Now().Add(-time.Minute))))
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	args := append(slices.DeleteFunc(c.args("n3", c.list()), func(f string) bool { return slices.Contains(flags, f) }),
		"--peer-tls-cert", old, "--peer-tls-key", oldKey, "--peer-tls-ca", a.dir+"/ca.pem")
	go func() {
		r, err := c.start("n3", args...)
		if err == nil {
			c.nodes["n3"] = r
		}
		started <- err
	}()
	n3 := &running{adminAddr: c.admin["n3"]}
	want := "the certificate " + old + " has expired at "
	wait.Until(t, "its log says so", func() bool { return strings.Contains(c.logs["n3"].String(), want) })
	wait.Until(t, "it runs", func() bool { return strings.Contains(c.logs["n3"].String(), "this is Holdfast") })
	wait.Until(t, "/readyz says so", func() bool { return strings.Contains(page(t, n3, "/readyz"), want) })
	wait.Until(t, "its status says so", func() bool {
		_, out, _ := execute(nil, "status", "--admin", n3.adminAddr)
		return strings.Contains(out, "A CERTIFICATE: "+want)
	})
	if text := page(t, n3, "/metrics"); !strings.Contains(text, `holdfast_certificate_not_after_seconds{file="`+old+`"}`) {
		t.Error("no metric")
	}
	for _, name := range []string{"n1", "n2"} {
		wait.Until(t, name+" says why it does not reach it", func() bool {
			for line := range strings.Lines(says(t, "status", "--admin", c.admin[name])) {
				if strings.HasPrefix(line, "n3 (") && strings.Contains(line, "unreachable since") && strings.Contains(line, "expired") {
					return true
				}
			}
			return false
		})
		if text := c.logs[name].String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "certificate has expired") {
			t.Error(text)
		}
	}
	for from, to := range map[string]string{cert: old, key: oldKey} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	c.serves("renewed")
	if text := page(t, n3, "/readyz"); !strings.HasPrefix(text, "ok\n") || strings.Contains(text, "expired") {
		t.Error(text)
	}
}
