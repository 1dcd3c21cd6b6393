package etcd

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/kv/etcd/flags"
)

func TestTheLogHasEtcdsKeys(t *testing.T) {
	var out bytes.Buffer
	newJSONLog(&out, slog.LevelInfo).Warn("ready to serve client requests", "err", fmt.Errorf("no"))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["ts"])); err != nil || line["level"] != "warn" || line["msg"] != readyLine || line["error"] != "no" {
		t.Errorf("%v %v", line, err)
	}
	if file, number, _ := strings.Cut(fmt.Sprint(line["caller"]), ":"); file != "etcd/etcd_test.go" || number == "" {
		t.Errorf("caller is %v", line["caller"])
	}
}

func TestACertificateComesFromWhereItIsFor(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5}
	for _, tc := range []struct {
		cert x509.Certificate
		from net.Addr
		want bool
	}{
		{x509.Certificate{Subject: pkix.Name{CommonName: "n1"}}, at, true}, // names nothing
		{x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, at, true},
		{x509.Certificate{IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}, at, false},
		{x509.Certificate{DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}, at, true},
		{x509.Certificate{DNSNames: []string{"nowhere.invalid"}}, at, false},
		{x509.Certificate{DNSNames: []string{"nowhere.invalid"}}, &net.UnixAddr{Name: "s", Net: "unix"}, true},
	} {
		if err := comesFrom(t.Context(), &tc.cert, tc.from); (err == nil) != tc.want {
			t.Errorf("%v %v from %v: %v", tc.cert.DNSNames, tc.cert.IPAddresses, tc.from, err)
		}
	}
}

func TestACertificateOfItsOwnIsKeptUntilItRunsOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "client")
	at, _ := flags.ParseURLs("https://localhost:1,https://127.0.0.1:2,unixs://x")
	read := func(years int) *x509.Certificate {
		certFile, keyFile, err := selfSigned(dir, at, years)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf
	}
	first := read(-1) // has run out already
	second := read(2)
	if second.SerialNumber.Cmp(first.SerialNumber) == 0 || second.VerifyHostname("localhost") != nil || second.VerifyHostname("127.0.0.1") != nil {
		t.Errorf("made anew: %v, for %v %v", second.SerialNumber.Cmp(first.SerialNumber) != 0, second.DNSNames, second.IPAddresses)
	}
	if third := read(2); third.SerialNumber.Cmp(second.SerialNumber) != 0 {
		t.Error("a good certificate was replaced")
	}
	if st, err := os.Stat(filepath.Join(dir, "key.pem")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key can be read by others: %v %v", st, err)
	}
}
