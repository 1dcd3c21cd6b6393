package node

import (
	"context"
	"fmt"
	"path/filepath"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/wal"
)

// enter makes the member part of a cluster: it begins one or joins one, as the options say.
func enter(ctx context.Context, cfg *Config, net Transport, ident *Identity, opt *StartOptions) error {
	// No other process may work on the directory meanwhile.
	lock, err := cfg.FS.Lock(filepath.Join(cfg.Dir, "LOCK"))
	if err != nil {
		return fmt.Errorf("open %s: in use by another process: %w", cfg.Dir, err)
	}
	defer lock.Unlock()
	switch {
	case opt.Join != "":
		return join(ctx, cfg, net, ident, opt)
	case len(opt.Peers) > 1:
		return bootstrap(ctx, cfg, net, ident, opt)
	}
	return alone(cfg, ident)
}

// alone makes a cluster of one.
func alone(cfg *Config, ident *Identity) error {
	m := emember.Member{ID: ident.Member, Name: ident.Name, Nonce: ident.Nonce}
	m.PeerURLs = cfg.peerURLs(ident.PeerAddr)
	return initialise(cfg, ident, randomID(), []emember.Member{m})
}

// firstTerm is the term of the first state, which had no leader.
const firstTerm = 1

// initialise writes the first state of a cluster: all its first members write the same one, as the snapshot at index 1 of
// term 1. Until the identity names the cluster (the commit point) the directory belongs to none and all is done again.
func initialise(cfg *Config, ident *Identity, cluster uint64, members []emember.Member) error {
	storeDir, walDir := filepath.Join(cfg.Dir, "store"), cfg.walDir()
	for _, d := range []string{storeDir, walDir} {
		if err := cfg.FS.RemoveAll(d); err != nil {
			return fmt.Errorf("initialise %s: %w", cfg.Dir, err)
		}
	}
	st, err := cfg.openStore(nil)
	if err != nil {
		return err
	}
	w, err := wal.Open(cfg.FS, walDir, wal.Options{Manual: true, SegmentBytes: cfg.SegmentBytes})
	if err != nil {
		st.Close()
		return err
	}
	if len(members) > 0 {
		b := st.NewBatch()
		FirstRows(b, members...)
		if err = st.Commit(b, 1); err == nil {
			err = st.Flush()
		}
		if err == nil {
			err = w.Reset(1, 1, wal.HardState{Term: firstTerm, Commit: 1})
		}
	}
	if e := st.Close(); err == nil && e != nil {
		err = e
	}
	if e := w.Close(); err == nil && e != nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("initialise %s: %w", cfg.Dir, err)
	}
	ident.Cluster = cluster
	return ident.write(cfg.FS, cfg.Dir)
}
