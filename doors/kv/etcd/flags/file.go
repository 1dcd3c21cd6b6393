package flags

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// sections are the file's nested maps: each key in them stands for a flag.
var sections = map[string]func(key string) string{
	"client-transport-security": func(key string) string {
		switch key {
		case "allowed-cn", "allowed-hostname":
			return "client-cert-" + key
		}
		return key
	},
	"peer-transport-security": func(key string) string {
		switch key {
		case "allowed-cn", "allowed-hostname":
			return "peer-cert-" + key
		case "skip-client-san-verification":
			return "peer-skip-client-san-verification"
		}
		return "peer-" + key
	},
	"socket-options":   func(key string) string { return "socket-" + key },
	"discovery-config": func(key string) string { return "discovery-" + key },
}

// readFile reads etcd's configuration file, YAML or JSON. Unlike etcd it says so when it meets a key that means nothing.
func readFile(path string, read func(string) ([]byte, error)) (*given, error) {
	b, err := read(path)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	g := &given{values: map[string]string{}, file: true}
	for _, key := range sorted(doc) {
		flagOf, nested := sections[key]
		if !nested {
			if err := g.addKey(path, key, key, doc[key]); err != nil {
				return nil, err
			}
			continue
		}
		section, ok := doc[key].(map[string]any)
		if !ok {
			if doc[key] == nil {
				continue
			}
			return nil, fmt.Errorf("%s: %s is not a list of settings", path, key)
		}
		for _, k := range sorted(section) {
			if err := g.addKey(path, key+"."+k, flagOf(k), section[k]); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

func sorted(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// addKey takes one value of the file under the name of its flag. Durations are nanoseconds there.
func (g *given) addKey(path, key, name string, v any) error {
	r := find(name)
	if r == nil || name == "config-file" || name == "version" {
		g.warn("%s: there is no setting %s", path, key)
		return nil
	}
	if r.notInFile {
		g.warn("%s: %s means nothing in a file", path, key)
		return nil
	}
	value, err := scalar(v)
	if err == nil && r.kind == duration {
		if n, e := strconv.ParseInt(value, 10, 64); e == nil {
			value = time.Duration(n).String()
		}
	}
	if value == "" && err == nil {
		return nil // empty is unset, as in the environment
	}
	if err == nil {
		err = (&setter{r, g.values}).Set(value)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", path, key, err)
	}
	return nil
}

// scalar writes a value of the file as it would stand on the command line.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case []any:
		var items []string
		for _, item := range v {
			s, err := scalar(item)
			if err != nil {
				return "", err
			}
			items = append(items, s)
		}
		return strings.Join(items, ","), nil
	case map[string]any:
		return "", fmt.Errorf("wants one value")
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return fmt.Sprint(v), nil
}
