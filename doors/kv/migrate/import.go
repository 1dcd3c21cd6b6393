// Package migrate brings the data of an etcd over: from a running one, from a file it saved, from its data directory.
package migrate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/doors/kv/importer"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// importSide are the flags that name one of the two clusters.
type importSide struct {
	prefix                        string // "" for the source, "to-" for the target
	endpoints                     *string
	user, password, ca, cert, key *string
}

func addImportSide(l *cli.FlagList, name, prefix, def, what string) *importSide {
	return &importSide{
		prefix:    prefix,
		endpoints: l.Text(name, "ENDPOINT[,…]", def, "client addresses of "+what+", host:port or URLs"),
		user:      l.Text(prefix+"user", "NAME[:PASSWORD]", "", "user with role root there, if it has authentication enabled"),
		password:  l.Text(prefix+"password", "PASSWORD", "", "its password, if --"+prefix+"user does not name it"),
		ca:        l.Text(prefix+"cacert", "FILE", "", "authority that signed its certificate, PEM"),
		cert:      l.Text(prefix+"cert", "FILE", "", "certificate to show it, PEM"),
		key:       l.Text(prefix+"key", "FILE", "", "its private key, PEM"),
	}
}

func (s *importSide) endpoint() (e importer.Endpoint, err error) {
	secure := *s.ca != "" || *s.cert != ""
	for _, a := range strings.Split(*s.endpoints, ",") {
		if a = strings.TrimSpace(a); a == "" {
			continue
		}
		secure = secure || strings.HasPrefix(a, "https://")
		e.Addresses = append(e.Addresses, a)
	}
	e.User, e.Password = *s.user, *s.password
	if name, password, ok := strings.Cut(*s.user, ":"); ok {
		e.User, e.Password = name, password
	}
	if e.User != "" && e.Password == "" {
		return e, cli.Usagef("--%suser %s: no password; write --%suser %s:PASSWORD", s.prefix, e.User, s.prefix, e.User)
	}
	if !secure {
		return e, nil
	}
	e.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if *s.ca != "" {
		pem, err := os.ReadFile(*s.ca)
		if err != nil {
			return e, fmt.Errorf("--%scacert %s: %s; give a PEM file this user can read", s.prefix, *s.ca, cli.Reason(err))
		}
		e.TLS.RootCAs = x509.NewCertPool()
		if !e.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return e, fmt.Errorf("--%scacert %s: no certificate in it; give a PEM file", s.prefix, *s.ca)
		}
	}
	if *s.cert != "" {
		pair, err := tls.LoadX509KeyPair(*s.cert, *s.key)
		if err != nil {
			return e, fmt.Errorf("--%scert %s with --%skey %s: %s; give a certificate and its own key", s.prefix, *s.cert, s.prefix, *s.key, cli.Reason(err))
		}
		e.TLS.Certificates = []tls.Certificate{pair}
	}
	return e, nil
}

// Command is `holdfast import`, from an etcd or from the sources of the doors in all.
func Command(all serve.List) *cli.Command {
	var others []*serve.Import
	var from, to *importSide
	var once, resume *bool
	var hidden, data, dir, name, peer *string
	return &cli.Command{
		Name:    "import",
		Summary: "copy a running etcd, follow it until Ctrl-C, compare both sides; or make a data directory of an etcd's files",
		About: `With --data the source is a file that ` + "`etcdctl snapshot save`" + ` wrote, of etcd or of Holdfast: DIR becomes the data directory
of a new cluster of one member that has all keys with their history, revisions and versions, leases, users and roles. With --from-data-dir it is the data directory of an etcd that was stopped, or died: the database there,
and what its log has beyond.

Without, the source is a cluster. It is read at one revision while its clients go on, then followed. Ctrl-C is the cut-over: the import goes on to the
revision the source is at by then, compares all keys, values and leases of both sides and says whether they are the same. The
v2 keys of an etcd 3.4 are copied, followed and compared beside them, with the time they have left.
Status 0 if they are. docs/IMPORT.md tells how to move a deployment.

With --dtm the source is a DTM: its topics are copied and compared, then its open transactions are waited for, which it carries on itself. Nothing
else is copied: no transaction, open or ended, so a gid that has ended there is a new one here; and none of its settings.

A target that is not empty is refused unless --resume is given, which deletes there what the source does not have. An import
that was interrupted goes on with --resume: it compares both sides and writes only what differs.`,
		Examples: []string{
			"holdfast import --from 10.0.0.1:2379,10.0.0.2:2379",
			"holdfast import --from https://10.0.0.1:2379 --cacert ca.pem --cert client.pem --key client-key.pem --user root:secret",
			"holdfast import --from 10.0.0.1:2379 --once --resume",
			"holdfast import --from snapshot.db --data ./data",
			"holdfast import --from-data-dir /var/lib/etcd --data ./data",
			"holdfast import --dtm http://10.0.0.1:36789",
		},
		Flags: func(l *cli.FlagList) {
			from = addImportSide(l, "from", "", "", "the cluster to copy; with --data a file")
			to = addImportSide(l, "to", "to-", "127.0.0.1:2379", "the cluster to copy into")
			once = l.Toggle("once", "do not follow: compare and end as soon as the copy stands")
			hidden = l.Text("v2-hidden", "PATH[,…]", "", "v2 nodes to copy although their names begin with _, which no listing shows")
			resume = l.Toggle("resume", "the target may hold keys: make it the same as the source")
			data = l.Text("data", "DIR", "", "make this data directory of the file --from; it must be empty or missing")
			dir = l.Text("from-data-dir", "DIR", "", "with --data: make it of the data directory of a stopped etcd, which is only read")
			name = l.Text("name", "NAME", "", "with --data: label of its first member (default: the host's name)")
			peer = l.Text("peer", "ADDR", "", "with --data: address at which other members will reach it")
			others = all.Imports(l)
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 {
				return cli.Usagef("import: %s: it takes flags only; see `holdfast import --help`", c.Args[0])
			}
			for _, o := range others {
				if !o.Asked() {
					continue
				}
				if *from.endpoints+*dir+*data != "" {
					return cli.Usagef("import: --from, --from-data-dir and --data are for an etcd; name one source")
				}
				return o.Run(c)
			}
			if *dir != "" && (*data == "" || *from.endpoints != "") {
				return cli.Usagef("import: --from-data-dir goes with --data and without --from; write `holdfast import --from-data-dir DIR --data DIR`")
			}
			if *from.endpoints == "" && *dir == "" {
				return cli.Usagef("import: no source; write `holdfast import --from HOST:PORT`")
			}
			if *data != "" {
				if *peer != "" {
					if _, err := cli.Dialable(*peer); err != nil {
						return cli.Usagef("--peer %s: %s", *peer, err)
					}
				}
				if *name == "" {
					*name = cli.HostName()
				}
				if *dir != "" {
					return importDataDir(c, *dir, *data, *name, *peer)
				}
				return importFile(c, *from.endpoints, *data, *name, *peer)
			}
			if cli.IsFile(*from.endpoints) {
				return cli.Usagef("import: --from %s is a file; write `holdfast import --from FILE --data DIR`", *from.endpoints)
			}
			o := importer.Options{Resume: *resume, Progress: importer.NewProgress(c.Stderr, cli.IsTerminal(c.Stderr))}
			for _, h := range strings.Split(*hidden, ",") {
				if h = strings.TrimSpace(h); h != "" {
					o.Hidden = append(o.Hidden, h)
				}
			}
			var err error
			if o.From, err = from.endpoint(); err != nil {
				return err
			}
			if o.To, err = to.endpoint(); err != nil {
				return err
			}
			return runImport(c, o, *once)
		},
	}
}

// runImport ends the import at the first signal by a cut-over and at the second at once.
func runImport(c *cli.Call, o importer.Options, once bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if once {
		close(stop)
	}
	go func() {
		if !once {
			select {
			case <-signals:
				close(stop)
			case <-ctx.Done():
				return
			}
			fmt.Fprintln(c.Stderr, "\nending: once more to give up at once")
			// Two signals at once count as one: a supervisor may send one to the process and to its group.
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return
			}
			for len(signals) > 0 {
				<-signals
			}
		}
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	r, err := importer.Run(ctx, stop, o)
	switch {
	case errors.Is(err, importer.ErrNotEmpty):
		return fmt.Errorf("import: %w; give an empty target, or --resume to make it the same as the source", err)
	case errors.Is(err, context.Canceled):
		return errors.New("import: interrupted; what was copied is on the target, go on with --resume")
	case err != nil:
		return fmt.Errorf("import: %w; once that is mended, go on with --resume", err)
	}
	r.Write(c.Stdout)
	if r.Difference.Count > 0 {
		return fmt.Errorf("import: both sides are not the same; does somebody else write to the target? repeat with --resume")
	}
	return nil
}
