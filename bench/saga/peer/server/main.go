// Command server is DTM's coordinator, as its own main starts it, without discovery drivers and without the pages of its admin UI. It is
// ours, in a module of its own, so that nothing of DTM's gets into the server's.
package main

import "github.com/dtm-labs/dtm/dtmsvr/entry"

var version = "v1.19.0"

func main() {
	if app, _ := entry.Main(&version); app != nil {
		select {}
	}
}
