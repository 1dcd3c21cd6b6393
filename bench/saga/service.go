package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	benchURL = "http://127.0.0.1:8083/api/busi_bench/" // as the coordinator's clients and ApacheBench call it
	// accounts is how many users the service makes, and with what balance. It numbers its transactions by user, so more of them than
	// this in one run would be one gid twice.
	accounts = 200_000
	balance  = 1_000_000
)

// service is DTM's bench service with its database: the starter of transactions and both of the services that they call.
type service struct {
	*proctest.Process
	database *proctest.MariaDB
}

// startService runs the service with fresh accounts below dir, set to a row of the table and to whether a coordinator is used.
func (b *bench) startService(dir string, w work, coordinated bool) (s *service, err error) {
	s = &service{}
	if s.database, err = proctest.NewMariaDB(manyConnections); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start the bench service: %w", err), s.close())
		}
	}()
	host, port, _ := strings.Cut(s.database.Addr, ":")
	s.Process = proctest.NewProcess(filepath.Join(dir, "service.log"), "/usr/bin/env", "-C", b.programs, "LOG_LEVEL=fatal",
		"STORE_HOST="+host, "STORE_PORT="+port, "STORE_USER=root", filepath.Join(b.programs, "service"))
	if err := s.Start(); err != nil {
		return s, err
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, err := get("http://127.0.0.1:8083/api/ping")
		if err == nil {
			break
		}
		if !s.Running() || time.Since(began) > time.Minute {
			return s, fmt.Errorf("%w\n%s", err, s.LogTail(10))
		}
	}
	_, err = get(benchURL + "reloadData?m=" + w.mode(coordinated) + "&sqls=" + strconv.Itoa(w.pairs))
	return s, err
}

func (s *service) close() error {
	var failed error
	if s.Process != nil {
		failed = s.Kill()
	}
	return errors.Join(failed, s.database.Close())
}

// number asks the database for one.
func (s *service) number(query string) (int, error) {
	text, err := s.database.SQL(query)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// check compares the database with the answers: for every transaction both sides, each once, and not a unit of money more or less than
// before. At the end of its time ApacheBench leaves a transaction per client that it does not count.
func (s *service) check(w work, coordinated bool, answered, clients int) error {
	for _, c := range []struct {
		what, query string
		each        int // rows for a transaction
	}{
		{"entries", "SELECT COUNT(*) FROM dtm_busi.user_account_log", 2 * w.pairs},
		{"barriers", "SELECT COUNT(*) FROM dtm_barrier.barrier", w.barriers(coordinated)},
	} {
		n, err := s.number(c.query)
		if err != nil {
			return err
		}
		if n < c.each*answered || n > c.each*(answered+2*clients) {
			return fmt.Errorf("%d %s for %d transactions answered, not %d for each", n, c.what, answered, c.each)
		}
	}
	sum, err := s.number("SELECT CAST(SUM(balance) AS SIGNED) FROM dtm_busi.user_account")
	if err != nil {
		return err
	}
	if sum != accounts*balance {
		return fmt.Errorf("%d in all accounts, not %d", sum, accounts*balance)
	}
	return nil
}
