package flags

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is the form of a value.
type kind int

const (
	text     kind = iota
	number        // not negative, except quota-backend-bytes
	boolean       // may stand without a value on the command line
	duration      // 5s on the command line, nanoseconds in the file
	list          // commas between
	urls          // commas between
	bare          // anything, also nothing: flags that etcd itself ignores
)

// ErrHelp is returned when the command line asks for help.
var ErrHelp = flag.ErrHelp

// UsageError says that the command line cannot be read: etcd ends with status 2 then, and with 1 for every other mistake.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// given is every value that was named, by flag.
type given struct {
	values   map[string]string
	warnings []string
	// file is set if the values come from a configuration file. It changes a default: see advertised.
	file bool
}

func (g *given) warn(format string, args ...any) {
	g.warnings = append(g.warnings, fmt.Sprintf(format, args...))
}

// value returns what was given for a flag, or etcd's default.
func (g *given) value(name string) string {
	if v, ok := g.values[name]; ok {
		return v
	}
	return find(name).def
}

func (g *given) has(name string) bool {
	_, ok := g.values[name]
	return ok
}

// setter takes the values of one flag; of several the last counts.
type setter struct {
	row    *row
	values map[string]string
}

// String implements flag.Value.
func (s *setter) String() string { return "" }

// Set implements flag.Value.
func (s *setter) Set(v string) error {
	if err := s.row.kind.check(v); err != nil {
		return err
	}
	s.values[s.row.name] = v
	return nil
}

// IsBoolFlag tells package flag that the value may be missing.
func (s *setter) IsBoolFlag() bool { return s.row.kind == boolean || s.row.kind == bare }

func (k kind) check(v string) (err error) {
	switch k {
	case number:
		_, err = strconv.ParseInt(v, 0, 64)
	case boolean:
		_, err = strconv.ParseBool(v)
	case duration:
		_, err = time.ParseDuration(v)
	case urls:
		_, err = ParseURLs(v)
	}
	var n *strconv.NumError
	if errors.As(err, &n) {
		err = n.Err
	}
	return err
}

// readArgs reads the command line by the rules of package flag, which are etcd's: one dash or two, -f v or -f=v.
func readArgs(args []string) (map[string]string, error) {
	values := map[string]string{}
	set := flag.NewFlagSet("etcd", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	for i := range table {
		set.Var(&setter{&table[i], values}, table[i].name, "")
	}
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, ErrHelp
	case err != nil:
		return nil, &UsageError{err.Error()}
	case set.NArg() > 0:
		return nil, fmt.Errorf("%q is not a valid flag", set.Arg(0))
	}
	return values, nil
}

// envName is the environment variable of a flag.
func envName(name string) string {
	return "ETCD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// addEnvironment fills in the settings that the command line left open. A variable that contradicts a flag ends the start, as in etcd: the
// person who set it expects that it counts. An unknown one only warns: other programs' variables begin with ETCD_ too.
func (g *given) addEnvironment(environ []string) error {
	flagGiven := map[string]bool{}
	for name := range g.values {
		flagGiven[envName(name)] = true
	}
	known := map[string]*row{}
	for i := range table {
		known[envName(table[i].name)] = &table[i]
	}
	environ = slices.Sorted(slices.Values(environ)) // warnings in the same order at every start
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		switch r := known[name]; {
		case !strings.HasPrefix(name, "ETCD_"):
		case flagGiven[name]:
			return fmt.Errorf("environment variable %s and the flag of that name are both given; take one of them away", name)
		case r == nil || name == "ETCD_VERSION":
			g.warn("unrecognized environment variable %s", name)
		case value == "": // a unit file often has VAR= lines
		default:
			s := setter{r, g.values}
			if err := s.Set(value); err != nil {
				return fmt.Errorf("invalid value %q for %s: %w", value, name, err)
			}
		}
	}
	return nil
}
