// Command beside plays common uses of Litestream, once with Litestream 0.5.18 and once with Holdfast under the name litestream, and
// compares the outcomes. Holdfast's is never worse.
//
//	beside [-only REGEXP] [-jobs N]
//
// Replicas are directories, or a bucket of internal/bucket. A whole run writes RESULTS-sqlite-flows.md. Features of Holdfast alone are in
// conformance/sqlite/stories.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
	"github.com/holdfastdb/holdfast/internal/results"
)

const head = `# What people do with Litestream, with Litestream and with Holdfast

Written by ` + "`make conformance DOOR=sqlite`" + ` (conformance/sqlite/beside): Litestream is v0.5.18, Holdfast has its name. Each flow is judged by what an operator
expects; "as good" says that both do it, or that neither does.

`

func main() {
	only := flag.String("only", "", "flows whose names match, and no table")
	jobs := flag.Int("jobs", 6, "flows at a time")
	bin := flag.String("holdfast", "bin/holdfast", "the program under test")
	table := flag.String("results", "conformance/RESULTS-sqlite-flows.md", "where the table of a whole run is")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	tools, err := rig.With(*bin)
	if err != nil {
		fatal(err)
	}
	if tools.Original == "" {
		fatal(errors.New("build/peers/litestream is not there; scripts/sqlitepeers.sh builds it"))
	}
	var chosen []flow
	for _, f := range flows {
		if wanted.MatchString(f.name) {
			chosen = append(chosen, f)
		}
	}
	all, err := run(tools, chosen, *jobs)
	if err = errors.Join(err, tools.Close()); err != nil {
		fatal(err)
	}
	worse := 0
	t := results.NewTable(1, results.Heading{Text: "what is done"}, results.Heading{Text: "what is expected"}, results.Heading{Text: "Litestream 0.5.18"},
		results.Heading{Text: "Holdfast"}, results.Heading{Text: "Holdfast is"})
	for i, f := range chosen {
		v := verdict(all[i])
		if v == isWorse {
			worse++
		}
		fmt.Printf("%-8s %s\n         Litestream: %s\n         Holdfast:   %s\n", v, f.name, all[i][0], all[i][1])
		t.Put(f.name, f.expected, all[i][0].String(), all[i][1].String(), v)
	}
	if *only == "" {
		if err := os.WriteFile(*table, fmt.Appendf(nil, "%s%d flows, Holdfast is worse in %d.\n\n%s", head, len(chosen), worse, t), 0o644); err != nil {
			fatal(err)
		}
	}
	if worse > 0 {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "beside:", err)
	os.Exit(1)
}

// came is what a flow came to with one program.
type came struct {
	good bool
	text string
}

func (c came) String() string {
	if c.good {
		return "yes: " + c.text
	}
	return "no: " + c.text
}

const isWorse = "WORSE"

// verdict compares what a flow came to with the original and with Holdfast.
func verdict(both [2]came) string {
	switch original, ours := both[0].good, both[1].good; {
	case original && !ours:
		return isWorse
	case !original && ours:
		return "better"
	}
	return "as good"
}

// run plays flows with both programs, some at a time.
func run(tools *rig.Tools, chosen []flow, jobs int) ([][2]came, error) {
	dir, err := os.MkdirTemp("", "hfb")
	if err != nil {
		return nil, err
	}
	all := make([][2]came, len(chosen))
	slots := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	for i, f := range chosen {
		for k, program := range []string{tools.Original, tools.Litestream} {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				p := &player{program: program, dir: filepath.Join(dir, fmt.Sprintf("%d-%d", i, k))}
				all[i][k] = p.play(f)
			})
		}
	}
	wg.Wait()
	return all, os.RemoveAll(dir)
}

// play plays one flow. A step that fails is what it came to.
func (p *player) play(f flow) (c came) {
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		return came{text: err.Error()}
	}
	text, err := f.play(p)
	if err = errors.Join(err, p.end()); err != nil {
		return came{text: strings.ReplaceAll(err.Error(), p.dir+"/", "")}
	}
	return came{good: true, text: text}
}
