package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// dead kills an etcd while it is written to, and brings what lies in its data directory over in both ways there are.
func dead(o *options, dir, version string) error {
	theirs, err := prepare(dir, "etcd", proctest.Etcd(filepath.Join(o.peers, "etcd-"+version, "etcd"), "--snapshot-count", "500"))
	if err != nil {
		return err
	}
	defer theirs.close()
	if err := theirs.begin(); err != nil {
		return err
	}
	small := *o
	small.keys = 1000
	h, err := fill(theirs.c, &small)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := withUsers(ctx, theirs.c); err != nil {
		return err
	}
	// One writer counts up until it hears nothing any more: all it was answered must be there.
	var acknowledged atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := int64(1); ; i++ {
			if _, err := theirs.c.Put(ctx, fmt.Sprintf("count/%06d", i), "x"); err != nil {
				return
			}
			acknowledged.Store(i)
		}
	}()
	for acknowledged.Load() < 300 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := theirs.Nodes[0].Kill(); err != nil {
		return err
	}
	theirs.c.Close()
	<-done

	imported, err := prepare(dir, "imported", proctest.Holdfast(o.holdfast))
	if err != nil {
		return err
	}
	defer imported.close()
	out, err := tool(o.holdfast, "import", "--from-data-dir", theirs.Nodes[0].Dir, "--data", imported.Nodes[0].Dir)
	if err != nil {
		return err
	}
	fmt.Printf("etcd %s killed after %d writes: %s\n", version, acknowledged.Load(), strings.SplitN(out, "\n", 2)[0])
	if err := imported.begin(); err != nil {
		return err
	}
	count, err := imported.c.Get(ctx, "count/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if count.Count < acknowledged.Load() {
		return fmt.Errorf("%d writes were acknowledged and %d are there", acknowledged.Load(), count.Count)
	}

	swapped, err := swap(o, dir, theirs.Nodes[0].Dir)
	if err != nil {
		return err
	}
	defer swapped.close()
	if err := swapped.begin(); err != nil {
		return err
	}
	if err := theirs.begin(); err != nil {
		return err
	}
	if r, err := theirs.c.Get(ctx, "any"); err != nil {
		return err
	} else {
		h.revision = r.Header.Revision
	}
	for _, s := range []*server{imported, swapped} {
		if err := same(&small, h, theirs, s); err != nil {
			return err
		}
	}
	return nil
}

// swap starts this program under the name etcd on a copy of an etcd's data directory.
func swap(o *options, dir, data string) (*server, error) {
	bin, err := filepath.Abs(o.holdfast)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "bin", "etcd")
	if err := os.Symlink(bin, name); err != nil {
		return nil, err
	}
	s, err := prepare(dir, "swapped", proctest.Etcd(name))
	if err != nil {
		return nil, err
	}
	if err := os.Remove(s.Nodes[0].Dir); err != nil {
		return nil, err
	}
	if out, err := exec.Command("cp", "-a", data, s.Nodes[0].Dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy: %w\n%s", err, out)
	}
	return s, nil
}

// withUsers fills the log with entries that are judged when applied: writes of a user with few permissions, refused ones among them.
// Authentication is off again at the end, so that reading needs none.
func withUsers(ctx context.Context, c *clientv3.Client) error {
	var errs []error
	try := func(_ any, err error) { errs = append(errs, err) }
	try(c.AuthEnable(ctx))
	as := func(name, password string) *clientv3.Client {
		u, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Username: name, Password: password, DialTimeout: 20 * time.Second, Logger: zap.NewNop()})
		errs = append(errs, err)
		return u
	}
	root, ann := as("root", "rootsecret"), as("ann", "secret")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	defer root.Close()
	defer ann.Close()
	try(ann.Put(ctx, "own", "1"))
	if _, err := ann.Put(ctx, "others", "1"); err == nil {
		return errors.New("a write without permission was taken")
	}
	if _, err := ann.Txn(ctx).Then(clientv3.OpPut("own", "2"), clientv3.OpPut("others", "2")).Commit(); err == nil {
		return errors.New("a Txn without permission was taken")
	}
	try(root.Put(ctx, "others", "3"))
	try(root.UserAdd(ctx, "late", "latesecret"))
	try(root.UserChangePassword(ctx, "ann", "other"))
	try(root.RoleRevokePermission(ctx, "readers", "own", ""))
	try(root.Put(ctx, "others", "4"))
	try(root.AuthDisable(ctx))
	return errors.Join(errs...)
}
