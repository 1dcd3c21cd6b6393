// Package stopping is how a program hears that it is to end. It does not end anything itself.
package stopping

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// same is how long after a signal another one asks for the same. timeout(1) signals its command and then its whole process group; a shell
// script passes a terminal's signal on to all of them. A person who wants the second signal to count takes longer.
const same = time.Second

// Notify returns SIGINT and SIGTERM as they come, without those that follow another one within a second. Programs take the first as a
// request and the second as an order to end at once. A request that was sent twice would lose data not stored yet. stop ends it, and gives
// the signals back to the system's defaults.
func Notify() (asked <-chan os.Signal, stop func()) {
	sent := make(chan os.Signal, 8)
	signal.Notify(sent, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	once := sync.OnceFunc(func() {
		signal.Stop(sent)
		close(done)
	})
	return distinct(sent, done), once
}

// distinct passes signals on until done. The channel it returns has room for two, and drops later ones.
func distinct(sent <-chan os.Signal, done <-chan struct{}) <-chan os.Signal {
	asked := make(chan os.Signal, 2)
	go func() {
		var last time.Time
		for {
			select {
			case s := <-sent:
				now := time.Now()
				if !last.IsZero() && now.Sub(last) < same {
					continue
				}
				last = now
				select {
				case asked <- s:
				default:
				}
			case <-done:
				return
			}
		}
	}()
	return asked
}
