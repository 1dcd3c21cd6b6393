// Package server is `holdfast serve`. It has the configuration from flags, environment and file, certificates, and log lines. It starts and
// ends one member with all doors of the build. It walks the list of doors and names none.
package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Config is everything `holdfast serve` can be told, checked and with defaults filled in. Load makes one.
type Config struct {
	doors []doorConfig

	data string
	name string // "" = the name in the data directory, else the host's

	admin cli.Address

	peer      cli.Address // zero = members cannot reach this node
	advertise cli.Address // the address told to the others; zero = peer
	peers     []namedAddress
	join      string // a member's peer address
	// peerOverride has addresses in place of the log's, by member id.
	peerOverride map[uint64]string
	// peerOff and nameGiven: --peer off, and --name, were written.
	peerOff, nameGiven bool

	ack    ack.Level // of requests that name none
	memory int64     // bytes; 0 until the default is taken
	// memoryWhy says where memory comes from, for people.
	memoryWhy string

	tlsCert, tlsKey, tlsCA             string
	peerTLSCert, peerTLSKey, peerTLSCA string // "" = those above
	peerTLSNames                       []string
	cors                               []string
	insecure                           bool
	logLevel                           slog.Level
	logFormat                          string // text or json
	archive                            archiveConfig
	logRetention                       int64 // bytes
	// holdLevel keeps the cluster's level down.
	holdLevel bool
	// yielded says why doors that the operator has not named are off.
	yielded []string
}

// doorConfig is a door with what this server is told of it.
type doorConfig struct {
	door     serve.Door
	settings serve.Settings
	// yielding may be turned off; nil: the operator has named the door's address, or the door has to be on.
	yielding serve.Yielding
}

// newConfig begins the configuration of a server with those doors: nothing is set.
func newConfig(all serve.List) *Config {
	c := &Config{}
	for _, d := range all {
		c.doors = append(c.doors, doorConfig{door: d, settings: d.Settings()})
	}
	return c
}

// options lists the settings of this build in the order of --help, those of the doors first.
func (c *Config) options() (all []serve.Option) {
	for _, d := range c.doors {
		all = append(all, d.settings.Options()...)
	}
	all = append(all, []serve.Option{
		{Name: "admin", Arg: "ADDR", Default: "127.0.0.1:8080", Help: "readiness, metrics, status and membership over HTTP, or off",
			Set: func(v string) error { return cli.SetAddress(&c.admin, v) }},
		{Name: "data", Arg: "DIR", Help: "directory of this member's log and state, made if missing",
			Set: func(v string) error { c.data = v; return nil }},
		{Name: "name", Arg: "NAME", Help: "label of this member (default: the host's name)",
			Set: func(v string) error { c.name = v; return nil }},
		{Name: "peer", Arg: "ADDR", Help: "listen for other members here, or off (default: own entry of --peers; with --join 127.0.0.1:2380)",
			Set: func(v string) error { return cli.SetAddress(&c.peer, v) }},
		{Name: "peer-advertise", Arg: "ADDR", Help: "the address other members reach this one at, where that is not --peer (NAT, containers)",
			Set: func(v string) (err error) { c.advertise, err = cli.Dialable(v); return err }},
		{Name: "peers", Arg: "LIST", Help: "begin a cluster of these members: n1=host:port,n2=host:port,n3=host:port",
			Set: func(v string) (err error) { c.peers, err = parsePeers(v); return err }},
		{Name: "peer-override", Arg: "LIST", List: true, Help: "dial members elsewhere than the log says, where none of its addresses is right any more: ID=host:port,ID=host:port",
			Set: func(v string) (err error) { c.peerOverride, err = ParseOverride(v); return err }},
		{Name: "join", Arg: "ADDR", Help: "join the cluster of the member with this --peer address",
			Set: func(v string) error { return setJoin(&c.join, v) }},
		{Name: "hold-level", Help: "keep the cluster's level down while builds change, so that the older one can come back",
			Set: func(v string) error { return cli.SetBool(&c.holdLevel, v) }},
		{Name: "config", Arg: "FILE", Help: "YAML file with the names of these flags as keys",
			Set: func(string) error { return nil }}, // read before anything is set
		{Name: "ack", Arg: "LEVEL", Default: "commit", Help: "when requests that do not say are answered: commit is after a majority's fsync, archive when the archive has it too",
			Set: func(v string) error { return setAck(&c.ack, v) }},
		{Name: "memory", Arg: "SIZE", Help: "memory of the whole process (default: a quarter of the machine's or control group's, 256MiB to 4GiB)",
			Set: func(v string) error { c.memoryWhy = "given"; return cli.SetSize(&c.memory, v) }},
		{Name: "tls-cert", Arg: "FILE", Help: "certificate of this server, PEM",
			Set: func(v string) error { c.tlsCert = v; return nil }},
		{Name: "tls-key", Arg: "FILE", Help: "its private key, PEM",
			Set: func(v string) error { c.tlsKey = v; return nil }},
		{Name: "tls-ca", Arg: "FILE", Help: "clients must show a certificate signed by one of these, PEM; members too unless --peer-tls-ca is given",
			Set: func(v string) error { c.tlsCA = v; return nil }},
		{Name: "peer-tls-cert", Arg: "FILE", Help: "certificate of this server between members, PEM (default: --tls-cert)",
			Set: func(v string) error { c.peerTLSCert = v; return nil }},
		{Name: "peer-tls-key", Arg: "FILE", Help: "its private key, PEM (default: --tls-key)",
			Set: func(v string) error { c.peerTLSKey = v; return nil }},
		{Name: "peer-tls-ca", Arg: "FILE", Help: "members must show a certificate signed by one of these, PEM (default: --tls-ca)",
			Set: func(v string) error { c.peerTLSCA = v; return nil }},
		{Name: "peer-tls-allowed-names", Arg: "LIST", Help: "hosts or common names of members' certificates; needed where clients' are of the same authority",
			Set: func(v string) error { return setNames(&c.peerTLSNames, v) }},
		{Name: "cors", Arg: "LIST", Help: "origins of web pages that may use kv and add to logs, with commas between, or *",
			Set: func(v string) error { return setOrigins(&c.cors, v) }},
		{Name: "insecure", Help: "allow addresses beyond loopback without TLS and identity",
			Set: func(v string) error { return cli.SetBool(&c.insecure, v) }},
		{Name: "log-level", Arg: "LEVEL", Default: "info", Help: "debug, info, warn or error",
			Set: func(v string) error { return setLevel(&c.logLevel, v) }},
		{Name: "log-format", Arg: "FORM", Default: "text", Help: "text, or json for an object a line",
			Set: func(v string) error { return setFormat(&c.logFormat, v) }},
	}...)
	for i, o := range all {
		if o.Name == "memory" {
			return slices.Insert(all, i, c.archiveOptions()...)
		}
	}
	return all
}

// addOptions declares every option as a flag. Defaults are applied in loadConfig, so that a flag given with its default
// value still counts as given.
func (c *Config) addOptions(l *cli.FlagList) {
	for _, o := range c.options() {
		if o.Arg == "" {
			l.Toggle(o.Name, o.Help)
			continue
		}
		if o.List {
			l.List(o.Name, o.Arg, o.Help)
			continue
		}
		v := l.Text(o.Name, o.Arg, o.Default, o.Help)
		*v = ""
	}
}

// setting is where a value came from, for error messages.
type setting struct{ value, source string }

// Load reads the arguments of `holdfast serve` for a server with those doors, as its command does.
func Load(all serve.List, args []string, getenv func(string) string) (*Config, error) {
	c, l := newConfig(all), cli.NewFlagList("serve")
	c.addOptions(l)
	if err := l.Parse(args); err != nil {
		return nil, err
	}
	return loadConfig(c, l.Set, getenv)
}

// loadConfig merges flag, environment, file and default, in this order of precedence, and checks the result.
func loadConfig(c *Config, flags *pflag.FlagSet, getenv func(string) string) (*Config, error) {
	all := c.options()
	given := map[string]setting{}
	for _, o := range all {
		if f := flags.Lookup(o.Name); f != nil && f.Changed {
			given[o.Name] = setting{f.Value.String(), "--" + o.Name}
		} else if v := getenv(cli.EnvName(o.Name)); v != "" { // empty is unset: a unit file often has VAR= lines
			given[o.Name] = setting{v, cli.EnvName(o.Name)}
		}
	}
	if file, ok := given["config"]; ok {
		if err := readConfigFile(file.value, all, given); err != nil {
			return nil, err
		}
	}

	anyDoor := false
	for _, o := range all {
		if _, ok := given[o.Name]; ok && o.Door {
			anyDoor = true
		}
	}
	for _, o := range all {
		s, ok := given[o.Name]
		switch {
		case !ok && o.Door && anyDoor: // another door was named: this one stays off
			s = setting{"off", "--" + o.Name}
		case !ok && o.Default == "":
			continue
		case !ok:
			s = setting{o.Default, "--" + o.Name}
		}
		if err := o.Set(s.value); err != nil {
			return nil, cli.Usagef("%s %s: %s", s.source, withoutPassword(s.value), err)
		}
	}
	if !anyDoor {
		for i := range c.doors {
			if y, ok := c.doors[i].settings.(serve.Yielding); ok {
				y.Unnamed()
				c.doors[i].yielding = y
			}
		}
	}
	if c.memoryWhy == "" {
		m := defaultMemory()
		c.memory, c.memoryWhy = m.Bytes, m.Why
	}
	_, peerGiven := given["peer"]
	_, c.nameGiven = given["name"]
	c.peerOff = peerGiven && c.peer.Off()
	return c, c.check(peerGiven)
}

// readConfigFile adds the file's settings where nothing stronger was given.
func readConfigFile(path string, all []serve.Option, given map[string]setting) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Usagef("--config %s: there is no such file; give the path of a YAML file", path)
	}
	if err != nil {
		return cli.Usagef("--config %s: %s; give a file this user can read", path, cli.Reason(err))
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return cli.Usagef("%s: %s; write one `flag: value` a line", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return nil // an empty file
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return cli.Usagef("%s: not a list of settings; write one `flag: value` a line", path)
	}
	var names []string
	known := map[string]bool{}
	for _, o := range all {
		if o.Name != "config" {
			names = append(names, o.Name)
			known[o.Name] = true
		}
	}
	inFile := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s:%d", path, key.Line)
		if !known[key.Value] {
			next := "see `holdfast serve --help` for the names"
			if near := cli.Nearest(key.Value, names); near != "" {
				next = "did you mean " + near + "?"
			}
			return cli.Usagef("%s: this build has no setting %s; %s", at, key.Value, next)
		}
		if inFile[key.Value] {
			return cli.Usagef("%s: %s is set twice; remove one", at, key.Value)
		}
		inFile[key.Value] = true
		if value.Kind != yaml.ScalarNode {
			return cli.Usagef("%s: %s wants one value; write it as on the command line", at, key.Value)
		}
		if _, ok := given[key.Value]; !ok && value.Value != "" {
			given[key.Value] = setting{value.Value, at + ": " + key.Value}
		}
	}
	return nil
}

// check looks at what single values cannot tell.
func (c *Config) check(peerGiven bool) error {
	if c.data == "" {
		return cli.Usagef("serve: --data is missing; name a directory, for example `holdfast serve --data ./data`")
	}
	if c.ack == ack.Archive && c.archive.url == "" {
		return cli.Usagef("serve: --ack archive waits for an archive, and there is none; give --archive too, or use --ack commit")
	}
	if len(c.peers) > 0 && c.join != "" {
		return cli.Usagef("serve: --peers begins a cluster and --join enters one; give one of them")
	}
	if len(c.peers) > 0 {
		if c.name == "" {
			return cli.Usagef("serve: --peers needs --name; say which of %s this member is", cli.Alternatives(peerNames(c.peers)))
		}
		self, ok := findPeer(c.peers, c.name)
		if !ok {
			return cli.Usagef("serve: --name %s is not in --peers; it has %s", c.name, cli.Alternatives(peerNames(c.peers)))
		}
		if !peerGiven {
			c.peer = self.Address
		}
	}
	if c.join != "" && !peerGiven {
		c.peer = cli.Address{Host: "127.0.0.1", Port: "2380"}
	}
	if (len(c.peers) > 1 || c.join != "") && c.peer.Off() {
		return cli.Usagef("serve: --peer off, but members must reach each other; give --peer HOST:PORT")
	}
	if c.advertise.Off() && len(c.peers) > 0 && peerGiven && !c.peer.Off() {
		if self, ok := findPeer(c.peers, c.name); ok && self.Address != c.peer { // the others were told --peers
			c.advertise = self.Address
		}
	}
	if !c.advertise.Off() && c.peer.Off() {
		return cli.Usagef("serve: --peer-advertise %s, but nothing listens for members; give --peer too", c.advertise)
	}
	if !c.peer.Off() && c.peer.Wildcard() && c.advertise.Off() { // it is also the address that the log tells the others
		return cli.Usagef("serve: --peer %s is no address others can dial; give --peer with this machine's own, or --peer-advertise", c.peer)
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return cli.Usagef("serve: --tls-cert and --tls-key belong together; give both")
	}
	if c.tlsCA != "" && c.tlsCert == "" {
		return cli.Usagef("serve: --tls-ca without --tls-cert and --tls-key; give all three")
	}
	if (c.peerTLSCert == "") != (c.peerTLSKey == "") {
		return cli.Usagef("serve: --peer-tls-cert and --peer-tls-key belong together; give both")
	}
	if c.peerTLSCA != "" && c.peerTLSCert == "" && c.tlsCert == "" {
		return cli.Usagef("serve: --peer-tls-ca without a certificate; give --peer-tls-cert and --peer-tls-key, or --tls-cert and --tls-key")
	}
	if c.peerTLSCert != "" && c.peerTLSCA == "" && c.tlsCA == "" {
		return cli.Usagef("serve: --peer-tls-cert without an authority, so members could not check each other; give --peer-tls-ca")
	}
	if len(c.peerTLSNames) > 0 && c.peerTLSCA == "" && c.tlsCA == "" {
		return cli.Usagef("serve: --peer-tls-allowed-names, but members show no certificates; give --peer-tls-ca, --peer-tls-cert and --peer-tls-key")
	}
	for _, d := range c.doors {
		if err := d.settings.Check(); err != nil {
			return err
		}
	}
	_, err := budget.For(c.memory, c.claims()...)
	for i := range c.doors {
		if err != nil && c.yield(&c.doors[i], fmt.Sprintf("--memory %s is %s", cli.SizeString(c.memory), err)) {
			_, err = budget.For(c.memory, c.claims()...)
		}
	}
	if err != nil {
		return cli.Usagef("serve: --memory %s: %s", cli.SizeString(c.memory), err)
	}
	return c.checkExposure()
}

// yield turns a door off that the operator has not named, and reports whether it did.
func (c *Config) yield(d *doorConfig, why string) bool {
	if d.yielding == nil {
		return false
	}
	d.yielding.Yield()
	d.yielding = nil
	c.yielded = append(c.yielded, fmt.Sprintf("the %s door stays off: %s", d.door.Name, why))
	return true
}

// yieldPorts turns doors off that the operator has not named and whose addresses cannot be bound.
func (c *Config) yieldPorts() {
	for i := range c.doors {
		d := &c.doors[i]
		if d.yielding == nil {
			continue
		}
		for _, l := range d.settings.Listens() {
			if l.At.Off() {
				continue
			}
			if err := (serve.Place{Network: "tcp", Addr: l.At.String(), Flag: "--" + l.Flag}).Try(); err != nil {
				c.yield(d, err.Error())
				break
			}
		}
	}
}

// claims are those of the doors, which are on where they listen at the address of their own flag.
func (c *Config) claims() []budget.Claim {
	var all serve.List
	on := map[string]bool{}
	for _, d := range c.doors {
		all = append(all, d.door)
		for _, l := range d.settings.Listens() {
			on[d.door.Name] = on[d.door.Name] || l.Flag == d.door.Name && !l.At.Off()
		}
	}
	claims := all.Claims(func(door string) bool { return on[door] })
	if c.archive.url != "" {
		claims = append(claims, archiveClaim)
	}
	return claims
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

func setFormat(dst *string, v string) error {
	if v != "text" && v != "json" {
		return errors.New("no such form; choose text or json")
	}
	*dst = v
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

func setAck(dst *ack.Level, v string) (err error) {
	if *dst, err = ack.ParseLevel(v); err != nil {
		return errors.New("no such level; use commit or archive")
	}
	return nil
}

// dial is the levels of this server's doors.
func (c *Config) dial() ack.Dial { return ack.Dial{Archiving: c.archive.url != "", Default: c.ack} }
