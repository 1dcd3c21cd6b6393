package saga

import (
	"fmt"
	"strings"
)

// Owed names the resources that requests have not given back, "" if none (port.Port.Owed). After Shutdown it is "". Any goroutine.
func (d *Door) Owed() string {
	all := d.port.Owed()
	for _, of := range []struct {
		what string
		n    int64
	}{{"requests that wait for news", d.waiting.Load()}, {"streams of events", d.watching.Load()}, {"pages that are being made", int64(len(d.small) + len(d.large))}} {
		if of.n != 0 {
			all += fmt.Sprintf(", %d %s", of.n, of.what)
		}
	}
	return strings.TrimPrefix(all, ", ")
}
