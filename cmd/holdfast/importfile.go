package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfastdb/holdfast/etcddata"
	"github.com/holdfastdb/holdfast/etcdfile"
	"github.com/holdfastdb/holdfast/node"
)

// isFile reports whether s names a file rather than endpoints.
func isFile(s string) bool {
	info, err := os.Stat(s)
	return err == nil && info.Mode().IsRegular()
}

// emptyDir refuses a directory that holds something; what names the command.
func emptyDir(what, data string) error {
	entries, err := os.ReadDir(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: --data %s: %s; give a directory this user can write", what, data, reason(err))
	case len(entries) > 0:
		return fmt.Errorf("%s: --data %s is not empty; give a directory that is, or one that does not exist", what, data)
	}
	return nil
}

// importFile makes a data directory of a file that `etcdctl snapshot save` wrote, or that was copied out of an etcd's data
// directory.
func importFile(c *call, path, data, name, peer string) error {
	if err := emptyDir("import", data); err != nil {
		return err
	}
	f, err := openEtcdFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := etcddata.Import(node.Config{Dir: data}, name, peer, f, nil, false)
	if err != nil {
		return fmt.Errorf("import %s: %w; remove %s and try again", path, err, data)
	}
	printImported(c, data, st)
	return nil
}

func openEtcdFile(path string) (*etcdfile.File, error) {
	f, err := etcdfile.Open(path)
	switch {
	case errors.Is(err, etcdfile.ErrInUse):
		return nil, fmt.Errorf("import %s: %w; stop it, or take `etcdctl snapshot save`", path, err)
	case errors.Is(err, etcdfile.ErrDamaged):
		return nil, fmt.Errorf("import %s: %w; give a file that `etcdctl snapshot save` wrote", path, err)
	case err != nil:
		return nil, fmt.Errorf("import %s: %s; give a file that `etcdctl snapshot save` wrote", path, reason(err))
	}
	return f, nil
}

func printImported(c *call, data string, st *etcddata.Stats) {
	fmt.Fprintf(c.stdout, "%s holds %s; start it:\n  holdfast serve --data %s\n", data, imported(st), data)
}

func imported(st *etcddata.Stats) string {
	compacted := "with all its history"
	if st.Compacted > 0 {
		compacted = fmt.Sprintf("with its history from %d on", st.Compacted)
	}
	return fmt.Sprintf("revision %d %s: %d keys in %d changes, %d leases, %d users, %d roles", st.Revision, compacted, st.Keys, st.Changes,
		st.Leases, st.Users, st.Roles)
}
