// Command clients is five small programs in the shapes of DTM's quick starts, and one that moves money, around DTM's own Go client,
// unchanged:
//
//	clients http|grpc|workflow-http|workflow-grpc|week -http HOST:PORT -grpc HOST:PORT
//	clients bank ..., clients transfer ...
//
// Each of the first five starts the services it needs and runs its cases beside each other. It prints a line for each, with tabs between ok
// or failed, the case, and the services' calls or the fault. It knows nothing of Holdfast: DTM itself passes it too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
)

// at is where the coordinator is.
type at struct {
	http string // URL up to /api/dtmsvr
	rpc  string // URL of JSON-RPC
	grpc string // host:port
}

func main() {
	programs := map[string]func(*at) []story{"http": httpStories, "grpc": grpcStories, "workflow-http": workflowHTTPStories, "workflow-grpc": workflowGRPCStories, "week": weekStories}
	others := map[string]func(args []string) error{"bank": bank, "transfer": transfer}
	if len(os.Args) < 2 || programs[os.Args[1]] == nil && others[os.Args[1]] == nil {
		fatal(errors.New("usage: clients http|grpc|workflow-http|workflow-grpc|week|bank|transfer FLAGS"))
	}
	quiet()
	if run := others[os.Args[1]]; run != nil {
		if err := run(os.Args[2:]); err != nil {
			fatal(err)
		}
		return
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	http := flags.String("http", "127.0.0.1:36789", "where the coordinator speaks HTTP")
	grpc := flags.String("grpc", "127.0.0.1:36790", "where it speaks gRPC")
	_ = flags.Parse(os.Args[2:]) // it exits on an error
	dtm := &at{http: "http://" + *http + "/api/dtmsvr", rpc: "http://" + *http + "/api/json-rpc", grpc: *grpc}
	if !tell(programs[os.Args[1]](dtm), os.Args[1] == "week") {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "clients:", err)
	os.Exit(2)
}

// story is one case: it returns the services' calls.
type story struct {
	name string
	run  func() (note string, err error)
}

// tell runs all stories, at once or one after another, prints what became of them in their order, and reports whether all are good.
func tell(all []story, inTurn bool) bool {
	type end struct {
		note string
		err  error
	}
	ends := make([]end, len(all))
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() {
			defer func() {
				if x := recover(); x != nil { // DTM's client panics where it likes
					ends[i].err = fmt.Errorf("panic: %v", x)
				}
			}()
			ends[i].note, ends[i].err = s.run()
		})
		if inTurn {
			wg.Wait()
		}
	}
	wg.Wait()
	good := true
	for i, s := range all {
		verdict, note := "ok", ends[i].note
		if err := ends[i].err; err != nil {
			verdict, note, good = "failed", err.Error(), false
		}
		fmt.Printf("%s\t%s\t%s\n", verdict, s.name, strings.Join(strings.Fields(note), " "))
	}
	return good
}
