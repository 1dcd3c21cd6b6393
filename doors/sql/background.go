package sql

import (
	"context"
	"math"
	"time"
)

// backgroundID is the connection that SHOW PROCESSLIST shows of a build that no client waits for. No client comes to have it.
const backgroundID = math.MaxUint32

// backgroundUser is what MySQL calls the user of its own threads.
const backgroundUser = "system user"

// background is a build with which this leader goes on, for SHOW PROCESSLIST and KILL. One runs at a time.
type background struct {
	text, database string
	doing          doing
	kill           context.CancelFunc
}

// background implements engine.Resumed.
func (d *Door) background(database, text string) (ctx context.Context, state func(string), end func()) {
	ctx, kill := context.WithCancel(context.Background())
	b := &background{text: text, database: database, kill: kill}
	b.doing.since.Store(time.Now().UnixNano())
	b.doing.say("altering table")
	d.clients.show(b)
	return ctx, b.doing.say, func() {
		kill()
		d.clients.show(nil)
	}
}

// show has others see a build, or none.
func (c *clients) show(b *background) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.build = b
}
