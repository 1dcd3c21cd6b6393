package bell

import (
	"os"
	"runtime"
	"sync"
	"testing"
)

// TestTheOneBehindReadsFirst: a goroutine stands back on the only processor, and another one whose bytes had come reads them meanwhile.
func TestTheOneBehindReadsFirst(t *testing.T) {
	to, from, err := os.Pipe() // what is written is there at once
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	defer from.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 100 {
		began, read := make(chan struct{}), make(chan struct{})
		go func() {
			close(began)
			if _, err := to.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			close(read)
		}()
		<-began
		StandBack() // the other one waits in Read now
		if _, err := from.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ { // the scheduler passes over one queue now and then
			StandBack()
			select {
			case <-read:
			default:
				if i < 3 {
					continue
				}
				t.Fatal("the bytes were not read")
			}
			break
		}
	}
}

// TestManyStandBack: however many stand back at a time, all come back.
func TestManyStandBack(t *testing.T) {
	var wg sync.WaitGroup
	for range 3 * mostBells {
		wg.Go(func() {
			for range 50 {
				StandBack()
			}
		})
	}
	wg.Wait()
	bells.mu.Lock()
	defer bells.mu.Unlock()
	if n := len(bells.all); n == 0 || n > mostBells {
		t.Errorf("%d bells are kept", n)
	}
}
