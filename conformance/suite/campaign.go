package suite

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Campaign is one run over a suite. Its fields are set before Run, which is called once.
type Campaign struct {
	Ours   bool // this server is tested, and the lists of known failures are about it
	Jobs   int  // tests at once; more than one wants a Runner that gives each a network of its own
	Runner *Runner
	Known  Known
	Budget time.Duration // no test is begun after this time; 0: no bound
}

// Part gives each test a network of its own, because the suites' ports are fixed. If that cannot be, it says why and has one test run at a
// time.
func (c *Campaign) Part(ctx context.Context) {
	if why := CanApart(ctx); why != nil {
		fmt.Println("one test at a time: no networks of their own here:", why)
		c.Jobs = 1
		return
	}
	c.Runner.Apart = true
}

// Run runs the tests and reports whether all went as the lists say. A test that fails beside another is run again alone, and only then
// counts. An error is about the machine, not the tests.
func (c *Campaign) Run(ctx context.Context, names []string) (all []Result, good bool, err error) {
	began := time.Now()
	todo := make(chan string)
	var mu sync.Mutex // guards all, again and err
	var again []string
	var wg sync.WaitGroup
	for range c.Jobs {
		wg.Go(func() {
			for name := range todo {
				mu.Lock()
				failed, late := err != nil, c.Budget > 0 && time.Since(began) > c.Budget
				mu.Unlock()
				if late {
					fmt.Printf("the budget of %s is used up before %s\n", c.Budget, name)
				}
				if failed || late {
					continue
				}
				res, oneErr := c.one(ctx, name)
				mu.Lock()
				switch {
				case oneErr != nil:
					err = oneErr
				case res.Verdict == Failed && c.Jobs > 1 && c.Known.Failing[name] == "":
					again = append(again, name)
				default:
					all = append(all, res)
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		todo <- name
	}
	close(todo)
	wg.Wait()
	for _, name := range again {
		if err != nil {
			break
		}
		var res Result
		if res, err = c.one(ctx, name); err == nil {
			res.Again = true
			all = append(all, res)
		}
	}
	good = true
	for _, res := range all {
		if news := c.Known.News(res); c.Ours && news != "" {
			good = false
			fmt.Printf("%s: %s; see %s\n", res.Name, news, c.Runner.Log(res.Name))
		}
	}
	return all, good, err
}

// one runs one test and says how it went.
func (c *Campaign) one(ctx context.Context, name string) (Result, error) {
	if !c.Runner.Apart {
		if err := AwaitPorts(ctx); err != nil {
			return Result{}, err
		}
	}
	res, err := c.Runner.Run(ctx, name)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return res, err
	}
	fmt.Printf("%-8s %-60s %6.1f s\n", res.Verdict, name, res.Took.Seconds())
	if why := c.Known.Failing[name]; c.Ours && res.Verdict == Failed && why != "" {
		fmt.Printf("         known: %s\n", why)
	}
	return res, nil
}
