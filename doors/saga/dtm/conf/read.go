package conf

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// ErrHelp is returned when the command line asks for help.
var ErrHelp = flag.ErrHelp

// UsageError says that the command line cannot be read.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// given is every value that was named, by setting, and where: an environment variable, or a place in the file.
type given struct {
	values, from map[string]string
	warnings     []string
}

func (g *given) warn(format string, args ...any) {
	g.warnings = append(g.warnings, fmt.Sprintf(format, args...))
}

// value returns what was given for a setting, or DTM's default.
func (g *given) value(name string) string {
	if v, ok := g.values[name]; ok {
		return v
	}
	return find(name).def
}

// set notes a value. Empty is unset, as in DTM.
func (g *given) set(r *row, v, from string) error {
	if v == "" {
		return nil
	}
	if r.number {
		if _, err := strconv.ParseInt(v, 10, 64); err != nil {
			return fmt.Errorf("%s: %q is no number", from, v)
		}
	}
	g.values[r.name], g.from[r.name] = v, from
	return nil
}

// commandLine is what DTM's own flags say.
type commandLine struct {
	file                  string
	version, debug, reset bool
}

func readArgs(args []string) (c commandLine, err error) {
	set := flag.NewFlagSet("dtm", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	set.StringVar(&c.file, "c", "", "")
	set.BoolVar(&c.debug, "d", false, "")
	set.BoolVar(&c.version, "v", false, "")
	set.BoolVar(&c.reset, "r", false, "")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return c, ErrHelp
	case err != nil:
		return c, &UsageError{err.Error()}
	case set.NArg() > 0:
		return c, &UsageError{fmt.Sprintf("%q is no flag", set.Arg(0))}
	}
	return c, nil
}

// readEnvironment takes the variables that have a setting's name.
func (g *given) readEnvironment(environ []string) error {
	byName := map[string]string{}
	for _, line := range environ {
		name, v, _ := strings.Cut(line, "=")
		byName[name] = v
	}
	for i := range table {
		name := envName(table[i].name)
		if err := g.set(&table[i], byName[name], name); err != nil {
			return err
		}
	}
	return nil
}

// readFile takes DTM's configuration file. Its values go before those of the environment. Unlike DTM it says so when it meets a key that
// means nothing.
func (g *given) readFile(path string, read func(string) ([]byte, error)) error {
	b, err := read(path)
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		section, nested := doc[key].(map[string]any)
		if !nested {
			if doc[key] == nil && slices.ContainsFunc(table, func(r row) bool { return strings.HasPrefix(r.name, key+".") }) {
				continue // a section whose keys are all comments
			}
			section = map[string]any{"": doc[key]}
		}
		for _, k := range slices.Sorted(maps.Keys(section)) {
			name := strings.TrimSuffix(key+"."+k, ".")
			r := find(name)
			if r == nil {
				g.warn("%s: there is no setting %s", path, name)
				continue
			}
			v := section[k]
			switch v.(type) {
			case nil:
				continue // DTM leaves what the environment said
			case map[string]any, []any:
				return fmt.Errorf("%s: %s wants one value", path, name)
			}
			if err := g.set(r, fmt.Sprint(v), path+": "+name); err != nil {
				return err
			}
		}
	}
	return nil
}
