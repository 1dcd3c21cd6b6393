// Command service is the bench service of DTM's published report. It has the starter of transactions and both called services, with
// handlers and statements as DTM has them. DTM's own main around it starts a coordinator in the same process and fills Redis and MongoDB as
// well. This one has neither, so the measured coordinator is always another process.
//
// It takes its database from STORE_HOST, STORE_PORT and STORE_USER, and makes the tables with DTM's own scripts from ./sqls.
package main

import (
	"os"
	"strconv"

	"github.com/dtm-labs/dtm/client/dtmcli"
	"github.com/dtm-labs/dtm/dtmutil"
	"github.com/dtm-labs/dtm/helper/bench/svr"
	"github.com/dtm-labs/dtm/test/busi"
	"github.com/dtm-labs/logger"
)

func main() {
	logger.InitLog(os.Getenv("LOG_LEVEL"))
	port, err := strconv.ParseInt(os.Getenv("STORE_PORT"), 10, 64)
	logger.FatalIfError(err)
	busi.BusiConf = dtmcli.DBConf{Driver: "mysql", Host: os.Getenv("STORE_HOST"), Port: port, User: os.Getenv("STORE_USER")}
	dtmcli.SetCurrentDBType("mysql")
	svr.PrepareBenchDB()
	// The service empties the coordinator's tables too, wherever it runs: they have to exist, though they are not used.
	for _, script := range []string{"busi", "dtmcli.barrier", "dtmsvr.storage"} {
		dtmutil.RunSQLScript(busi.BusiConf, dtmutil.GetSQLDir()+"/"+script+".mysql.sql", false)
	}
	svr.StartSvr()
	select {}
}
