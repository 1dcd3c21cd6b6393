// Command sql runs MySQL's clients, unmodified, against a Holdfast server. They are sysbench with the flags of the published report,
// Debian's mariadb client, and drivers of several languages. Others break the protocol, or write while the server is killed.
// scripts/sysbench.sh and scripts/sqlclients.sh install them. A step compares the client's answers with the tables afterwards. Further
// steps take tables through snapshots, archives, changes of builds and loads of other doors. They compare the two views of a transaction,
// and the values of every type with MariaDB's (scripts/mariadb.sh). Anomalies of isolation are looked for over kills, and large statements
// and builds of indexes run beside small clients, whose slowest statement is judged.
//
// The figures that it prints are of a shared machine. Of other servers it compares answers and no times.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"

	"github.com/go-sql-driver/mysql"
)

const resultsHead = `# Conformance of the sql door

Written by ` + "`make conformance DOOR=sql`" + ` (conformance/sql). Debian's sysbench 1.0.20 with the flags of the published report but for user and port,
Debian's mariadb client, go-sql-driver, PyMySQL, mysql-connector-python and mysql2, all unchanged, against one server. A workload of sysbench
passed if it printed no FATAL line and every table then has its rows, with the same count and sum by primary key and by index. The rates are
of a shared machine with two cores, where the load tool takes its part of both. Kills, restores, changes of builds and what runs beside other
doors have servers of their own. ROWS in the environment: so many rows in each of the 10 tables of the loaded server, instead of 100,000.

`

func main() {
	s := &suite{}
	flag.BoolVar(&s.quick, "quick", false, "small tables, five kills, the driver of this program alone, no table")
	flag.StringVar(&s.bin, "holdfast", "bin/holdfast", "the server")
	flag.StringVar(&s.clients, "clients", "build/suites", "where scripts/sqlclients.sh put the clients in other languages")
	flag.BoolVar(&s.rewrite, "rewrite", false, "write the transcript of the mariadb client, and MariaDB's answers, instead of comparing them")
	only := flag.String("only", "", "a pattern for the names of the steps to run; no table is written")
	table := flag.String("results", "conformance/RESULTS-sql.md", "where a run that is not quick writes its table")
	flag.Parse()
	// The driver logs every connection that breaks. The steps break them on purpose, and each error reaches its caller as well.
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // only a nil logger is refused
	var err error
	if s.only, err = regexp.Compile(*only); err == nil {
		if s.quick || *only != "" {
			*table = ""
		}
		err = run(s, *table)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sql conformance:", err)
		os.Exit(1)
	}
}

func run(s *suite, table string) error {
	var err error
	if s.dir, err = os.MkdirTemp("", "sql-conformance"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	if err := s.serve(); err != nil {
		return err
	}
	defer s.close()

	s.published()
	s.do("mariadb client, a transcript", s.transcript)
	s.do("mariadb client, users of both plugins", s.users)
	s.do("mariadb client, names completed behind USE", s.completion)
	s.do("16 clients add to one row", s.sameRow)
	s.do("deadlock", s.deadlock)
	s.do("lock wait", s.lockWait)
	s.do("two views of one transaction", s.views)
	s.do("a view that is over", s.viewEnd)
	s.do("types beside MariaDB", s.types)
	s.do("go-sql-driver, text", func() (string, error) { return s.driver(true) })
	s.do("go-sql-driver, prepared", func() (string, error) { return s.driver(false) })
	if !s.quick {
		for _, c := range foreign {
			s.do(c.name, func() (string, error) { return s.foreign(c) })
		}
	}
	s.do("the largest statement", s.largest)
	s.do("hostile clients", s.hostile)
	s.do("clients that go", s.clientsGo)
	s.do("3,000 idle clients with 90 prepared statements", s.idleClients)
	s.do("more clients and statements than fit", s.crowdedOut)
	s.do("sysbench, 3,000 threads", s.manyThreads)
	s.do("kills under write transactions", s.kills)
	s.do("anomalies of isolation, over kills", s.anomalies)
	s.do("jobs taken by SKIP LOCKED", s.jobs)
	s.do("kv, tlog, saga and rows on three members", s.everyDoor)
	if !s.quick {
		s.do("kills of a loaded server", s.killsLoaded)
		s.do("rolling upgrade and back", s.fromBuildBefore)
		s.do("columns over a change of builds", s.columnsOverBuilds)
	}
	s.do("an index built under oltp_write_only", s.besideWrites)
	s.do("an index built while leaders are killed", s.indexOverKills)
	s.do("800,000 rows changed and 1,000,000 indexed beside small statements", s.besideLarge)
	s.do("leaders killed while 800,000 rows are staged or move", s.killedMoving)
	s.do("kills while a table is copied", s.killsOfCopies)
	s.do("64 kv clients beside sysbench prepare", s.besidePrepare)
	s.do("a large result read at 1 MiB/s", s.slowReader)
	s.do("mariadb-dump beside writers", s.dump)
	s.do("restore from a snapshot", s.fromSnapshot)
	s.do("restore from a bucket, sessions that wait for it", func() (string, error) { return s.fromArchive(false) })
	s.do("restore from a bucket, --ack archive", func() (string, error) { return s.fromArchive(true) })

	if table != "" {
		if err := s.steps.Write(table, resultsHead); err != nil {
			return err
		}
	}
	passed, failed := s.steps.Count()
	if failed > 0 {
		return fmt.Errorf("%d of %d failed", failed, passed+failed)
	}
	fmt.Printf("%d passed\n", passed)
	return nil
}
