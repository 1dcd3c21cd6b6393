// Package program is the subcommands of `holdfast sqlite`: databases of SQLite kept in a bucket. It parses flags, starts the agent or reads
// a replica, and prints. sqlite/agent decides about storing, and sqlite/replica owns a replica's content.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/internal/stopping"
	"github.com/holdfastdb/holdfast/serve/cli"
)

const about = `A commit in a program that has the extension loaded (bin/holdfast_sqlite.so) returns when it is stored in the bucket: kill
the machine, and ` + "`holdfast sqlite restore`" + ` has it. With --ack local it returns at once, and is stored within --interval, as with
every program that has not loaded it. A database in another journal mode is switched to WAL mode at the start. One that is not there is
restored, if it is in the bucket. What is not stored is logged at once and every minute.
The agent that began last has the replica: one that ran before is told, refuses writes, and renames its files to NAME.fenced-TIME.
Credentials of a bucket are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, another server's address in AWS_ENDPOINT_URL.`

// Run is the command that starts a program with its databases kept.
func Run() *cli.Command {
	var s *settings
	return &cli.Command{
		Name:    "sqlite run",
		Args:    "DATABASE... -- COMMAND...",
		Summary: "start a program, with its SQLite databases kept in a bucket",
		About: about + `

A signal goes to the command; when it has ended, the rest is stored within --shutdown-timeout, and a line for each database says up to where
it is stored, or NOT STORED and why. The exit status is the command's if that is not 0, else 1 if something is not stored. The command finds
HOLDFAST_SQLITE_SOCKET in its environment, by which the extension reaches this process.`,
		Examples: []string{
			"holdfast sqlite run --replica s3://backups/app /data/app.db -- bin/rails server",
			"holdfast sqlite run --replica file:///mnt/backups --ack local app.db cache.db -- python3 app.py",
		},
		Flags: func(l *cli.FlagList) { s = addSettings(l) },
		Run: func(c *cli.Call) error {
			i := c.Flags.ArgsLenAtDash()
			if i < 1 || i == len(c.Args) {
				return cli.Usagef("sqlite run: wants a database and, behind --, a command; write `holdfast sqlite run --replica URL DATABASE -- COMMAND`")
			}
			cfg, shutdown, err := s.config(c.Args[:i], c.Stderr)
			if err != nil {
				return err
			}
			signals := make(chan os.Signal, 8)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
			defer signal.Stop(signals)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() { // a signal before the command runs ends the wait
				select {
				case sig := <-signals:
					cancel()
					signals <- sig
				case <-ctx.Done():
				}
			}()
			a, err := s.begin(cfg)
			if err != nil {
				return fmt.Errorf("sqlite run: %w", err)
			}
			if err := a.settle(ctx); err != nil {
				if ctx.Err() != nil {
					a.abandon()
				}
				return fmt.Errorf("sqlite run: %w", err)
			}
			cancel()
			cmd := exec.Command(c.Args[i], c.Args[i+1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, c.Stdout, c.Stderr
			cmd.Env = append(slices.Clone(os.Environ()), "HOLDFAST_SQLITE_SOCKET="+cfg.Socket, "HOLDFAST_SQLITE_ACK="+*s.ack)
			err = cmd.Start()
			if err == nil {
				err = waitFor(cmd, signals, a.Broken(), shutdown)
			}
			stored := a.end(shutdown, nil, c.Stderr)
			if fault := a.Fault(); fault != nil {
				return fmt.Errorf("sqlite run: the command was ended: %w", fault)
			}
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status := exit.ExitCode()
				if s := exit.Sys().(syscall.WaitStatus); s.Signaled() {
					status = 128 + int(s.Signal())
				}
				return cli.StatusError(status)
			}
			if err == nil && !stored {
				return cli.StatusError(1)
			}
			return err
		},
	}
}

// waitFor passes signals on until the command has ended. When the agent is broken the command is told to end, and killed if it does not within the limit.
func waitFor(cmd *exec.Cmd, signals <-chan os.Signal, broken <-chan struct{}, limit time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var late <-chan time.Time
	for {
		var sig os.Signal
		select {
		case err := <-done:
			return err
		case sig = <-signals:
		case <-broken:
			broken, late, sig = nil, time.After(limit), syscall.SIGTERM
		case <-late:
			sig = os.Kill
		}
		cmd.Process.Signal(sig) // it fails when the command has just ended
	}
}

// Replicate is the command that keeps databases of programs that run by themselves.
func Replicate() *cli.Command {
	var s *settings
	return &cli.Command{
		Name:    "sqlite replicate",
		Args:    "DATABASE...",
		Summary: "keep SQLite databases in a bucket, until a signal",
		About:   about,
		Examples: []string{
			"holdfast sqlite replicate --replica s3://backups/app /data/app.db",
			"holdfast sqlite replicate --replica file:///mnt/backups --ack local /data/a.db /data/b.db",
		},
		Flags: func(l *cli.FlagList) { s = addSettings(l) },
		Run: func(c *cli.Call) error {
			cfg, shutdown, err := s.config(c.Args, c.Stderr)
			if err != nil {
				return err
			}
			signals, stop := stopping.Notify()
			defer stop()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				select {
				case <-signals:
					cancel()
				case <-ctx.Done():
				}
			}()
			a, err := s.begin(cfg)
			if err != nil {
				return fmt.Errorf("sqlite replicate: %w", err)
			}
			// Once the agent was asked to end, it still stores a database that only its program kept from being followed.
			if err := a.settle(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("sqlite replicate: %w", err)
			}
			select {
			case <-ctx.Done():
			case <-a.Broken():
			}
			stored := a.end(shutdown, signals, c.Stderr)
			if fault := a.Fault(); fault != nil {
				return fmt.Errorf("sqlite replicate: %w", fault)
			}
			if !stored {
				return cli.StatusError(1)
			}
			return nil
		},
	}
}
