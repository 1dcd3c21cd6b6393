package litestream

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfastdb/holdfast/sqlite/litestream/conf"
)

// config is which configuration file a command takes.
type config struct {
	path     string
	noExpand bool
}

func (c *config) flags(set *flag.FlagSet) {
	set.StringVar(&c.path, "config", "", "`PATH` of the configuration file (default $LITESTREAM_CONFIG, or "+conf.DefaultPath+")")
	set.BoolVar(&c.noExpand, "no-expand-env", false, "leave $NAME in the configuration file as it is")
}

// load reads the configuration file.
func (p *program) load(c *config) (*conf.Settings, error) {
	path, err := p.sur.Path(cmp.Or(c.path, p.getenv("LITESTREAM_CONFIG"), conf.DefaultPath))
	if err != nil {
		return nil, err
	}
	file, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("config file not found: %s", path)
	case err != nil:
		return nil, err
	}
	if !c.noExpand {
		file = conf.Expand(file, p.sur)
	}
	return conf.Parse(file, path, p.sur)
}

// find is the entry of one database, and the replica's settings in it. A URL stands for the replica alone: then the entry has no path.
func (p *program) find(c *config, text string) (d conf.Database, warnings []string, err error) {
	if conf.IsURL(text) {
		if c.path != "" {
			return d, nil, errors.New("cannot specify a replica URL and the -config flag")
		}
		d.Replica, warnings, err = conf.FromURL(text, p.sur)
		return d, warnings, err
	}
	set, err := p.load(c)
	if err != nil {
		return d, nil, err
	}
	path, err := p.sur.Path(text)
	if err != nil {
		return d, nil, err
	}
	d, ok := set.Database(path)
	if !ok {
		return d, nil, fmt.Errorf("database not found in config: %s", path)
	}
	return d, set.Warnings, nil
}
