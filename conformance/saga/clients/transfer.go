package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dtm-labs/client/dtmcli"
)

// transfer submits transfers of money between random accounts until it gets SIGTERM:
//
//	clients transfer -members HOST:PORT,… -banks HOST:PORT,HOST:PORT -accounts N -workers N -name NAME -out FILE
//
// The first bank is asked for the money, the second takes it. It writes lines for each into FILE, as soon as it knows: asked GID KIND
// before it is submitted. After that it writes succeed GID, taken GID (submitted, outcome open) or unknown GID WHY. KIND is plain or
// concurrent, and wait if the client waits for its end.
func transfer(args []string) error {
	flags := flag.NewFlagSet("transfer", flag.ExitOnError)
	members := flags.String("members", "", "where the coordinators are")
	banks := flags.String("banks", "", "where the services are: of the account that pays, and of the other")
	accounts := flags.Int("accounts", 10, "there are so many")
	workers := flags.Int("workers", 8, "transfers at a time")
	name := flags.String("name", "transfer", "what gids begin with")
	out := flags.String("out", "", "file of what was done")
	_ = flags.Parse(args) // it exits on an error
	payer, payee, ok := strings.Cut(*banks, ",")
	if !ok {
		return errors.New("transfer: -banks wants two addresses with a comma between")
	}
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	l := &loader{members: strings.Split(*members, ","), payer: "http://" + payer + "/", payee: "http://" + payee + "/",
		accounts: *accounts, out: bufio.NewWriter(f)}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	over := make(chan struct{})
	go func() {
		<-stop
		close(over)
	}()
	var wg sync.WaitGroup
	for worker := range *workers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
					l.one(fmt.Sprintf("%s-%d-%d", *name, worker, n))
				}
			}
		})
	}
	wg.Wait()
	return f.Close()
}

type loader struct {
	members      []string
	payer, payee string // URLs up to the services' names
	accounts     int

	mu  sync.Mutex
	out *bufio.Writer // guarded by mu
}

// one submits one transfer, to the end if the client says so.
func (l *loader) one(gid string) {
	o := order{From: rand.IntN(l.accounts), Amount: 1 + rand.IntN(50)}
	o.To = (o.From + 1 + rand.IntN(l.accounts-1)) % l.accounts
	switch rand.IntN(8) {
	case 0:
		o.Refuse = "TransOut"
	case 1, 2:
		o.Refuse = "TransIn"
	}
	saga := dtmcli.NewSaga("http://"+l.members[rand.IntN(len(l.members))]+"/api/dtmsvr", gid).
		Add(l.payer+"TransOut", l.payer+"TransOutUndo", o).Add(l.payee+"TransIn", l.payee+"TransInUndo", o)
	saga.RetryInterval = 1
	saga.WaitResult = rand.IntN(2) == 0
	kind := "plain"
	if rand.IntN(8) == 0 {
		saga.SetConcurrent()
		kind = "concurrent"
	}
	if saga.WaitResult {
		kind += " wait"
	}
	l.write("asked %s %s", gid, kind)
	switch err := saga.Submit(); {
	case err == nil && saga.WaitResult:
		l.write("succeed %s", gid)
	case err == nil:
		l.write("taken %s", gid)
	case saga.WaitResult && strings.Contains(err.Error(), "FAILURE"):
		l.write("taken %s", gid) // failed, or not at its end: both say that it was submitted
	default:
		l.write("unknown %s %v", gid, err)
		time.Sleep(50 * time.Millisecond) // the coordinator is down
	}
}

// write puts a line where a kill of this process cannot lose it.
func (l *loader) write(format string, args ...any) {
	line := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.out, line)
	if err := l.out.Flush(); err != nil {
		fatal(err)
	}
}
