package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

func TestSystemdIsToldThatTheServerIsReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	notify(path, "READY=1", slog.New(slog.DiscardHandler))
	l.SetReadDeadline(time.Now().Add(wait.Limit(t)))
	b := make([]byte, 100)
	if n, err := l.Read(b); err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("%q %v", b[:n], err)
	}
}

// TestUnknownVariablesAreNamed: those of flags, of doors and of tests are known.
func TestUnknownVariablesAreNamed(t *testing.T) {
	got := newConfig(all).unknownVariables([]string{"HOLDFAST_MEMORIE=1GiB", "HOLDFAST_MEMORY=1GiB", "HOLDFAST_TLOG_PUBLISH_PASSWORD=x", "PATH=/bin",
		"HOLDFAST_TEST_PORTS=1-2", "HOLDFAST_KVQUOTA="})
	if want := "HOLDFAST_KVQUOTA HOLDFAST_MEMORIE"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMembersAreNamedInTheLog: by name and id, where the name is known.
func TestMembersAreNamedInTheLog(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(named{NewLog(&b, slog.LevelInfo).Handler(), func(id string) string { return map[string]string{"ab": "n2"}[id] }})
	log.With("lane", "log").Info("member unreachable", "member", "ab")
	log.Info("member unreachable", "member", "cd")
	for _, want := range []string{`member unreachable lane=log member="n2 (ab)"`, `member unreachable member=cd`} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}

// TestRepeatedWarningsAreOneLineASecond, and none is lost without a number.
func TestRepeatedWarningsAreOneLineASecond(t *testing.T) {
	var b bytes.Buffer
	s := &seldom{log: NewLog(&b, slog.LevelInfo)}
	for range 100 {
		s.warn("a handshake failed")
	}
	s.last = s.last.Add(-time.Second)
	s.warn("a handshake failed")
	if n := strings.Count(b.String(), "\n"); n != 2 || !strings.Contains(b.String(), "suppressed=99") {
		t.Errorf("%d lines: %s", n, b.String())
	}
}

func TestLogLinesAsTextAndJSON(t *testing.T) {
	var text, lines bytes.Buffer
	NewLog(&text, slog.LevelInfo).Warn("a sentence", "key", "two words")
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d) warn  a sentence key="two words"\n$`).MatchString(text.String()) {
		t.Errorf("%q", text.String())
	}
	newJSONLog(&lines, slog.LevelInfo).Warn("a sentence", "key", "two words")
	var line struct {
		Time            time.Time
		Level, Msg, Key string
	}
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Time.IsZero() || line.Level != "warn" || line.Msg != "a sentence" || line.Key != "two words" {
		t.Errorf("%v: %s", err, lines.String())
	}
}

// TestAHangupReadsCertificatesAgain: at once, and one that cannot be read leaves the old one.
func TestAHangupReadsCertificatesAgain(t *testing.T) {
	a, dir := certtest.NewAuthority("test authority"), t.TempDir()
	issue := func(name string, serial int64) (cert, key string) {
		cert, key, err := certtest.WriteFiles(dir, name, a.Issue(name, certtest.Serial(serial)))
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	other, otherKey := issue("two", 2)
	var pair *KeyPair
	var first *big.Int
	wait.Until(t, "the files change before a second is over, and nobody has read them again", func() bool {
		file, key := issue("one", 1)
		var err error
		if pair, err = LoadKeyPair(file, key, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		first = pair.Get().Leaf.SerialNumber
		for from, to := range map[string]string{other: file, otherKey: key} {
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return pair.Get().Leaf.SerialNumber.Cmp(first) == 0
	})
	su := &Setup{Certificates: []*KeyPair{pair}}
	su.Reload(slog.New(slog.DiscardHandler))
	if pair.Get().Leaf.SerialNumber.Cmp(first) == 0 {
		t.Error("the old certificate is served after a hangup")
	}
}
