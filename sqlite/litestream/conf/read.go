package conf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// value is the given text of a setting, and where, for errors.
type value struct{ text, at string }

// given is every setting that one part of the file names. Its values can be read as what their rows say.
type given map[string]value

// source is one configuration file, or a URL, while it is read. It belongs to one goroutine.
type source struct {
	name     string
	warnings []string
}

func (s *source) warn(at, format string, args ...any) {
	line := at + " " + fmt.Sprintf(format, args...)
	if !slices.Contains(s.warnings, line) { // the top of the file is looked at for every replica
		s.warnings = append(s.warnings, line)
	}
}

// at names a place in the file: a key may be there many times.
func (s *source) at(n *yaml.Node, name string) string {
	return fmt.Sprintf("%s:%d: %s", s.name, n.Line, name)
}

// parts are the keys that hold what has no row: lists, and a replica.
type parts map[string]func(n *yaml.Node, at string) error

// section reads one mapping. Keys of the tables go into g, keys of of to their readers, and any other key is named in a line.
func (s *source) section(n *yaml.Node, prefix string, of parts, tables ...[]row) (given, error) {
	g := given{}
	return g, s.keys(g, n, prefix, "", of, tables)
}

func (s *source) keys(g given, n *yaml.Node, prefix, nested string, of parts, tables [][]row) error {
	keys, err := s.fields(n, strings.TrimSuffix(prefix+nested, "."))
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		v, name := keys[key], nested+key
		at := s.at(v, prefix+name)
		if read := of[name]; read != nil {
			if empty(v) {
				continue // a section whose lines are all comments
			}
			if err := read(v, at); err != nil {
				return err
			}
			continue
		}
		if within(name, tables) && !strings.Contains(key, ".") {
			if empty(v) {
				continue
			}
			if err := s.keys(g, v, prefix, name+".", nil, tables); err != nil {
				return err
			}
			continue
		}
		r := find(name, tables...)
		if r == nil || strings.Contains(key, ".") {
			s.warn(at+":", "there is no such setting")
			continue
		}
		if empty(v) {
			continue
		}
		if err := g.set(r, v, at); err != nil {
			return err
		}
	}
	return nil
}

// within reports whether settings of the tables are nested in name.
func within(name string, tables [][]row) bool {
	return slices.ContainsFunc(slices.Concat(tables...), func(r row) bool { return strings.HasPrefix(r.name, name+".") })
}

// fields are the keys of a mapping and their values, including those of an anchor or a merge.
func (s *source) fields(n *yaml.Node, name string) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s is not a list of settings; write each as `key: value`", strings.TrimSuffix(s.at(n, name), ": "))
	}
	var raw map[string]yaml.Node
	if err := n.Decode(&raw); err != nil {
		return nil, s.unreadable(err)
	}
	keys := map[string]*yaml.Node{}
	for key, v := range raw { // any order: they go into a map
		keys[key] = resolved(&v)
	}
	return keys, nil
}

// unreadable is a parser's error with the file's name, in one line.
func (s *source) unreadable(err error) error {
	return fmt.Errorf("%s: %s", s.name, strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
}

// resolved is the node behind an alias.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// empty reports whether nothing was written behind a key.
func empty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// items are the entries of a list.
func (s *source) items(n *yaml.Node, at string) ([]*yaml.Node, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s is not a list; begin each entry with a dash", at)
	}
	var all []*yaml.Node
	for _, e := range n.Content {
		all = append(all, resolved(e))
	}
	return all, nil
}

// set checks a value by its row and takes it.
func (g given) set(r *row, n *yaml.Node, at string) error {
	if r.kind == list {
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			return nil
		}
		g[r.name] = value{"", at}
		return nil
	}
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("%s wants one value", at)
	}
	return g.put(r, n.Value, at)
}

// put is set for values that are text already.
func (g given) put(r *row, v, at string) error {
	var err error
	switch r.kind {
	case yesno:
		_, err = readBool(v)
	case span:
		_, err = readSpan(v)
	case number:
		_, err = readNumber(v)
	}
	if err != nil {
		return fmt.Errorf("%s: %q %w", at, v, err)
	}
	g[r.name] = value{v, at}
	return nil
}

func readBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "y", "t", "1":
		return true, nil
	case "false", "no", "off", "n", "f", "0":
		return false, nil
	}
	return false, errors.New("is neither true nor false")
}

// longest keeps sums of times and arithmetic with them far from overflowing.
const longest = 100 * 365 * 24 * time.Hour

func readSpan(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		return 0, errors.New("is no time; write it with its unit, as 30s, 5m or 24h")
	case d < 0 || d > longest:
		return 0, errors.New("is no time to wait; give one from 0s to 100 years")
	}
	return d, nil
}

// readNumber reads 0600 as YAML's older form does, in octal.
func readNumber(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil || n < 0 {
		return 0, errors.New("is no number of 0 or more")
	}
	return n, nil
}

// text, flag, span and number return the given value, or def. put has checked it.
func (g given) text(name, def string) string {
	if v, ok := g[name]; ok {
		return v.text
	}
	return def
}

func (g given) flag(name string, def bool) bool {
	v, ok := g[name]
	if !ok {
		return def
	}
	b, _ := readBool(v.text)
	return b
}

func (g given) span(name string, def time.Duration) time.Duration {
	v, ok := g[name]
	if !ok {
		return def
	}
	d, _ := readSpan(v.text)
	return d
}

func (g given) number(name string, def int64) int64 {
	v, ok := g[name]
	if !ok {
		return def
	}
	n, _ := readNumber(v.text)
	return n
}

// positive is span for a time that must pass.
func (g given) positive(name string, def time.Duration) (time.Duration, error) {
	d := g.span(name, def)
	if d <= 0 {
		return 0, fmt.Errorf("%s: %s; give a time above 0", g[name].at, d)
	}
	return d, nil
}

// judge says what settings without a meaning here do.
func (s *source) judge(g given, tables ...[]row) error {
	for _, name := range slices.Sorted(maps.Keys(g)) {
		switch r := find(name, tables...); r.use {
		case refused:
			return fmt.Errorf("%s is not offered: %s", g[name].at, r.why)
		case idle:
			s.warn(g[name].at, "does nothing here: %s", r.why)
		case foreign:
			s.warn(g[name].at, "does nothing here: %s", otherStores)
		}
	}
	return nil
}
