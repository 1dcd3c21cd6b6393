package litestream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/agent"
	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

// wait returns when replication is to end: with a signal, which it returns, or when the command beside has ended. With -once it returns
// when all databases are stored. The command is sent the signal, and waited for.
func (p *program) wait(r *replication, a *agent.Agent, all []conf.Database, command []string, signals <-chan os.Signal) (os.Signal, error) {
	if !r.once && command == nil { // a service: it tries again, and says so, until a person has mended what is wrong
		return <-signals, nil
	}
	if sig, err := interruptible(signals, func(ctx context.Context) error { return settled(ctx, r, a, all) }); sig != nil || err != nil {
		return sig, err
	}
	if r.once {
		return interruptible(signals, func(ctx context.Context) error { return storeOnce(ctx, r, a, all) })
	}
	c := exec.Command(command[0], command[1:]...)
	c.Env, c.Stdout, c.Stderr = p.environ, p.stdout, p.stderr
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("cannot start exec command: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			err = fmt.Errorf("exec command: %w", err)
		}
		return nil, err
	case sig := <-signals:
		return sig, endChild(c, sig, ended, signals, r.set.ShutdownTimeout)
	}
}

// endChild passes a signal on and waits for the end. A second signal, or the end of patience, kills.
func endChild(c *exec.Cmd, sig os.Signal, ended <-chan error, signals <-chan os.Signal, patience time.Duration) error {
	if err := c.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot signal exec process: %w", err)
	}
	var why error
	select {
	case err := <-ended:
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() >= 0 { // by itself; -1: by the signal
			return fmt.Errorf("exec command: %w", err)
		}
		return nil
	case again := <-signals:
		why = fmt.Errorf("shutdown interrupted by %s", again)
	case <-time.After(patience):
		why = fmt.Errorf("the exec command did not end within %s and was killed", patience)
	}
	if err := c.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(why, fmt.Errorf("kill exec process: %w", err))
	}
	<-ended // of what, is known
	return why
}

// storeOnce stores what the databases have. The end says of one that is not there that nothing is stored of it.
func storeOnce(ctx context.Context, r *replication, a *agent.Agent, all []conf.Database) error {
	for _, d := range all {
		r.log.Info("syncing database", "path", d.Path)
		if _, err := a.Sync(ctx, d.Path); err != nil {
			return fmt.Errorf("sync database %s: %w", d.Path, err)
		}
	}
	return nil
}

// startWait is how long a program waits for stores that fail for a moment, if its databases are there. Without them it waits for the restore.
const startWait = 30 * time.Second

// settled returns when the databases are followed, or wait to come into being. An error says that one of them cannot be kept until a person changes
// something.
func settled(ctx context.Context, r *replication, a *agent.Agent, all []conf.Database) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if !slices.ContainsFunc(all, func(d conf.Database) bool { _, err := os.Stat(d.Path); return err != nil }) && !r.once {
		limited, cancel = context.WithTimeout(ctx, startWait)
	}
	defer cancel()
	err := a.Settled(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		r.log.Warn("replication has not begun, and goes on trying", "error", err)
		return nil
	}
	return err
}
