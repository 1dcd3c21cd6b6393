// Package dtmsvr has the parts of DTM's server that its own tests use, for a server in another process. That server is a Holdfast built
// with the tag sagatest, whose control door (doors/saga/program) is at HOLDFAST_SAGA_CONTROL. The tests reach the server itself at DTM's
// usual ports.
package dtmsvr

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dtm-labs/dtm/client/dtmcli/dtmimp"
	"github.com/dtm-labs/dtm/dtmsvr/holdfast"
	"github.com/dtm-labs/dtm/dtmsvr/storage"
	"github.com/dtm-labs/dtm/dtmsvr/storage/registry"
	"github.com/dtm-labs/dtmdriver"
	"github.com/gin-gonic/gin"
	"github.com/go-resty/resty/v2"
	"google.golang.org/grpc"
)

// Tests set these. The server is told before each request that they have changed.
var (
	TransProcessedTestChan chan string
	NowForwardDuration     time.Duration
	CronForwardDuration    time.Duration
)

// UpdateBranchAsyncInterval is how long a branch's result may take to be visible.
var UpdateBranchAsyncInterval = 200 * time.Millisecond

// TransGlobal is a transaction as tests look at it.
type TransGlobal struct {
	storage.TransGlobalStore
}

// TransBranch is one of its branches.
type TransBranch = storage.TransBranchStore

// PopulateDB is the first that tests call. The server's data are fresh: it is started for each run.
func PopulateDB(bool) {
	dtmdriver.Middlewares.HTTP = append(dtmdriver.Middlewares.HTTP, func(_ *resty.Client, r *resty.Request) error {
		clock()
		if delayed(r) {
			TransProcessedTestChan <- r.Body.(*dtmimp.TransBase).Gid
		}
		return nil
	})
	dtmdriver.Middlewares.Grpc = append(dtmdriver.Middlewares.Grpc,
		func(ctx context.Context, method string, req, reply interface{}, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			clock()
			return invoke(ctx, method, req, reply, cc, opts...)
		})
	holdfast.Processed(func(gid string) { TransProcessedTestChan <- gid })
}

// delayed reports whether a request submits a message that is to be delivered later. DTM makes a pass over it at once, which finds that it
// is too early. The server makes none, so the tests are told here.
func delayed(r *resty.Request) bool {
	body, ok := r.Body.(*dtmimp.TransBase)
	return ok && strings.HasSuffix(r.URL, "/submit") && strings.Contains(body.CustomData, `"delay":`) && CronForwardDuration == 0
}

// clock tells the server how far its clocks are ahead.
func clock() { holdfast.Clock(NowForwardDuration, CronForwardDuration) }

// StartSvr has nothing to start.
func StartSvr() *gin.Engine { return nil }

// CronTransOnce has the server run one transaction that is due, and returns its gid.
func CronTransOnce() string {
	clock()
	return holdfast.CronOnce()
}

// CronUpdateTopicsMapOnce has nothing to do: no topic is cached.
func CronUpdateTopicsMapOnce() {}

// GetStore is what tests read transactions from.
func GetStore() storage.Store { return registry.GetStore() }

// GetTransGlobal is one transaction. Like DTM's it panics where there is none.
func GetTransGlobal(gid string) *TransGlobal {
	t := GetStore().FindTransGlobalStore(gid)
	if t == nil {
		panic(fmt.Errorf("no TransGlobal with gid: %s found", gid))
	}
	return &TransGlobal{TransGlobalStore: *t}
}
