package main

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// house is the cluster: each member's addresses, certificates and program. The goroutine of the script owns it; the load reads only its
// journal.
type house struct {
	dir     string
	bin     string
	cluster *proctest.Cluster
	front   *certtest.Authority // of what clients see
	frontCA string
	journal *journal
	members []*member
}

// member is one of the house.
type member struct {
	*proctest.Node
	id        string // hexadecimal, "" until it has joined
	bin       string
	cert, key string // between members
	ca        string // file with the authorities it believes other members by
	peers     []string
	extra     []string
	noPeer    bool // it is not told where to listen for others
}

// aMonth is the lifetime of a certificate without a warning.
const aMonth = 30 * 24 * time.Hour

// memory is what each member is given: three of them share the machine.
const memory = "256MiB"

func newHouse(dir, bin string) (*house, error) {
	h := &house{dir: dir, bin: bin, front: certtest.NewAuthority("clients"), journal: newJournal()}
	var err error
	if h.frontCA, err = h.front.WriteFile(dir); err != nil {
		return nil, err
	}
	if _, _, err = certtest.WriteFiles(dir, "front", h.front.Issue("127.0.0.1", certtest.NotAfter(time.Now().Add(aMonth)))); err != nil {
		return nil, err
	}
	kind := proctest.HoldfastTLS(bin, h.client())
	if h.cluster, err = proctest.New(dir, kind, 3); err != nil {
		return nil, err
	}
	return h, nil
}

// client is how a client or an operator connects.
func (h *house) client() *tls.Config {
	return &tls.Config{RootCAs: h.front.Pool(), ServerName: "127.0.0.1"}
}

// take makes a node of the cluster a member with a certificate of the authority.
func (h *house) take(n *proctest.Node, by *certtest.Authority) (*member, error) {
	m := &member{Node: n, bin: h.bin, ca: filepath.Join(h.dir, n.Name+"-ca.pem")}
	if err := h.certify(m, by, time.Now().Add(aMonth)); err != nil {
		return nil, err
	}
	if err := h.believe(m, by); err != nil {
		return nil, err
	}
	h.members = append(h.members, m)
	h.journal.add(m.Name)
	return m, nil
}

// certify gives a member a certificate that ends at the given time, over the one it has. The member reads it at its start and at SIGHUP.
func (h *house) certify(m *member, by *certtest.Authority, ends time.Time) error {
	var err error
	m.cert, m.key, err = certtest.WriteFiles(h.dir, m.Name+"-peer", by.Issue("127.0.0.1", certtest.NotAfter(ends)))
	return err
}

// believe has a member believe other members that show a certificate of these authorities.
func (h *house) believe(m *member, authorities ...*certtest.Authority) error {
	var all []byte
	for _, a := range authorities {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})...)
	}
	return os.WriteFile(m.ca, all, 0o600)
}

// start runs a member with the flags it has now.
func (h *house) start(m *member) error {
	args := []string{"serve", "--data", m.Dir, "--name", m.Name, "--memory", memory, "--kv", m.KV, "--saga", m.Addr("saga"), "--tlog", m.Addr("tlog"),
		"--admin", m.Admin, "--tls-cert", filepath.Join(h.dir, "front.pem"), "--tls-key", filepath.Join(h.dir, "front-key.pem"),
		"--peer-tls-cert", m.cert, "--peer-tls-key", m.key, "--peer-tls-ca", m.ca}
	if !m.noPeer {
		args = append(args, "--peer", m.Peer)
	}
	m.Process = proctest.NewProcess(filepath.Join(h.dir, m.Name+".log"), m.bin, slices.Concat(args, m.peers, m.extra)...)
	if err := m.Start(); err != nil {
		return err
	}
	return nil
}

// ready waits until members are, and notes that they are there again.
func (h *house) ready(members ...*member) error {
	for _, m := range members {
		if err := h.wait(m); err != nil {
			return err
		}
		h.journal.back(m.Name)
	}
	return nil
}

// readyWithin bounds the wait for a member.
const readyWithin = 90 * time.Second

// wait waits until a member says that it is ready. Its admin port is on loopback, where it has no TLS.
func (h *house) wait(m *member) error {
	for deadline := time.Now().Add(readyWithin); ; time.Sleep(50 * time.Millisecond) {
		code, text, err := h.get(m, "/readyz")
		switch {
		case err == nil && code == http.StatusOK:
			return nil
		case !m.Running():
			return fmt.Errorf("%s ended before it was ready (%v)", m.Name, m.ExitError())
		case time.Now().After(deadline):
			return fmt.Errorf("%s is not ready after %s: %w, %s", m.Name, readyWithin, err, text)
		}
	}
}

// stop ends a member as an operator does, and notes that it is away from then on.
func (h *house) stop(m *member) error {
	h.journal.gone(m.Name)
	return m.Term(30 * time.Second)
}

// hangUp has a member read its certificates again.
func (h *house) hangUp(members ...*member) error {
	for _, m := range members {
		if err := syscall.Kill(m.PID(), syscall.SIGHUP); err != nil {
			return err
		}
	}
	return nil
}

// followers are the members without the leader; leader is the first result.
func (h *house) followers() (leader *member, others []*member, err error) {
	n, err := h.cluster.WaitLeader(30 * time.Second)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range h.members {
		if m.Node == n {
			leader = m
		} else {
			others = append(others, m)
		}
	}
	return leader, others, nil
}

// to connects to members by the client port.
func (h *house) to(members ...*member) (*clientv3.Client, error) {
	var at []string
	for _, m := range members {
		at = append(at, "https://"+m.KV)
	}
	return clientv3.New(clientv3.Config{Endpoints: at, TLS: h.client(), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// ask has one client ask members something.
func (h *house) ask(do func(ctx context.Context, c *clientv3.Client) error, members ...*member) error {
	c, err := h.to(members...)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return do(ctx, c)
}

// ids learns the members' identities from the log.
func (h *house) ids() error {
	return h.ask(func(ctx context.Context, c *clientv3.Client) error {
		res, err := c.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range h.members {
			for _, known := range res.Members {
				if known.Name == m.Name {
					m.id = fmt.Sprintf("%x", known.ID)
				}
			}
			if m.id == "" {
				return fmt.Errorf("%s is not among the members", m.Name)
			}
		}
		return nil
	}, h.members...)
}

// run runs the program as an operator at a terminal does.
func (h *house) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, h.bin, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("holdfast %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// peerList is --peers of a cluster that begins, or that is renumbered: each member's address as it is now.
func (h *house) peerList() string {
	var all []string
	for _, m := range h.members {
		all = append(all, m.Name+"="+m.Peer)
	}
	return strings.Join(all, ",")
}

// moved gives a member a free address for the others to reach it at.
func moved(m *member) error {
	at, err := proctest.FreeAddress()
	m.Peer = at
	return err
}

func (h *house) close() {
	for _, m := range h.members {
		if m.Process != nil {
			_ = m.Kill() // nothing more can be done
		}
	}
}

// tails are the last lines of every member's log.
func (h *house) tails(n int) error {
	var all []error
	logs := map[string]string{}
	for _, m := range h.members {
		logs[m.Name] = m.LogTail(n)
	}
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		all = append(all, fmt.Errorf("%s, last lines:\n%s", name, logs[name]))
	}
	return errors.Join(all...)
}
