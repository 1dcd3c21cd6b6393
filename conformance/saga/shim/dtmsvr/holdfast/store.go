package holdfast

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/dtm-labs/dtm/dtmsvr/storage"
	"github.com/dtm-labs/dtm/dtmutil"
)

// Store is the server's transactions as DTM's store has them: to be read. A write past the coordinator into its store panics.
type Store struct{}

var _ storage.Store = Store{}

// found is what /query answers.
type found struct {
	Transaction *storage.TransGlobalStore
	Branches    []storage.TransBranchStore
}

func query(gid string) (f found) {
	b := read(must(http.Get(dtmutil.DefaultHTTPServer + "/query?gid=" + url.QueryEscape(gid))))
	if err := json.Unmarshal(b, &f); err != nil {
		panic(err)
	}
	return f
}

// Ping reports whether the server's log takes commands. For a moment after its start it does not, and answers 503 to requests that it
// refuses otherwise.
func (Store) Ping() error {
	res, err := http.Get(dtmutil.DefaultHTTPServer + "/unsubscribe?topic=none&url=none")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusServiceUnavailable {
		return errors.New(res.Status)
	}
	return nil
}

// FindTransGlobalStore is one transaction, nil if there is none.
func (Store) FindTransGlobalStore(gid string) *storage.TransGlobalStore {
	return query(gid).Transaction
}

// FindBranches is its branches in their order.
func (Store) FindBranches(gid string) []storage.TransBranchStore { return query(gid).Branches }

// PopulateData has nothing to do.
func (Store) PopulateData(bool) {}

func past() {
	panic(errors.New("this test writes into DTM's store past the coordinator, and there is none"))
}

// The rest is there for the interface.

func (Store) ScanTransGlobalStores(*string, int64, storage.TransGlobalScanCondition) []storage.TransGlobalStore {
	past()
	return nil
}

func (Store) UpdateBranches([]storage.TransBranchStore, []string) (int, error) {
	past()
	return 0, nil
}

func (Store) LockGlobalSaveBranches(string, string, []storage.TransBranchStore, int) { past() }

func (Store) MaySaveNewTrans(*storage.TransGlobalStore, []storage.TransBranchStore) error {
	past()
	return nil
}

func (Store) ChangeGlobalStatus(*storage.TransGlobalStore, string, []string, bool) { past() }

func (Store) TouchCronTime(*storage.TransGlobalStore, int64, *time.Time) { past() }

func (Store) LockOneGlobalTrans(time.Duration) *storage.TransGlobalStore {
	past()
	return nil
}

func (Store) ResetCronTime(time.Duration, int64) (int64, bool, error) {
	past()
	return 0, false, nil
}

func (Store) ResetTransGlobalCronTime(*storage.TransGlobalStore) error {
	past()
	return nil
}

func (Store) ScanKV(string, *string, int64) []storage.KVStore {
	past()
	return nil
}

func (Store) FindKV(string, string) []storage.KVStore {
	past()
	return nil
}

func (Store) UpdateKV(*storage.KVStore) error {
	past()
	return nil
}

func (Store) DeleteKV(string, string) error {
	past()
	return nil
}

func (Store) CreateKV(string, string, string) error {
	past()
	return nil
}
