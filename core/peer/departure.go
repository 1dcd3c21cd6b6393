package peer

import (
	"errors"
	"syscall"
	"time"
)

const (
	// A broken control channel is redialled at once, several times per address, with this pause in between and this limit on each. The
	// first packet may meet a listener that is just closing and get no answer; the kernel would repeat it only a second later. Frames that
	// the member had sent may still be read meanwhile.
	redialsSoon = 20
	redialSoon  = 5 * time.Millisecond
	soonTimeout = 100 * time.Millisecond
)

// departure tells an ended process from a broken connection by redialling the member. A kernel whose process has ended refuses at each of
// the member's addresses. It may first reset a connection that was waiting to be accepted. The zero value expects nothing. It belongs to
// one goroutine.
type departure struct {
	broke   bool // the channel was up, and is not
	tries   int  // dials since
	refused int  // of the last ones in a row
}

// next returns the limit of the next dial, and whether the one after it comes soon.
func (d *departure) next(addresses int) (limit time.Duration, soon bool) {
	if !d.broke || d.tries >= redialsSoon*addresses {
		return dialTimeout, false
	}
	return soonTimeout, d.tries+1 < redialsSoon*addresses
}

// failed takes in the error of a dial, and reports whether all addresses have refused in a row.
func (d *departure) failed(err error, addresses int) (gone bool) {
	if !d.broke {
		return false
	}
	d.tries++
	if !errors.Is(err, syscall.ECONNREFUSED) {
		d.refused = 0
		return false
	}
	d.refused++
	return d.refused >= addresses
}
