package sql

import (
	"context"
	"crypto/tls"
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/internal/certtest"
)

// TestAClientSeesItsTLS: `\s` of MySQL's clients and programs that insist on TLS ask SHOW STATUS for it.
func TestAClientSeesItsTLS(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ca := certtest.NewAuthority("sql")
	with := r.another(func(o *Options) { o.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1")}} })
	conf := mysql.NewConfig()
	conf.Net, conf.Addr, conf.User, conf.TLS = "tcp", with.addr, "root", &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"}
	to, err := mysql.NewConnector(conf)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(to)
	t.Cleanup(func() { _ = db.Close() })
	secured, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		client *sql.Conn
		want   string
	}{
		{secured, "Ssl_cipher|TLS_AES_128_GCM_SHA256\nSsl_version|TLSv1.3\n"},
		{r.connectTo(with, ""), "Ssl_cipher|\nSsl_version|\n"},
	} {
		got, err := query(c.client, "SHOW SESSION STATUS LIKE 'Ssl_%'")
		if err != nil || got != c.want {
			t.Errorf("%q, %v; want %q", got, err, c.want)
		}
	}
}
