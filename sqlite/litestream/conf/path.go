package conf

import (
	"errors"
	"path/filepath"
	"strings"
)

var equalFold = strings.EqualFold

// Path is the absolute path of a file name: ~ is the home directory, and a leading sqlite://, as in connection strings, is removed.
func (sur *Surroundings) Path(p string) (string, error) {
	if p == "" {
		return "", errors.New("there is no path")
	}
	for _, scheme := range []string{"sqlite3://", "sqlite://"} {
		p = strings.TrimPrefix(p, scheme)
	}
	if p == "~" || strings.HasPrefix(p, "~/") {
		if sur.Home == "" {
			return "", errors.New("~ is a home directory, and there is none; write the path out")
		}
		p = filepath.Join(sur.Home, p[1:])
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(sur.Dir, p)
	}
	return filepath.Clean(p), nil
}
