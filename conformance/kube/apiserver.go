package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// apiServer is one process of Kubernetes' API server, asked over HTTPS by a token that may do everything.
type apiServer struct {
	*proctest.Process
	client *http.Client
	base   string
}

const token = "conformance"

// startAPI starts it on a free port over the given members and waits until it says that it is ready.
func startAPI(ctx context.Context, program, dir string, members []string) (*apiServer, error) {
	address, err := proctest.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	key := filepath.Join(dir, "sa.key")
	tokens := filepath.Join(dir, "tokens.csv")
	if err := errors.Join(os.Mkdir(dir, 0o700), writeKey(key),
		os.WriteFile(tokens, []byte(token+`,conformance,1,"system:masters"`+"\n"), 0o600)); err != nil {
		return nil, err
	}
	var urls []string
	for _, m := range members {
		urls = append(urls, "http://"+m)
	}
	a := &apiServer{base: "https://" + address, Process: proctest.NewProcess(filepath.Join(dir, "log"), program,
		"--etcd-servers="+strings.Join(urls, ","), "--secure-port="+port, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--cert-dir="+dir, "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--token-auth-file="+tokens, "--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/16", "--endpoint-reconciler-type=none", "--watch-cache-sizes=secrets#0")}
	if err := a.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for ; ; time.Sleep(200 * time.Millisecond) {
		err := a.trust(filepath.Join(dir, "apiserver.crt"))
		if err == nil {
			_, err = a.do(ctx, http.MethodGet, "/readyz", nil, nil)
		}
		switch {
		case err == nil:
			return a, nil
		case !a.Running() || ctx.Err() != nil:
			return nil, errors.Join(fmt.Errorf("the API server is not ready: %w; last lines:\n%s", err, a.LogTail(20)), a.Kill())
		}
	}
}

// writeKey makes the key that the API server signs service accounts with; it does not start without one.
func writeKey(name string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(name, pem.EncodeToMemory(block), 0o600)
}

// trust makes the client: the certificate is one the API server has signed for itself when it started.
func (a *apiServer) trust(certificate string) error {
	if a.client != nil {
		return nil
	}
	text, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate yet", certificate)
	}
	a.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	return nil
}

// open sends a request and returns its answer of any status, which the caller closes.
func (a *apiServer) open(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/json-patch+json")
	}
	return a.client.Do(req)
}

// patch changes an object.
func (a *apiServer) patch(ctx context.Context, path string, operations any) error {
	_, err := a.do(ctx, http.MethodPatch, path, operations, nil)
	return err
}

// do is open for one answer of JSON, read into out. A status of 400 or more is an error too; the status is given in any case.
func (a *apiServer) do(ctx context.Context, method, path string, in, out any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	res, err := a.open(ctx, method, path, in)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	if res.StatusCode >= 400 {
		return res.StatusCode, fmt.Errorf("%s %s: %s: %.200s", method, path, res.Status, text)
	}
	if out == nil {
		return res.StatusCode, nil
	}
	return res.StatusCode, json.Unmarshal(text, out)
}

// createNamespace makes the namespace that everything is created in.
func (a *apiServer) createNamespace(ctx context.Context, name string) error {
	_, err := a.do(ctx, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}}, nil)
	return err
}

// path is where the objects of a kind are.
func path(kind string) string { return "/api/v1/namespaces/" + namespace + "/" + kind }
