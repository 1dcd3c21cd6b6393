// Package registry hands out the store that DTM's tests read: the transactions of a Holdfast server.
package registry

import (
	"time"

	"github.com/dtm-labs/dtm/dtmsvr/holdfast"
	"github.com/dtm-labs/dtm/dtmsvr/storage"
)

// GetStore is the store.
func GetStore() storage.Store { return holdfast.Store{} }

// WaitStoreUp waits until the server answers.
func WaitStoreUp() {
	for GetStore().Ping() != nil {
		time.Sleep(50 * time.Millisecond)
	}
}
