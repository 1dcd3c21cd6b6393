package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

func (r *run) flips() []step {
	return []step{{name: "damage in the bucket", do: r.damage}}
}

// objects is a replica in a directory, which is damaged and mended.
type objects struct {
	dir, url string
	replica  *replica.Replica
	want     []byte // the database
	to       string
	// The outcome: restores that named the damage, those that went round it, and damage that Verify did not name.
	tried, named, round int
	silent              []string
}

// damage flips bits in, removes, renames and doubles every kind of file of a replica. A restore gives the stored state, or names the
// damage.
func (r *run) damage(ctx context.Context, p *place) (string, error) {
	m, err := p.machine("m")
	if err != nil {
		return "", err
	}
	o := &objects{dir: filepath.Join(p.dir, "replica"), to: filepath.Join(p.dir, "damaged.db")}
	o.url = "file://" + o.dir
	if err := m.start(o.url, nil, "--levels", "1s,3s", "--snapshot", "5s"); err != nil {
		return "", err
	}
	writers, lasts := 4, 8*time.Second
	if r.quick {
		writers, lasts = 1, 6*time.Second
	}
	if err := m.write(load{name: "w", writers: writers, bytes: 3000}); err != nil {
		return "", err
	}
	if err := m.waitAcked(ctx, 1, 20*time.Second); err != nil {
		return "", err
	}
	time.Sleep(lasts)
	m.killApps()
	if err := m.agent.Term(20 * time.Second); err != nil {
		return "", err
	}
	store, err := objstore.Open(o.url)
	if err != nil {
		return "", err
	}
	o.replica = replica.New(store, replica.LayoutOf(o.url))
	if v, err := restore.Verify(ctx, o.replica, restore.Verifying{Found: func(restore.Finding) {}}); err != nil || v.Wrong > 0 {
		return "", fmt.Errorf("before any damage: %+v, %w", v, err)
	}
	if o.want, err = o.restore(ctx); err != nil {
		return "", err
	}
	kinds, err := o.kinds()
	if err != nil {
		return "", err
	}
	flips, moves := 2*r.rounds, r.rounds
	if r.quick {
		flips, moves = 4, 1
	}
	var counts []string
	for _, kind := range slices.Sorted(func(yield func(string) bool) {
		for k := range kinds {
			if !yield(k) {
				return
			}
		}
	}) {
		names := kinds[kind]
		counts = append(counts, fmt.Sprintf("%d of %s", len(names), kind))
		for range flips {
			if err := o.flip(ctx, names[rand.N(len(names))]); err != nil {
				return "", err
			}
		}
		for i, n := range names {
			if i >= moves {
				break
			}
			if err := o.move(ctx, n, names[rand.N(len(names))]); err != nil {
				return "", err
			}
		}
	}
	for _, want := range []string{"level 0", "level 1", "level 2", "snapshots", "manifest"} {
		if len(kinds[want]) == 0 {
			return "", fmt.Errorf("the replica has no files of the kind %q: %v", want, counts)
		}
	}
	note := fmt.Sprintf("%s; damaged %d times: %d restores named it, %d came to the same database by another way, 0 to another one; not named by verify: %d",
		strings.Join(counts, ", "), o.tried, o.named, o.round, len(o.silent))
	if len(o.silent) > 0 {
		return "", fmt.Errorf("%s: %s", note, strings.Join(o.silent[:min(5, len(o.silent))], "; "))
	}
	return note, nil
}

// kinds are the replica's files by kind.
func (o *objects) kinds() (map[string][]string, error) {
	kinds := map[string][]string{}
	err := filepath.WalkDir(o.dir, func(name string, e fs.DirEntry, err error) error {
		// Another identity is another replica, and not damage: it is the agent that refuses it.
		if err != nil || e.IsDir() || strings.HasSuffix(name, "/"+replica.IdentityName) {
			return err
		}
		kind := "manifest"
		switch level := filepath.Base(filepath.Dir(name)); level {
		case "holdfast":
		case "9":
			kind = "snapshots"
		default:
			kind = "level " + level
		}
		kinds[kind] = append(kinds[kind], name)
		return nil
	})
	return kinds, err
}

// restore makes the database and returns it.
func (o *objects) restore(ctx context.Context) ([]byte, error) {
	for _, suffix := range []string{"", ".restoring", ".restoring-journal"} {
		os.Remove(o.to + suffix) // most are not there
	}
	if _, err := restore.Restore(ctx, o.replica, restore.Options{From: o.url, To: o.to}); err != nil {
		return nil, err
	}
	return os.ReadFile(o.to)
}

// judge restores and verifies a replica with one damage.
func (o *objects) judge(ctx context.Context, what string, mustName bool) error {
	o.tried++
	got, err := o.restore(ctx)
	switch {
	case err != nil:
		o.named++
	case bytes.Equal(got, o.want):
		o.round++
	default:
		return fmt.Errorf("%s: another database was restored, and nothing said", what)
	}
	v, err := restore.Verify(ctx, o.replica, restore.Verifying{Found: func(restore.Finding) {}})
	if mustName && err == nil && v.Wrong == 0 {
		o.silent = append(o.silent, what)
	}
	return nil
}

// flip flips a bit of a file and mends it.
func (o *objects) flip(ctx context.Context, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	at, bit := rand.N(len(b)), byte(1)<<rand.N(8)
	b[at] ^= bit
	if err := os.WriteFile(name, b, 0o600); err != nil {
		return err
	}
	damaged := bytes.Clone(b)
	b[at] ^= bit
	err = o.judge(ctx, fmt.Sprintf("%s, bit %#x of byte %d of %d flipped", strings.TrimPrefix(name, o.dir), bit, at, len(b)), !sameContent(damaged, b))
	return errors.Join(err, os.WriteFile(name, b, 0o600))
}

// sameContent reports whether two files of a replica say the same in other bytes. LZ4 has several ways to write down a run of zeros, and an
// LTX file's checksum is over its uncompressed content.
func sameContent(a, b []byte) bool {
	x, err1 := content(a)
	y, err2 := content(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// content is all that a whole LTX file says.
func content(b []byte) ([]byte, error) {
	d := ltx.NewDecoder(bytes.NewReader(b))
	if err := d.DecodeHeader(); err != nil {
		return nil, err
	}
	all := fmt.Appendf(nil, "%+v", d.Header())
	page := make([]byte, d.Header().PageSize)
	for {
		var h ltx.PageHeader
		if err := d.DecodePage(&h, page); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		all = append(fmt.Appendf(all, "%+v", h), page...)
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	return fmt.Appendf(all, "%+v", d.Trailer()), nil
}

// move removes a file, gives it a name that is none, puts a copy of it over another, and beside it; each is mended.
func (o *objects) move(ctx context.Context, name, other string) error {
	short := strings.TrimPrefix(name, o.dir)
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	was, err := os.ReadFile(other)
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil {
		return err
	}
	err = o.judge(ctx, short+" removed", !strings.HasSuffix(name, "manifest"))
	next := filepath.Join(filepath.Dir(name), "00000000000fffff-00000000000fffff.ltx")
	err = errors.Join(err, os.WriteFile(next, b, 0o600), o.judge(ctx, short+" renamed", false), os.WriteFile(name, b, 0o600), o.judge(ctx, short+" doubled", false),
		os.Remove(next))
	if other != name {
		err = errors.Join(err, os.WriteFile(other, b, 0o600), o.judge(ctx, short+" put over "+strings.TrimPrefix(other, o.dir), true), os.WriteFile(other, was, 0o600))
	}
	return err
}
