package migrate

import (
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/kv/etcddata"
	"github.com/holdfastdb/holdfast/doors/kv/etcdfile"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// importFile makes a data directory of a file that `etcdctl snapshot save` wrote, or that was copied out of an etcd's data
// directory.
func importFile(c *cli.Call, path, data, name, peer string) error {
	if err := cli.EmptyDir("import", data); err != nil {
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
		return nil, fmt.Errorf("import %s: %s; give a file that `etcdctl snapshot save` wrote", path, cli.Reason(err))
	}
	return f, nil
}

func printImported(c *cli.Call, data string, st *etcddata.Stats) {
	fmt.Fprintf(c.Stdout, "%s holds %s; start it:\n  holdfast serve --data %s\n", data, imported(st), data)
}

func imported(st *etcddata.Stats) string {
	compacted := "with all its history"
	if st.Compacted > 0 {
		compacted = fmt.Sprintf("with its history from %d on", st.Compacted)
	}
	return fmt.Sprintf("revision %d %s: %d keys in %d changes, %d leases, %d users, %d roles", st.Revision, compacted, st.Keys, st.Changes,
		st.Leases, st.Users, st.Roles)
}
