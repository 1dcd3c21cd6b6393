package store

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestAViewHasTheIndexOfItsBatch: at every moment the applied index is that of the effects beside it. A crash may come at any such moment,
// and a flush may write any of them.
func TestAViewHasTheIndexOfItsBatch(t *testing.T) {
	s := openTest(t, vfs.NewMem(), Options{})
	defer s.Close()
	set(t, s, 1, "k=1")
	var stop atomic.Bool
	looked := make(chan error, 1)
	go func() {
		for !stop.Load() {
			v := s.NewView()
			value, _, err := v.Get(nil, []byte("k"))
			index, _, err2 := v.Get(nil, AppliedKey)
			v.Close()
			if err != nil || err2 != nil || string(value) != fmt.Sprint(binary.BigEndian.Uint64(index)) {
				looked <- fmt.Errorf("k is %q at index %x: %v, %v", value, index, err, err2)
				return
			}
		}
		looked <- nil
	}()
	for i := uint64(2); i < 20_000; i++ {
		set(t, s, i, fmt.Sprintf("k=%d", i))
	}
	stop.Store(true)
	if err := <-looked; err != nil {
		t.Error(err)
	}
}
