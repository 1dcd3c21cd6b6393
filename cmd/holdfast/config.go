package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/tiles"
)

// config is everything `holdfast serve` can be told, checked and with defaults filled in.
type config struct {
	data string
	name string // "" = the name in the data directory, else the host's

	kv      address
	kvQuota int64 // bytes

	kvAuthToken    string
	kvAuthTokenTTL time.Duration
	kvBcryptCost   int

	tlog       address
	tlogKeys   string // "" = tlog-keys in the data directory
	tlogOrigin string

	tlogPublish     []publishTo
	tlogCheckpoints string        // signed or published
	tlogCalm        time.Duration // 0 = as the worker has it
	tlogLeast       time.Duration // 0 = as the place has it
	tlogRead        address
	tlogTokens      string // "" = everybody may add

	admin address

	peer      address // zero = members cannot reach this node
	advertise address // what the others are told; zero = peer
	peers     []namedAddress
	join      string // a member's peer address
	holdLevel bool

	ack    string
	memory int64 // bytes

	tlsCert, tlsKey, tlsCA             string
	peerTLSCert, peerTLSKey, peerTLSCA string // "" = those above
	peerTLSNames                       []string
	cors                               []string
	insecure                           bool
	logLevel                           slog.Level
}

// option is one setting: a flag, an environment variable and a key of the config file under one name.
type option struct {
	name, arg, def, help string
	door                 bool
	list                 bool // may be given several times
	set                  func(c *config, value string) error
}

// options lists the settings of this build in the order of --help. A door that is not built has no line here.
func options() []option {
	return []option{
		{name: "kv", arg: "ADDR", def: "127.0.0.1:2379", door: true, help: "etcd v3 clients, or off",
			set: func(c *config, v string) error { return setAddress(&c.kv, v) }},
		{name: "kv-quota", arg: "SIZE", def: "2GiB", help: "keys and values with history the kv door takes in, 0 for no limit",
			set: func(c *config, v string) error { return setSize(&c.kvQuota, v) }},
		{name: "kv-auth-token", arg: "KIND", def: "simple", help: "tokens of etcd clients: simple, or jwt,sign-method=…,pub-key=…,priv-key=…,ttl=…",
			set: func(c *config, v string) error { return setAuthToken(&c.kvAuthToken, v) }},
		{name: "kv-auth-token-ttl", arg: "TIME", def: "5m", help: "how long a simple token lives unused",
			set: func(c *config, v string) error { return setLifetime(&c.kvAuthTokenTTL, v) }},
		{name: "kv-bcrypt-cost", arg: "N", def: "10", help: "what a guess at a password costs, 4 to 31; each step doubles it",
			set: func(c *config, v string) error { return setBcryptCost(&c.kvBcryptCost, v) }},
		{name: "tlog", arg: "ADDR", def: "127.0.0.1:2025", door: true, help: "transparency logs over HTTP (C2SP tlog-tiles), or off",
			set: func(c *config, v string) error { return setAddress(&c.tlog, v) }},
		{name: "tlog-keys", arg: "DIR", help: "private keys of the logs, NAME.key each (default: tlog-keys in the data directory)",
			set: func(c *config, v string) error { c.tlogKeys = v; return nil }},
		{name: "tlog-origin", arg: "NAME", help: "origin of the log default when a first start makes its key (default: a random one)",
			set: func(c *config, v string) error { return setOrigin(&c.tlogOrigin, v) }},
		{name: "tlog-publish", arg: "[LOG=]URL", list: true, help: "also keep a log in file:///DIR, s3://BUCKET/PREFIX or mysql://USER@HOST:PORT/DB; may be repeated",
			set: func(c *config, v string) (err error) { c.tlogPublish, err = parsePublish(v); return err }},
		{name: "tlog-checkpoints", arg: "WHICH", def: "signed", help: "the checkpoints readers get: signed, or published for only what every --tlog-publish place of the log holds",
			set: func(c *config, v string) error { return setCheckpoints(&c.tlogCheckpoints, v) }},
		{name: "tlog-checkpoint-interval", arg: "TIME", def: "80ms", help: "when a log that nobody waits for gets a checkpoint after it has begun to grow",
			set: func(c *config, v string) error { return setInterval(&c.tlogCalm, v) }},
		{name: "tlog-publish-interval", arg: "TIME", help: "least time between two publications to a place (default: 100ms, to a bucket 1s)",
			set: func(c *config, v string) error { return setInterval(&c.tlogLeast, v) }},
		{name: "tlog-read", arg: "ADDR", help: "also serve the logs here, for reading alone (GET and HEAD), to everybody, or off (default: off)",
			set: func(c *config, v string) error { return setAddress(&c.tlogRead, v) }},
		{name: "tlog-tokens", arg: "FILE", help: "who may add: lines LOG TOKEN [BYTES/s] [MAXBYTES]; read again within a second (default: everybody)",
			set: func(c *config, v string) error { c.tlogTokens = v; return nil }},
		{name: "admin", arg: "ADDR", def: "127.0.0.1:8080", help: "readiness, metrics, status and membership over HTTP, or off",
			set: func(c *config, v string) error { return setAddress(&c.admin, v) }},
		{name: "data", arg: "DIR", help: "directory of this member's log and state, made if missing",
			set: func(c *config, v string) error { c.data = v; return nil }},
		{name: "name", arg: "NAME", help: "label of this member (default: the host's name)",
			set: func(c *config, v string) error { c.name = v; return nil }},
		{name: "peer", arg: "ADDR", help: "listen for other members here, or off (default: own entry of --peers; with --join 127.0.0.1:2380)",
			set: func(c *config, v string) error { return setAddress(&c.peer, v) }},
		{name: "peer-advertise", arg: "ADDR", help: "the address other members reach this one at, where that is not --peer (NAT, containers)",
			set: func(c *config, v string) (err error) { c.advertise, err = dialable(v); return err }},
		{name: "peers", arg: "LIST", help: "begin a cluster of these members: n1=host:port,n2=host:port,n3=host:port",
			set: func(c *config, v string) (err error) { c.peers, err = parsePeers(v); return err }},
		{name: "join", arg: "ADDR", help: "join the cluster of the member with this --peer address",
			set: func(c *config, v string) error { return setJoin(&c.join, v) }},
		{name: "hold-level", help: "keep the cluster's level down while builds change, so that the older one can come back",
			set: func(c *config, v string) error { return setBool(&c.holdLevel, v) }},
		{name: "config", arg: "FILE", help: "YAML file with the names of these flags as keys",
			set: func(*config, string) error { return nil }}, // read before anything is set
		{name: "ack", arg: "LEVEL", def: "commit", help: "when a write is answered: commit is after a majority's fsync",
			set: func(c *config, v string) error { return setAck(&c.ack, v) }},
		{name: "memory", arg: "SIZE", def: "256MiB", help: "memory of the whole process",
			set: func(c *config, v string) error { return setMemory(&c.memory, v) }},
		{name: "tls-cert", arg: "FILE", help: "certificate of this server, PEM",
			set: func(c *config, v string) error { c.tlsCert = v; return nil }},
		{name: "tls-key", arg: "FILE", help: "its private key, PEM",
			set: func(c *config, v string) error { c.tlsKey = v; return nil }},
		{name: "tls-ca", arg: "FILE", help: "clients must show a certificate signed by one of these, PEM; members too unless --peer-tls-ca is given",
			set: func(c *config, v string) error { c.tlsCA = v; return nil }},
		{name: "peer-tls-cert", arg: "FILE", help: "certificate of this server between members, PEM (default: --tls-cert)",
			set: func(c *config, v string) error { c.peerTLSCert = v; return nil }},
		{name: "peer-tls-key", arg: "FILE", help: "its private key, PEM (default: --tls-key)",
			set: func(c *config, v string) error { c.peerTLSKey = v; return nil }},
		{name: "peer-tls-ca", arg: "FILE", help: "members must show a certificate signed by one of these, PEM (default: --tls-ca)",
			set: func(c *config, v string) error { c.peerTLSCA = v; return nil }},
		{name: "peer-tls-allowed-names", arg: "LIST", help: "hosts or common names of members' certificates; needed where clients' are of the same authority",
			set: func(c *config, v string) error { return setNames(&c.peerTLSNames, v) }},
		{name: "cors", arg: "LIST", help: "origins of web pages that may use kv and add to logs, with commas between, or *",
			set: func(c *config, v string) error { return setOrigins(&c.cors, v) }},
		{name: "insecure", help: "allow addresses beyond loopback without TLS and identity",
			set: func(c *config, v string) error { return setBool(&c.insecure, v) }},
		{name: "log-level", arg: "LEVEL", def: "info", help: "debug, info, warn or error",
			set: func(c *config, v string) error { return setLevel(&c.logLevel, v) }},
	}
}

// addOptions declares every option as a flag. Defaults are applied in loadConfig, so that a flag given with its default
// value still counts as given.
func addOptions(l *flagList) {
	for _, o := range options() {
		if o.arg == "" {
			l.toggle(o.name, o.help)
			continue
		}
		if o.list {
			l.list(o.name, o.arg, o.help)
			continue
		}
		v := l.text(o.name, o.arg, o.def, o.help)
		*v = ""
	}
}

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// setting is where a value came from, for error messages.
type setting struct{ value, source string }

// loadConfig merges flag, environment, file and default, in this order of precedence, and checks the result.
func loadConfig(flags *pflag.FlagSet, getenv func(string) string) (*config, error) {
	all := options()
	given := map[string]setting{}
	for _, o := range all {
		if f := flags.Lookup(o.name); f != nil && f.Changed {
			given[o.name] = setting{f.Value.String(), "--" + o.name}
		} else if v := getenv(envName(o.name)); v != "" { // empty is unset: a unit file often has VAR= lines
			given[o.name] = setting{v, envName(o.name)}
		}
	}
	if file, ok := given["config"]; ok {
		if err := readConfigFile(file.value, all, given); err != nil {
			return nil, err
		}
	}

	anyDoor := false
	for _, o := range all {
		if _, ok := given[o.name]; ok && o.door {
			anyDoor = true
		}
	}
	c := &config{}
	for _, o := range all {
		s, ok := given[o.name]
		switch {
		case !ok && o.door && anyDoor: // another door was named: this one stays off
			s = setting{"off", "--" + o.name}
		case !ok && o.def == "":
			continue
		case !ok:
			s = setting{o.def, "--" + o.name}
		}
		if err := o.set(c, s.value); err != nil {
			return nil, usagef("%s %s: %s", s.source, withoutPassword(s.value), err)
		}
	}
	_, peerGiven := given["peer"]
	return c, c.check(peerGiven)
}

// readConfigFile adds the file's settings where nothing stronger was given.
func readConfigFile(path string, all []option, given map[string]setting) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("--config %s: there is no such file; give the path of a YAML file", path)
	}
	if err != nil {
		return usagef("--config %s: %s; give a file this user can read", path, reason(err))
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return usagef("%s: %s; write one `flag: value` a line", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return nil // an empty file
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return usagef("%s: not a list of settings; write one `flag: value` a line", path)
	}
	var names []string
	known := map[string]bool{}
	for _, o := range all {
		if o.name != "config" {
			names = append(names, o.name)
			known[o.name] = true
		}
	}
	inFile := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s:%d", path, key.Line)
		if !known[key.Value] {
			next := "see `holdfast serve --help` for the names"
			if near := nearest(key.Value, names); near != "" {
				next = "did you mean " + near + "?"
			}
			return usagef("%s: this build has no setting %s; %s", at, key.Value, next)
		}
		if inFile[key.Value] {
			return usagef("%s: %s is set twice; remove one", at, key.Value)
		}
		inFile[key.Value] = true
		if value.Kind != yaml.ScalarNode {
			return usagef("%s: %s wants one value; write it as on the command line", at, key.Value)
		}
		if _, ok := given[key.Value]; !ok && value.Value != "" {
			given[key.Value] = setting{value.Value, at + ": " + key.Value}
		}
	}
	return nil
}

// check looks at what single values cannot tell.
func (c *config) check(peerGiven bool) error {
	if c.data == "" {
		return usagef("serve: --data is missing; name a directory, for example `holdfast serve --data ./data`")
	}
	if len(c.peers) > 0 && c.join != "" {
		return usagef("serve: --peers begins a cluster and --join enters one; give one of them")
	}
	if len(c.peers) > 0 {
		if c.name == "" {
			return usagef("serve: --peers needs --name; say which of %s this member is", alternatives(peerNames(c.peers)))
		}
		self, ok := findPeer(c.peers, c.name)
		if !ok {
			return usagef("serve: --name %s is not in --peers; it has %s", c.name, alternatives(peerNames(c.peers)))
		}
		if !peerGiven {
			c.peer = self.address
		}
	}
	if c.join != "" && !peerGiven {
		c.peer = address{"127.0.0.1", "2380"}
	}
	if (len(c.peers) > 1 || c.join != "") && c.peer.off() {
		return usagef("serve: --peer off, but members must reach each other; give --peer HOST:PORT")
	}
	if c.advertise.off() && len(c.peers) > 0 && peerGiven && !c.peer.off() {
		if self, ok := findPeer(c.peers, c.name); ok && self.address != c.peer { // --peers is what the others were told
			c.advertise = self.address
		}
	}
	if !c.advertise.off() && c.peer.off() {
		return usagef("serve: --peer-advertise %s, but nothing listens for members; give --peer too", c.advertise)
	}
	if !c.peer.off() && c.peer.wildcard() && c.advertise.off() { // it is also the address that the log tells the others
		return usagef("serve: --peer %s is no address others can dial; give --peer with this machine's own, or --peer-advertise", c.peer)
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return usagef("serve: --tls-cert and --tls-key belong together; give both")
	}
	if c.tlogCheckpoints == "published" && len(c.tlogPublish) == 0 {
		return usagef("serve: --tlog-checkpoints published, but nothing is published; give --tlog-publish")
	}
	if c.tlsCA != "" && c.tlsCert == "" {
		return usagef("serve: --tls-ca without --tls-cert and --tls-key; give all three")
	}
	if (c.peerTLSCert == "") != (c.peerTLSKey == "") {
		return usagef("serve: --peer-tls-cert and --peer-tls-key belong together; give both")
	}
	if c.peerTLSCA != "" && c.peerTLSCert == "" && c.tlsCert == "" {
		return usagef("serve: --peer-tls-ca without a certificate; give --peer-tls-cert and --peer-tls-key, or --tls-cert and --tls-key")
	}
	if c.peerTLSCert != "" && c.peerTLSCA == "" && c.tlsCA == "" {
		return usagef("serve: --peer-tls-cert without an authority, so members could not check each other; give --peer-tls-ca")
	}
	if len(c.peerTLSNames) > 0 && c.peerTLSCA == "" && c.tlsCA == "" {
		return usagef("serve: --peer-tls-allowed-names, but members show no certificates; give --peer-tls-ca, --peer-tls-cert and --peer-tls-key")
	}
	if _, err := budget.For(c.memory, c.doors()); err != nil {
		return usagef("serve: --memory %s: %s", sizeString(c.memory), err)
	}
	return c.checkExposure()
}

// doors says which of them are on.
func (c *config) doors() budget.Doors { return budget.Doors{KV: !c.kv.off(), Tlog: !c.tlog.off()} }

// peerTLS reports whether members show each other certificates.
func (c *config) peerTLS() bool { return c.peerTLSCA != "" || c.tlsCA != "" }

// checkExposure refuses what would hand data to anyone on the network: an address beyond loopback needs TLS in both
// directions, because no door of this build knows passwords, or the operator's word that the network is trusted.
func (c *config) checkExposure() error {
	if c.insecure {
		return nil
	}
	mutual := c.tlsCert != "" && c.tlsCA != ""
	const next = "give --tls-cert, --tls-key and --tls-ca, or --insecure if the network is trusted"
	if !c.peer.off() && !c.peer.loopback() && !c.peerTLS() {
		return usagef("serve: --peer %s is beyond loopback and members without TLS trust everyone; "+
			"give --peer-tls-cert, --peer-tls-key and --peer-tls-ca (or these without peer-), or --insecure if the network is trusted", c.peer)
	}
	if !c.kv.off() && !c.kv.loopback() && !mutual {
		return usagef("serve: --kv %s is beyond loopback and this build asks nobody for a password; %s", c.kv, next)
	}
	if tokens := c.tlogTokens != "" && c.tlsCert != ""; !c.tlog.off() && !c.tlog.loopback() && !mutual && !tokens {
		return usagef("serve: --tlog %s is beyond loopback and anyone could add to the logs; %s, or --tlog-tokens with --tls-cert and --tls-key", c.tlog, next)
	}
	if !c.admin.off() && !c.admin.loopback() && !mutual {
		return usagef("serve: --admin %s is beyond loopback and may change the cluster; %s", c.admin, next)
	}
	return nil
}

// exposed lists what --insecure leaves open, for the one warning line.
func (c *config) exposed() []string {
	mutual := c.tlsCert != "" && c.tlsCA != ""
	var out []string
	for _, e := range []struct {
		name   string
		at     address
		closed bool
	}{{"kv", c.kv, mutual}, {"tlog", c.tlog, mutual}, {"admin", c.admin, mutual}, {"peer", c.peer, c.peerTLS()}} {
		if !e.at.off() && !e.at.loopback() && !e.closed {
			out = append(out, e.name+" "+e.at.String())
		}
	}
	return out
}

// reason is an operating system error without the path, which our line names already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func setBool(dst *bool, v string) error {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return errors.New("not a yes or no; write true or false")
	}
	*dst = b
	return nil
}

func setLevel(dst *slog.Level, v string) error {
	switch v {
	case "debug":
		*dst = slog.LevelDebug
	case "info":
		*dst = slog.LevelInfo
	case "warn":
		*dst = slog.LevelWarn
	case "error":
		*dst = slog.LevelError
	default:
		return errors.New("no such level; choose debug, info, warn or error")
	}
	return nil
}

func setCheckpoints(dst *string, v string) error {
	if v != "signed" && v != "published" {
		return errors.New("no such checkpoints; choose signed or published")
	}
	*dst = v
	return nil
}

func setInterval(dst *time.Duration, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 5*time.Millisecond || d > time.Hour {
		return errors.New("no time from 5ms to 1h; write one like 100ms")
	}
	*dst = d
	return nil
}

func setNames(dst *[]string, v string) error {
	for _, name := range strings.Split(v, ",") {
		if name = strings.TrimSpace(name); name == "" || strings.Contains(name, "*") {
			return errors.New("a name is a host or a common name, in full; write one or several with commas between")
		}
		*dst = append(*dst, name)
	}
	return nil
}

func setOrigins(dst *[]string, v string) error {
	for _, o := range strings.Split(v, ",") {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o) {
			return errors.New("an origin is a scheme and a host, like https://app.example.org; write one or several with commas between, or *")
		}
		*dst = append(*dst, o)
	}
	return nil
}

func setOrigin(dst *string, v string) error {
	if !tiles.ValidKeyName(v) {
		return errors.New("an origin has no space and no +; write one like log.example.org/2026")
	}
	*dst = v
	return nil
}

func setAck(dst *string, v string) error {
	switch v {
	case "commit":
		*dst = v
		return nil
	case "archive":
		return errors.New("this build has no archive to wait for; use commit")
	}
	return errors.New("no such level; use commit")
}
