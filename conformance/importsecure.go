package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// importSecured is importUnderLoad with certificates and passwords. Both sides want a certificate of their own authority, and the target
// runs under the name etcd with etcd's flags. Users change on the source all the while, and its members are restarted. So tokens and
// connections of the import end before it does. An etcd 3.4 forgets its tokens when it stops. Those of the 3.7 are signed, good for three
// seconds and outdated after each change. At last an import that shows root's own certificate and knows no password finds both sides the
// same.
func importSecured(e *env) {
	if e.holdfast == "" {
		return
	}
	oldAccess, newAccess := e.newAccess("old", "p:a, ß%20"), e.newAccess("new", "another one")
	if e.err != nil {
		return
	}
	flags := e.v2Flags()
	if !e.hasV2() {
		flags = []string{"--auth-token", fmt.Sprintf("jwt,pub-key=%s,priv-key=%s,sign-method=ES256,ttl=3s", oldAccess.serverCert, oldAccess.serverKey)}
	}
	source := e.extra("source", secured(e.etcd(), oldAccess, flags...), oldAccess)
	defer source.Close()
	target := e.extra("target", secured(e.linked(), newAccess), newAccess)
	defer target.Close()
	e.enableAuth(source)
	e.enableAuth(target)
	e.move(source, target)
	if !e.hasV2() { // v2 knows passwords only
		last := e.importing("import", "--once", "--resume", "--from", list(source.urls()), "--cacert", oldAccess.ca, "--cert", oldAccess.rootCert,
			"--key", oldAccess.rootKey, "--to", list(target.urls()), "--to-cacert", newAccess.ca, "--to-cert", newAccess.rootCert,
			"--to-key", newAccess.rootKey)
		last.wait(0)
		e.want("verdict of the import by certificates", last.output(), "the same on both sides")
	}
}

// access is how the clients of a deployment get in: by a certificate, and as root by a password.
type access struct {
	password string
	client   *tls.Config
	// PEM files: the authority, the pair of all servers, that of clients (which names no user), and root's own.
	ca, serverCert, serverKey, cert, key, rootCert, rootKey string
}

func (e *env) newAccess(name, password string) *access {
	if e.err != nil {
		return nil
	}
	ca, dir := certtest.NewAuthority(name), filepath.Join(e.dir, name+"-certificates")
	client := ca.Issue("")
	a := &access{password: password, client: ca.Config(client)}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		a.ca, err = ca.WriteFile(dir)
	}
	if err == nil {
		a.serverCert, a.serverKey, err = certtest.WriteFiles(dir, "server", ca.Issue("server"))
	}
	if err == nil {
		a.cert, a.key, err = certtest.WriteFiles(dir, "client", client)
	}
	if err == nil {
		a.rootCert, a.rootKey, err = certtest.WriteFiles(dir, "root", ca.Issue("root"))
	}
	if err != nil {
		e.failf("certificates: %w", err)
	}
	return a
}

// secured is a server with etcd's flags that admits clients with a certificate. Passwords are cheap to check here: there is no guessing.
func secured(bin string, a *access, flags ...string) proctest.Server {
	return proctest.EtcdTLS(bin, a.client, append(flags, "--cert-file", a.serverCert, "--key-file", a.serverKey, "--trusted-ca-file", a.ca,
		"--client-cert-auth", "--bcrypt-cost", "4")...)
}

// linked is Holdfast under the name etcd.
func (e *env) linked() string {
	path := filepath.Join(e.dir, "etcd")
	bin, err := filepath.Abs(e.holdfast)
	if err == nil {
		err = os.Symlink(bin, path)
	}
	if err != nil {
		e.failf("link holdfast: %w", err)
	}
	return path
}

// enableAuth makes root and asks for users from now on.
func (e *env) enableAuth(d *deployment) {
	if e.err != nil {
		return
	}
	c := e.client(&deployment{d.Cluster, &access{client: d.access.client}})
	if e.err != nil {
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := c.RoleAdd(ctx, "root")
	if err == nil {
		_, err = c.UserAdd(ctx, "root", d.access.password)
	}
	if err == nil {
		_, err = c.UserGrantRole(ctx, "root", "root")
	}
	if err == nil {
		_, err = c.AuthEnable(ctx)
	}
	if err != nil {
		e.failf("enable authentication: %w", err)
	}
}

// restartAll kills the members one after the other and starts them again.
func (e *env) restartAll(d *deployment) {
	for _, n := range d.Nodes {
		if e.err != nil {
			return
		}
		if err := n.Kill(); err != nil {
			e.failf("kill a member of the source: %w", err)
		} else if err := d.Restart(n); err != nil {
			e.failf("restart a member of the source: %w", err)
		}
	}
}

// churnUsers changes what users may do: each change makes what is under way under the catalogue before it start anew.
func (l *importLoad) churnUsers() {
	l.each(500*time.Millisecond, func(r *rand.Rand) error {
		role := fmt.Sprintf("role%d", r.IntN(3))
		if _, err := l.c.RoleAdd(l.ctx, role); err != nil {
			_, err = l.c.RoleDelete(l.ctx, role)
			return err
		}
		return nil
	})
}
