package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// order is one attack for a process of its own. Attackers have machines of their own elsewhere. Here their process has the lowest priority,
// so that the neighbour feels only the server's own work for them.
type order struct {
	Attack, Port string
	At           map[string]string
	Many         bool
	CA           string // file of the authority; "": plain
	Lasts        time.Duration
}

// report is what an order came to.
type report struct{ Did, Err string }

// slow is how much longer than ordered an attacker may take.
const slow = time.Minute

// carryOut has an attacker obey, and waits for it.
func (o *order) carryOut() (did string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.Lasts+slow)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", self, "-attack", string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("the attacker: %w", err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return "", fmt.Errorf("the attacker said %q: %w", out.Bytes(), err)
	}
	if r.Err != "" {
		err = errors.New(r.Err)
	}
	return r.Did, err
}

// obey carries out an order in this process and prints the report.
func obey(text string) {
	r, err := attacked(text)
	if err != nil {
		r.Err = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(r) // the caller sees that nothing came
}

func attacked(text string) (r report, err error) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return r, err
	}
	i := slices.IndexFunc(attacks, func(a *attack) bool { return a.name == o.Attack })
	if i < 0 {
		return r, fmt.Errorf("no attack %q", o.Attack)
	}
	t := &target{at: o.At, port: o.Port, from: attackers(o.Many)}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return r, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		t.tls = &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.Lasts)
	defer cancel()
	r.Did, err = attacks[i].run(ctx, t)
	<-ctx.Done() // an attack that has sent everything keeps what it has open until then
	return r, err
}
