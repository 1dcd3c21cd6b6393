package gate

import (
	"log/slog"
	"sync"
	"time"
)

// complaintInterval is the least time between two lines of the log about processes that do not speak the protocol. A process can send
// thousands of such messages a second, and each line takes room on the disk that the databases need.
const complaintInterval = 10 * time.Second

// complaints logs misuse of the socket. The first line comes at once, then at most one an interval, with the number of others since the
// last line. Its methods may be called from several goroutines.
type complaints struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex
	last   time.Time // guarded by mu: when a line was written; zero: never
	silent int       // guarded by mu: complaints without a line since then
}

// warn writes a line, or counts the complaint.
func (c *complaints) warn(text string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.last.IsZero() && now.Sub(c.last) < complaintInterval {
		c.silent++
		return
	}
	if c.silent > 0 {
		args = append(args, "more since the last line", c.silent)
	}
	c.last, c.silent = now, 0
	c.log.Warn(text, args...)
}
