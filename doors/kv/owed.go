package kv

import (
	"fmt"
	"strings"
)

// Owed names the resources that requests have not given back, "" if none (port.Port.Owed): watches are in it too. After Shutdown it is ""
// once the garbage collector has found the answers that no transport has taken. Any goroutine.
func (d *Door) Owed() string {
	all := d.port.Owed()
	if d.hub != nil {
		if owed := d.hub.Owed(); owed != "" {
			all += ", " + owed
		}
	}
	if n := d.pauses.now.Load(); n != 0 {
		all += fmt.Sprintf(", %d calls that were turned away", n)
	}
	return strings.TrimPrefix(all, ", ")
}
