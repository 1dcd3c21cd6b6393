package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// database is a MariaDB server with a database for each publication. Its content is read through Tessera's conformance-mysql, as a user
// with read permission only.
type database struct {
	s       *suite
	server  *proctest.MariaDB
	key     string // file with a key that no log has: the reader wants one
	readers map[string]*reader
}

// reader is a conformance-mysql over one database.
type reader struct {
	*proctest.Process
	url string
}

const (
	writerName, writerPassword = "holdfast", "published with care"
	readerName, readerPassword = "auditor", "only-reading"
)

// newDatabase starts a server and sets the password for servers started from here.
func newDatabase(s *suite) (*database, error) {
	m, err := proctest.NewMariaDB()
	if err != nil {
		return nil, err
	}
	d := &database{s: s, server: m, key: filepath.Join(s.dir, "nobody.key"), readers: map[string]*reader{}}
	out, err := exec.Command(s.bin, "tlog", "keygen", "nobody", "--origin", "log.example/nobody", "--tlog-keys", s.dir).CombinedOutput()
	if err != nil {
		d.close()
		return nil, fmt.Errorf("make a key: %w: %s", err, out)
	}
	return d, os.Setenv("HOLDFAST_TLOG_PUBLISH_PASSWORD", writerPassword)
}

func (d *database) close() {
	for _, r := range d.readers { // any order: all end
		_ = r.Kill() // it holds nothing
	}
	if err := d.server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "end MariaDB:", err)
	}
}

// place makes a database. Its reader can be started when it holds a log.
func (d *database) place(name string) (place, error) {
	addr, err := proctest.FreeAddress()
	if err != nil {
		return place{}, err
	}
	// Everything is in the reader's own words: it finds the server by its TCP address and by no socket.
	uri := fmt.Sprintf("%s_%s:%s@tcp(%s)/%s", readerName, name, readerPassword, d.server.Addr, name)
	d.readers[name] = &reader{url: "http://" + addr, Process: proctest.NewProcess(filepath.Join(d.s.dir, "reader."+name+".log"),
		filepath.Join(d.s.tools, "conformance-mysql"), "--mysql_uri="+uri, "--private_key_path="+d.key, "--listen="+addr, "--publish_interval=1m")}
	err = errors.Join(d.server.Database(name, writerName+"_"+name, writerPassword), d.server.Reader(name, readerName+"_"+name, readerPassword))
	return place{name: "database", url: "http://" + addr, target: fmt.Sprintf("mysql://%s_%s@%s/%s", writerName, name, d.server.Addr, name)}, err
}

// read starts a database's reader and waits until it answers.
func (d *database) read(name string) error {
	r := d.readers[name]
	if err := r.Start(); err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, err := sizeAt(r.url)
		if err == nil {
			return nil
		}
		if !r.Running() || time.Since(began) > patience {
			return fmt.Errorf("conformance-mysql: %w; last lines:\n%s", err, r.LogTail(10))
		}
	}
}

// published waits until the tables of a database hold a checkpoint over at least this much, and returns over how much.
func (d *database) published(name string, least int) (int, error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		size, checkpoint, err := d.state(name)
		if err == nil && checkpoint && size >= least {
			return size, nil
		}
		if time.Since(began) > patience {
			return 0, fmt.Errorf("not published after %s: tree of %d, checkpoint %t (%v); the server says:\n%s", patience, size, checkpoint, err,
				d.s.node().LogTail(5))
		}
	}
}

// state asks the server itself for the tree's size and whether there is a checkpoint.
func (d *database) state(name string) (size int, checkpoint bool, err error) {
	out, err := d.server.SQL(fmt.Sprintf("SELECT t.size, c.id IS NOT NULL FROM `%s`.TreeState t LEFT JOIN `%[1]s`.Checkpoint c ON c.id = t.id", name))
	if err != nil {
		return 0, false, err
	}
	first, second, _ := strings.Cut(out, "\t")
	if size, err = strconv.Atoi(first); err != nil {
		return 0, false, fmt.Errorf("state %q: %w", out, err)
	}
	return size, second == "1", nil
}

// underLoad kills the server three times while a hammer writes to the door, which must not notice.
func (d *database) underLoad() (string, error) {
	p := d.s.places[len(d.s.places)-1]
	if err := d.s.restart("--tlog-publish", p.target); err != nil {
		return "", err
	}
	hammered := make(chan error, 1)
	go func() {
		_, err := d.s.hammer("--max_write_ops=3000")
		hammered <- err
	}()
	kills := 0
	for range 3 {
		time.Sleep(1300 * time.Millisecond) // of about ten seconds
		if err := d.server.Kill(); err != nil {
			return "", err
		}
		kills++
		time.Sleep(200 * time.Millisecond)
		if err := d.server.Restart(); err != nil {
			return "", err
		}
	}
	if err := <-hammered; err != nil {
		return "", err
	}
	note, err := d.s.fsck(p)
	return fmt.Sprintf("%d times, then fsck of %s", kills, note), err
}

// rounds of inTransaction for each victim.
const rounds = 5

// inTransaction publishes the whole log into empty tables and kills either side while the transaction is open. The tables must then
// be as before it. Both run again, the publication comes to its end, and fsck reads it.
func (d *database) inTransaction(holdfast bool) (string, error) {
	note, late := "", 0
	for i := 0; i < rounds; {
		if late > 2*rounds {
			return "", fmt.Errorf("%d times the transaction was over before anything was killed", late)
		}
		name := fmt.Sprintf("kill_%t_%d_%d", holdfast, i, late)
		p, err := d.place(name)
		if err != nil {
			return "", err
		}
		hit, err := d.kill(name, p, holdfast)
		if err != nil {
			return "", fmt.Errorf("round %d: %w", i+1, err)
		}
		if !hit {
			late++
			continue
		}
		if _, err := d.published(name, 1); err != nil {
			return "", err
		}
		if err := d.read(name); err != nil {
			return "", err
		}
		if note, err = d.s.fsck(p); err != nil {
			return "", fmt.Errorf("round %d: %w", i+1, err)
		}
		if err := d.readers[name].Kill(); err != nil {
			return "", err
		}
		i++
	}
	return fmt.Sprintf("%d times, each time fsck of %s", rounds, note), nil
}

// kill starts a publication into empty tables, kills one side in the midst, looks at the tables, and has both sides run again. hit is
// false if the publication was over before that.
func (d *database) kill(name string, p place, holdfast bool) (hit bool, err error) {
	if err := d.hold(name); err != nil {
		return false, err
	}
	if err := d.s.restart("--tlog-publish", p.target); err != nil {
		return false, err
	}
	if open, err := d.open(name); !open || err != nil {
		return false, err
	}
	if !holdfast {
		// The tables cannot be seen while their server is down; when it is up, Holdfast goes on at once.
		return true, errors.Join(d.server.Kill(), d.server.Restart())
	}
	if err := d.s.node().Kill(); err != nil {
		return false, err
	}
	size, checkpoint, err := d.state(name)
	if err == nil && !checkpoint {
		err = d.whole(name, size)
	}
	return !checkpoint, errors.Join(err, d.s.cluster.Restart(d.s.node()))
}

const (
	// heldBundle is one in the first transaction of a publication into empty tables, and far enough in it for many rows before it.
	heldBundle = 200
	heldFor    = 5 * time.Second
	// trxPause is between looks at INNODB_TRX: a look within 100 ms of the last one shows the same rows again.
	trxPause = 150 * time.Millisecond
)

// hold makes the table of bundles and keeps one of them locked for a while, so that a publication stops there with its transaction open. On
// a quiet machine it is over too soon to be observed. A restart of the server releases it too.
func (d *database) hold(name string) error {
	if _, err := d.server.SQL(fmt.Sprintf("CREATE TABLE `%s`.TiledLeaves (tile_index BIGINT UNSIGNED NOT NULL PRIMARY KEY, "+
		"size SMALLINT UNSIGNED NOT NULL, data LONGBLOB NOT NULL) ENGINE=InnoDB", name)); err != nil {
		return err
	}
	go func() { // its error is that the server was killed
		_, _ = d.server.SQL(fmt.Sprintf("START TRANSACTION; INSERT INTO `%s`.TiledLeaves VALUES (%d, 0, ''); DO SLEEP(%g); ROLLBACK",
			name, heldBundle, heldFor.Seconds()))
	}()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(trxPause) {
		out, err := d.server.SQL("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0")
		if err != nil || out != "0" {
			return err
		}
	}
	return errors.New("the bundle could not be locked")
}

// whole checks that the tables hold a tree of full bundles and nothing of the transaction after it.
func (d *database) whole(name string, size int) error {
	out, err := d.server.SQL(fmt.Sprintf("SELECT COUNT(*) FROM `%s`.TiledLeaves", name))
	if err == nil && (size%256 != 0 || out != strconv.Itoa(size/256)) {
		err = fmt.Errorf("a tree of %d with %s bundles, and no checkpoint", size, out)
	}
	return err
}

// open waits for a transaction that has written much and is not committed; false: it was over too soon to be seen.
func (d *database) open(name string) (bool, error) {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(trxPause) {
		out, err := d.server.SQL("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 50")
		if err != nil {
			return false, err
		}
		if out != "0" {
			return true, nil
		}
		if _, checkpoint, err := d.state(name); err == nil && checkpoint {
			return false, nil
		}
	}
	return false, errors.New("no transaction began; the server says:\n" + d.s.node().LogTail(5))
}
