package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/serve/admin"
)

// AdminFlags are the flags of every command that talks to a running server.
type AdminFlags struct {
	addr, cert, key, ca *string
}

const DefaultAdmin = "127.0.0.1:8080"

// AddAdminFlags declares them.
func AddAdminFlags(l *FlagList) *AdminFlags {
	f := &AdminFlags{
		addr: l.Text("admin", "ADDR", DefaultAdmin, "the server's --admin address, or its https:// URL"),
		cert: l.Text("tls-cert", "FILE", "", "certificate to show the server, PEM"),
		key:  l.Text("tls-key", "FILE", "", "its private key, PEM"),
		ca:   l.Text("tls-ca", "FILE", "", "authority that signed the server's certificate, PEM"),
	}
	return f
}

// AdminClient talks to one server's admin door.
type AdminClient struct {
	base string // http://host:port
	http *http.Client
}

// Client reads the flags, each of which may also come from the environment, as for serve.
func (f *AdminFlags) Client(c *Call) (*AdminClient, error) {
	for name, v := range map[string]*string{"admin": f.addr, "tls-cert": f.cert, "tls-key": f.key, "tls-ca": f.ca} {
		if env := c.Getenv(EnvName(name)); env != "" && !c.Flags.Changed(name) {
			*v = env
		}
	}
	base := *f.addr
	if !strings.Contains(base, "://") {
		if _, err := Dialable(base); err != nil {
			return nil, Usagef("--admin %s: %s", base, err)
		}
		base = "http://" + base
		if *f.cert != "" || *f.ca != "" {
			base = "https://" + *f.addr
		}
	}
	t := &http.Transport{Proxy: nil} // the proxy in the environment is not meant for the operator's port
	if strings.HasPrefix(base, "https://") {
		conf, err := ClientTLS(*f.cert, *f.key, *f.ca)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = conf
	}
	return &AdminClient{base: strings.TrimSuffix(base, "/"), http: &http.Client{Transport: t}}, nil
}

// Address is the host:port that the client asks.
func (a *AdminClient) Address() string {
	_, address, _ := strings.Cut(a.base, "://")
	return address
}

// ClientTLS is how a command speaks TLS, by the values of --tls-cert, --tls-key and --tls-ca, each "" if it was not given.
func ClientTLS(cert, key, ca string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca %s: %s; give a PEM file this user can read", ca, Reason(err))
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca %s: no certificate in it; give the PEM file of the authority", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s with --tls-key %s: %s; give a certificate and its own key", cert, key, Reason(err))
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// TLSFlags are the flags of a command that reads a log over HTTP.
type TLSFlags struct{ cert, key, ca *string }

// AddTLSFlags declares them.
func AddTLSFlags(l *FlagList) *TLSFlags {
	return &TLSFlags{
		cert: l.Text("tls-cert", "FILE", "", "certificate to show the server, PEM"),
		key:  l.Text("tls-key", "FILE", "", "its private key, PEM"),
		ca:   l.Text("tls-ca", "FILE", "", "authority that signed the server's certificate, PEM (default: those this machine trusts)"),
	}
}

// Config reads the files they name.
func (f *TLSFlags) Config() (*tls.Config, error) { return ClientTLS(*f.cert, *f.key, *f.ca) }

// RequestPatience bounds every request but a snapshot, which may be of any length.
const RequestPatience = 15 * time.Second

// Call sends body as JSON unless it is nil and decodes the answer into out unless that is nil.
func (a *AdminClient) Call(method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), RequestPatience)
	defer cancel()
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
	}
	res, err := a.Send(ctx, method, path, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("ask %s: %w; is that the --admin address of a Holdfast server?", a.base, err)
	}
	return nil
}

// Send returns only answers of class 2xx; the caller closes the body.
func (a *AdminClient) Send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return nil, Usagef("--admin %s: not an address; write host:port", a.base)
	}
	res, err := a.http.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("ask %s: no answer within %v; ask another member with --admin", a.base, RequestPatience)
		}
		return nil, fmt.Errorf("ask %s: %s; is the server running, and is this its --admin address?", a.base, Innermost(err))
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	var refusal admin.Refusal
	b, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // only for the error's text
	if json.Unmarshal(b, &refusal) != nil || refusal.Error == "" {
		return nil, fmt.Errorf("ask %s: %s; is that the --admin address of a Holdfast server?", a.base, res.Status)
	}
	text := refusal.Error
	if !strings.Contains(text, "; ") {
		text += "; try again, or ask another member with --admin"
	}
	return nil, errors.New(text)
}

// Innermost is the operating system's word in an error of net/http, which repeats method, URL and address before it.
func Innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
