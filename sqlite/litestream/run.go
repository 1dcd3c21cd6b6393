package litestream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/agent"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
	programstatus "github.com/holdfastdb/holdfast/sqlite/program/status"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
	"github.com/holdfastdb/holdfast/sqlite/walmode"
)

// forever is a retention that nothing outlives.
const forever = 100 * 365 * 24 * time.Hour

// extensionSocket names the variable with the socket that the extension in applications connects to; Litestream has no such thing.
const extensionSocket = "HOLDFAST_SQLITE_SOCKET"

// walSetting names the variable with what becomes of databases in another journal mode: switch (as Litestream does) or never.
const walSetting = "HOLDFAST_SQLITE_WAL"

// singleWriterSetting names the variable that, set to true, says that no other agent has the replicas: their stores need not keep to conditions.
const singleWriterSetting = "HOLDFAST_SQLITE_SINGLE_WRITER"

// run replicates until a signal, until the program beside it ends, or once.
func (p *program) run(r *replication, signals <-chan os.Signal) error {
	log := r.log
	log.Info("litestream", "version", likeVersion, "holdfast", cli.Version+cli.Revision(), "level", r.set.Log.Level)
	for _, w := range r.set.Warnings {
		log.Warn(w)
	}
	if len(r.set.Databases) == 0 {
		log.Error("no databases specified in configuration")
	}
	var command []string
	if r.set.Exec != "" {
		var err error
		if command, err = words(r.set.Exec); err != nil {
			return fmt.Errorf("cannot parse exec command: %w", err)
		}
	}
	sig, err := interruptible(signals, func(ctx context.Context) error { return restoreMissing(ctx, r) })
	if err != nil {
		return err
	}
	all, err := allDatabases(r.set)
	if err != nil {
		return err
	}
	if sig == nil {
		sig, err = interruptible(signals, func(ctx context.Context) error { return refuseForeign(ctx, all) })
	}
	if sig != nil || err != nil {
		return errors.Join(err, notBegun(sig, all))
	}
	a, err := p.start(r, all)
	if err != nil {
		return err
	}
	told := programstatus.Serve(a, log)
	if r.set.Addr != "" {
		if err := told.Metrics(r.set.Addr); err != nil {
			log.Error("cannot start metrics server", "error", err) // as in Litestream: databases are kept without it
		}
	}
	w := p.watch(a, r, all)
	var c *control
	if r.set.Socket.Enabled {
		if c, err = listen(r.set.Socket, p.sur, syncing(a), log); err != nil {
			log.Warn("failed to start control server", "error", err) // as in Litestream: databases are kept without it
		}
	}
	sig, err = p.wait(r, a, all, command, signals)
	switch {
	case sig != nil:
		log.Info("signal received, litestream shutting down", "signal", sig)
	case command != nil:
		log.Info("subprocess exited, litestream shutting down")
	case err == nil && !r.once: // whether once is complete is known when everything has ended
		log.Info("replication complete, litestream shutting down")
	}
	w.stop()
	if c != nil {
		if e := c.close(); e != nil {
			log.Warn("close control socket", "error", e)
		}
	}
	if e := shut(r, a, signals); err == nil || r.once && e != nil {
		err = e // else the first one is why it ends
	}
	told.Close()
	if err == nil && r.once && len(all) > 0 {
		log.Info("one-shot replication complete")
	}
	if err == nil {
		log.Info("litestream shut down")
	}
	return err
}

// interruptible does f until a signal ends it, and says which.
func interruptible(signals <-chan os.Signal, f func(ctx context.Context) error) (sig os.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err = <-done:
		return nil, err
	case sig = <-signals:
		cancel()
		<-done // an interrupted restore goes on at the next start
		return sig, nil
	}
}

// notBegun is the outcome of a start that a signal ended before its agent was there: the databases may be stored nowhere.
func notBegun(sig os.Signal, all []conf.Database) error {
	if sig == nil || len(all) == 0 {
		return nil
	}
	more := ""
	if len(all) > 1 {
		more = fmt.Sprintf(" (and %d more databases)", len(all)-1)
	}
	return fmt.Errorf("%s: NOT STORED: %s ended the start before %s answered%s; start it again", all[0].Path, sig, all[0].Replica, more)
}

// restoreMissing restores databases that are not there, where the configuration says so.
func restoreMissing(ctx context.Context, r *replication) error {
	for _, d := range r.set.Databases {
		if !d.RestoreIfMissing {
			continue
		}
		if _, err := os.Lstat(d.Path); err == nil {
			r.log.Info("database exists, skipping restore", "path", d.Path)
			continue
		}
		r.log.Info("attempting restore before replication", "path", d.Path)
		of, store, err := openReplica(ctx, d.Replica)
		if err != nil {
			return fmt.Errorf("restore failed: %w", err)
		}
		made, err := restored(ctx, of, store, restore.Options{From: d.Replica.String(), To: d.Path, Record: true,
			Note: func(text string) { r.log.Warn(text, "path", d.Path) }})
		switch {
		case errors.Is(err, restore.ErrEmpty):
			r.log.Info("no backup found, starting fresh", "path", d.Path)
		case err != nil:
			return fmt.Errorf("restore failed: %s: %w", d.Path, err)
		default:
			logRestored(r.log, d.Path, made)
		}
	}
	return nil
}

// start begins replication of the databases.
func (p *program) start(r *replication, all []conf.Database) (*agent.Agent, error) {
	cfg := agent.Config{Socket: p.getenv(extensionSocket), Interval: interval(all, r.log), Levels: r.set.Levels, Snapshot: r.set.SnapshotInterval,
		Retention: r.set.SnapshotRetention, L0Retention: r.set.L0Retention, Log: r.log}
	switch how := p.getenv(walSetting); how {
	case "", "switch":
		cfg.ToWAL = walmode.Switch // as Litestream does
	case "never":
	default:
		return nil, fmt.Errorf("%s=%s: write switch or never", walSetting, how)
	}
	if _, err := p.singleWriter(); err != nil {
		return nil, err
	}
	cfg.Restored = func(path string, made *restore.Restored) { logRestored(r.log, path, made) }
	if r.set.KeepAll {
		cfg.Retention, cfg.L0Retention = forever, forever
		r.log.Warn("retention disabled; cloud provider lifecycle policies must handle retention")
	}
	for _, d := range all {
		t, err := p.target(&d)
		if err != nil {
			return nil, err
		}
		t.Discovered = !r.lists(d.Path)
		cfg.Databases = append(cfg.Databases, t)
	}
	a, err := agent.Start(cfg)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		logTarget(r.log, &d)
	}
	return a, nil
}

// lists reports whether a database has an entry of its own, and was not found in a directory.
func (r *replication) lists(path string) bool {
	return slices.ContainsFunc(r.set.Databases, func(d conf.Database) bool { return d.Path == path })
}

// singleWriter reads the setting.
func (p *program) singleWriter() (bool, error) {
	switch v := p.getenv(singleWriterSetting); v {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s=%s: write true or false", singleWriterSetting, v)
	}
}

// target is a database as the agent takes it.
func (p *program) target(d *conf.Database) (agent.Target, error) {
	store, err := openStore(d.Replica)
	if err != nil {
		return agent.Target{}, err
	}
	single, err := p.singleWriter()
	if err != nil {
		return agent.Target{}, err
	}
	if single {
		store = objstore.SingleWriter(store)
	}
	url := d.Replica.String()
	// As Litestream's: no commit waits. A program that loads the extension may ask for archive, by a PRAGMA or its URL.
	return agent.Target{SingleWriter: single, Path: d.Path, Replica: replica.New(store, replica.LayoutOf(url)), URL: url, Ack: gate.Local}, nil
}

func logTarget(log *slog.Logger, d *conf.Database) {
	log.Info("initialized db", "path", d.Path)
	if b := d.Replica.Bucket; b != nil {
		log.Info("replicating to", "type", "s3", "sync-interval", d.Replica.SyncInterval, "bucket", b.Name, "path", b.Prefix, "region", b.Region, "endpoint", b.Endpoint)
		return
	}
	log.Info("replicating to", "type", "file", "sync-interval", d.Replica.SyncInterval, "path", d.Replica.Dir)
}

// interval is the shortest interval that any database asks for.
func interval(all []conf.Database, log *slog.Logger) time.Duration {
	least, most := time.Duration(0), time.Duration(0)
	for _, d := range all {
		each := max(d.Monitor, d.Replica.SyncInterval)
		if least == 0 || each < least {
			least = each
		}
		most = max(most, each)
	}
	if least != most {
		log.Warn("databases have different intervals; the shortest is that of all", "interval", least, "longest", most)
	}
	return least
}

// syncing is how the control socket stores what a database has. Both TXIDs are the stored one: nothing is kept between a commit and the replica.
func syncing(a *agent.Agent) syncer {
	return func(ctx context.Context, path string, _ bool) (syncAnswer, error) {
		if _, ok := a.Status()[path]; !ok {
			return syncAnswer{}, fmt.Errorf("%w: %s", errUnknown, path)
		}
		txid, err := a.Sync(ctx, path)
		if err != nil {
			return syncAnswer{}, fmt.Errorf("sync database: %w", err)
		}
		return syncAnswer{Status: "synced", TXID: uint64(txid), ReplicatedTXID: uint64(txid)}, nil
	}
}

// shut ends the agent; commits are stored first, within the configured time. It logs a line for each database. The error says that
// something is not stored.
func shut(r *replication, a *agent.Agent, signals <-chan os.Signal) error {
	limit := r.set.ShutdownTimeout
	if r.set.ShutdownSyncTimeout > 0 {
		limit = min(limit, r.set.ShutdownSyncTimeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- a.Close(ctx) }()
	var err error
	select {
	case err = <-closed:
	case sig := <-signals:
		cancel()
		err = errors.Join(fmt.Errorf("shutdown interrupted by %s", sig), <-closed)
	}
	var lost []agent.Outcome
	for _, o := range a.Outcomes() {
		if o.Stored() {
			r.log.Info(o.String(), "path", o.Path)
		} else {
			r.log.Error(o.String(), "path", o.Path)
			lost = append(lost, o)
		}
	}
	if len(lost) > 1 {
		return fmt.Errorf("%s: %s (and %d more databases)", lost[0].Path, lost[0], len(lost)-1)
	}
	return err
}
