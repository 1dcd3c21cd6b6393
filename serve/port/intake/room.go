package intake

import "time"

// The memory of an open call, in bytes. A call with an incomplete request has goroutines with their stacks at the server, for as long as
// its client likes. A complete one waits for the server only. CallCost is measured: an idle stream with a watch has three goroutines, 8 KiB
// of heap and 8 KiB of shrunk stacks (docs/adr/0026-open-calls.md). Headers are compressed: a byte stands for a header of about headerCost
// bytes at worst, up to the server's own limit. The headers that every call has are in CallCost.
const (
	CallCost      = 16 << 10
	WholeCost     = 2 << 10
	MaxHeaderCost = 32 << 10
	headerCost    = 32
	usualHeaders  = 192
)

// lackingGrace is how long a client may send nothing of a large message that has begun.
const lackingGrace = 3 * time.Second

// headersCost is what n bytes of headers hold.
func headersCost(n int) int64 { return min(int64(max(n, 0))*headerCost, MaxHeaderCost) }

// Room is where a Conn draws what its client's calls and messages hold. Open, First and Draw are called by the goroutine that reads the
// Conn, without its lock; Draw may take a while. The others are called from any goroutine, perhaps with the Conn's lock: they must
// neither wait nor call the Conn.
type Room interface {
	// Draw takes n bytes for a message, or reports that they are not there.
	Draw(n int64) bool
	// Return gives back what Draw has taken.
	Return(n int64)
	// Came is called when a message for which room was drawn has come whole.
	Came()
	// First is called before the first call of the connection; it may be called several times.
	First()
	// Open takes n bytes for a call that has begun, whether or not they are there.
	Open(n int64)
	// Done gives back what Open has taken.
	Done(n int64)
	// Leaves is called before n bytes of answers are written to the client.
	Leaves(n int)
}

// Options of a Conn.
type Options struct {
	// MaxMessage is the largest message the server takes. Larger ones it refuses by itself when it sees their length.
	MaxMessage int
	// Patience is how long a message of a size may take to come.
	Patience func(size int) time.Duration
	// Now is a clock of seconds; nil: it stands still.
	Now func() uint64
}

func (o *Options) now() uint64 {
	if o.Now == nil {
		return 0
	}
	return o.Now()
}
