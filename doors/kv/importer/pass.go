package importer

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// pass makes the target equal to the source at one revision, which it returns, and writes only what differs. It can fail with
// rpctypes.ErrCompacted when the source forgets the revision meanwhile; another pass is then the answer, and a quick one.
func (i *run) pass(ctx context.Context) (revision int64, err error) {
	if err := i.leases.begin(ctx); err != nil {
		return 0, err
	}
	revision, keys, _, err := i.source.position(ctx)
	if err != nil {
		return 0, err
	}
	there, present, _, err := i.target.position(ctx)
	if err != nil {
		return 0, err
	}
	i.count.pass(keys)
	from := scan(i.source, revision)
	defer from.close()
	var to *scanner
	if present > 0 {
		to = scan(i.target, there)
		defer to.close()
	}
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	out := newParallel(i.writer)
	b := new(batch)
	change := func(o op) error {
		if !b.fits(1, o.size()) {
			if err := out.write(writing, b); err != nil {
				return err
			}
			b = new(batch)
		}
		b.add(o)
		return nil
	}
	err = join(ctx, from, to, func(src, dst *mvccpb.KeyValue) error {
		switch {
		case src == nil:
			return change(op{key: dst.Key, gone: true})
		case dst != nil && bytes.Equal(src.Value, dst.Value) && src.Lease == dst.Lease:
			i.count.seen(1)
			return nil
		}
		i.count.seen(1)
		return change(op{key: src.Key, value: src.Value, lease: src.Lease})
	})
	if err == nil {
		err = out.write(writing, b)
	} else {
		cancel() // errors of writes in flight do not matter any more
	}
	if e := out.wait(); err == nil {
		err = e
	}
	return revision, err
}

// Difference is the result of a comparison.
type Difference struct {
	Count int      // keys and leases that are not the same
	First []string // the first of them, for a person
}

const shownDifferences = 10

func (d *Difference) add(format string, args ...any) {
	if d.Count++; len(d.First) < shownDifferences {
		d.First = append(d.First, fmt.Sprintf(format, args...))
	}
}

// compare reads all keys of the source at one revision and all of the target at another, and counts what is not the same. A
// lease belongs to the comparison as its id, which is the same on both sides.
func (i *run) compare(ctx context.Context, at, there int64) (keys, size int64, d Difference, err error) {
	from, to := scan(i.source, at), scan(i.target, there)
	defer from.close()
	defer to.close()
	err = join(ctx, from, to, func(src, dst *mvccpb.KeyValue) error {
		switch {
		case src == nil:
			d.add("key %q: only on the target", short(dst.Key))
		case dst == nil:
			d.add("key %q: only on the source", short(src.Key))
		case !bytes.Equal(src.Value, dst.Value):
			d.add("key %q: %d bytes on the source, other %d on the target", short(src.Key), len(src.Value), len(dst.Value))
		case src.Lease != dst.Lease:
			d.add("key %q: lease %x on the source, %x on the target", short(src.Key), src.Lease, dst.Lease)
		}
		if src != nil {
			keys, size = keys+1, size+int64(len(src.Key)+len(src.Value))
		}
		return nil
	})
	return keys, size, d, err
}

func short(key []byte) []byte { return key[:min(len(key), 80)] }

// compareLeases counts leases that only one side has, or that were granted for another time. A lease that the source ended after the
// cut-over is no difference. Only a later revision tells of its end, and unlike a lease that ended before, it holds keys on the target.
func (i *run) compareLeases(ctx context.Context, at int64, d *Difference) (int, error) {
	// Leases without keys end without a revision, also while the keys were compared.
	if err := i.leases.compareLists(ctx); err != nil {
		return 0, err
	}
	if err := i.leases.settle(ctx, at); err != nil {
		return 0, err
	}
	theirs, _, err := i.source.list(ctx)
	if err != nil {
		return 0, err
	}
	ours, _, err := i.target.list(ctx)
	if err != nil {
		return 0, err
	}
	all := make(map[int64]bool, len(theirs))
	for _, id := range append(theirs, ours...) {
		all[id] = true
	}
	ids := make([]int64, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	type answer struct {
		granted, granted2, remaining, remaining2, revision int64
		keys                                               int // on the target, of a lease that is only there
	}
	answers := make([]answer, len(ids))
	place := make(map[int64]int, len(ids))
	for n, id := range ids {
		place[id] = n
	}
	err = each(ctx, ids, func(ctx context.Context, id int64) (err error) {
		a := &answers[place[id]]
		if a.granted2, a.remaining2, _, err = i.target.timeToLive(ctx, id); err != nil {
			return err
		}
		if a.granted, a.remaining, a.revision, err = i.source.timeToLive(ctx, id); err != nil || a.remaining >= 0 || a.remaining2 < 0 {
			return err
		}
		a.keys, err = i.target.attached(ctx, id)
		return err
	})
	same := 0
	for n, a := range answers {
		switch {
		case a.remaining < 0 && (a.remaining2 < 0 || a.revision > at && a.keys > 0 || slices.Contains(theirs, ids[n])): // it has ended since it was listed
		case a.remaining < 0:
			d.add("lease %x: only on the target", ids[n])
		case a.remaining2 < 0:
			d.add("lease %x: only on the source", ids[n])
		case a.granted != a.granted2:
			d.add("lease %x: granted for %d s on the source, %d s on the target", ids[n], a.granted, a.granted2)
		case a.remaining2 < a.remaining-1:
			d.add("lease %x: %d s left on the source, %d s on the target", ids[n], a.remaining, a.remaining2)
		default:
			same++
		}
	}
	return same, err
}
