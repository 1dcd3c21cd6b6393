package server

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	kvprogram "github.com/holdfastdb/holdfast/doors/kv/program"
	sagaprogram "github.com/holdfastdb/holdfast/doors/saga/program"
	sqlprogram "github.com/holdfastdb/holdfast/doors/sql/program"
	tlogprogram "github.com/holdfastdb/holdfast/doors/tlog/program"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// all is the doors that the tests' servers have.
var all = serve.List{kvprogram.Door, tlogprogram.Door, sagaprogram.Door, sqlprogram.Door}

// load runs loadConfig the way serve does, with file as the content of --config if it is not "".
func load(t *testing.T, args []string, env map[string]string, file string) (*Config, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "holdfast.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	return Load(all, args, func(k string) string { return env[k] })
}

func TestAFlagWinsOverTheEnvironmentTheEnvironmentOverTheFileTheFileOverTheDefault(t *testing.T) {
	const file = "memory: 128MiB\n"
	env := map[string]string{"HOLDFAST_MEMORY": "512MiB"}
	machine(t, 2<<30)
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		file string
		want int64
	}{
		{"default", nil, nil, "", 512 << 20},
		{"file", nil, nil, file, 128 << 20},
		{"environment over file", nil, env, file, 512 << 20},
		{"flag over all", []string{"--memory", "1GiB"}, env, file, 1 << 30},
		{"flag with the default's value over all", []string{"--memory", "256MiB"}, env, file, 256 << 20},
		{"an empty variable is unset", nil, map[string]string{"HOLDFAST_MEMORY": ""}, file, 128 << 20},
	} {
		c, err := load(t, append(tc.args, "--data", "d"), tc.env, tc.file)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		} else if c.memory != tc.want {
			t.Errorf("%s: memory is %d, want %d", tc.name, c.memory, tc.want)
		}
	}
}

// alike is reflect.DeepEqual for values without cycles, but takes any two functions for equal: stores that are opened hold some.
func alike(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Func:
		return a.IsNil() == b.IsNil()
	case reflect.Pointer, reflect.Interface:
		return a.IsNil() == b.IsNil() && (a.IsNil() || a.Kind() == reflect.Pointer && a.Pointer() == b.Pointer() || alike(a.Elem(), b.Elem()))
	case reflect.Struct:
		for i := range a.NumField() {
			if !alike(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !alike(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		for _, k := range a.MapKeys() {
			if v := b.MapIndex(k); !v.IsValid() || !alike(a.MapIndex(k), v) {
				return false
			}
		}
		return a.Len() == b.Len()
	}
	return a.Equal(b)
}

func TestEveryOptionCanBeSetByFlagEnvironmentAndFile(t *testing.T) {
	dir := t.TempDir()
	values := map[string]string{"kv": "127.0.0.1:1", "kv-quota": "1GiB", "kv-auth-token": "simple",
		"kv-auth-token-ttl": "10s", "kv-bcrypt-cost": "5", "tlog": "127.0.0.1:6", "tlog-keys": "keys", "tlog-origin": "log.example/o",
		"tlog-publish": "file:///tmp/a,other=file:///tmp/b", "tlog-checkpoints": "published", "tlog-checkpoint-interval": "90ms",
		"tlog-publish-interval": "2s", "tlog-read": "127.0.0.1:7", "tlog-tokens": "tokens",
		"saga": "127.0.0.1:8", "saga-grpc": "127.0.0.1:9", "saga-tokens": "tokens", "saga-clients": "10.0.0.0/8", "saga-allow-targets": "169.254.10.0/24", "saga-max-request-timeout": "5m",
		"saga-retry-interval": "11s", "saga-timeout-to-fail": "36s", "saga-request-timeout": "4s", "saga-retention": "48h", "saga-alert": "https://alerts.example/hook", "saga-alert-after": "4", "saga-ca": "ca.pem",
		"insecure-saga": "true", "sql": "127.0.0.1:10", "admin": "127.0.0.1:2", "data": dir, "name": "n1",
		"peer": "127.0.0.1:3", "peer-advertise": "127.0.0.1:3", "peer-override": "a1=127.0.0.1:6,b2=127.0.0.1:7", "peers": "n1=127.0.0.1:3,n2=127.0.0.1:4,n3=127.0.0.1:5", "ack": "commit", "archive": "file:///tmp/archive", "archive-lost": "0123456789abcdef0123456789abcdef",
		"archive-interval": "2s", "archive-requests": "1000", "archive-keep": "7d", "archive-keep-snapshots": "3", "log-retention": "2GiB", "memory": "1GiB",
		"tls-cert": "c", "tls-key": "k", "tls-ca": "a", "peer-tls-cert": "pc", "peer-tls-key": "pk", "peer-tls-ca": "pa", "peer-tls-allowed-names": "n1.example,n2",
		"cors": "https://app.example", "insecure": "true", "log-level": "debug", "hold-level": "true", "log-format": "json"}
	var args, lines []string
	env := map[string]string{}
	for _, o := range newConfig(all).options() {
		if o.Name == "config" || o.Name == "join" { // join excludes peers
			continue
		}
		v, ok := values[o.Name]
		if !ok {
			t.Fatalf("no value for --%s: add one to this test", o.Name)
		}
		args = append(args, "--"+o.Name+"="+v)
		env[cli.EnvName(o.Name)] = v
		lines = append(lines, o.Name+": "+v)
	}
	var got []*Config
	for _, run := range []func() (*Config, error){
		func() (*Config, error) { return load(t, args, nil, "") },
		func() (*Config, error) { return load(t, nil, env, "") },
		func() (*Config, error) { return load(t, nil, nil, strings.Join(lines, "\n")) },
	} {
		c, err := run()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	for _, c := range got {
		for i := range c.doors {
			c.doors[i].door = serve.Door{} // functions are not comparable
		}
	}
	if !alike(reflect.ValueOf(got[0]), reflect.ValueOf(got[1])) || !alike(reflect.ValueOf(got[0]), reflect.ValueOf(got[2])) {
		t.Errorf("by flag %+v, by environment %+v, by file %+v", got[0], got[1], got[2])
	}
	if got[0].logLevel != slog.LevelDebug || len(got[0].peers) != 3 {
		t.Errorf("%+v", got[0])
	}
}

func TestDoorsAndPeerAreOnOrOffAsDesigned(t *testing.T) {
	const kv, tlog, saga, grpc, sql, admin = "127.0.0.1:2379", "127.0.0.1:2025", "127.0.0.1:36789", "127.0.0.1:36790", "127.0.0.1:3306", "127.0.0.1:8080"
	const off = "off"
	for _, tc := range []struct {
		args                                   string
		env                                    map[string]string
		kv, tlog, saga, grpc, sql, admin, peer string
	}{
		{"", nil, kv, tlog, saga, grpc, sql, admin, off},
		{"--kv 127.0.0.1:9", nil, "127.0.0.1:9", off, off, off, off, admin, off},
		{"--kv off", nil, off, off, off, off, off, admin, off},
		{"--saga off", nil, off, off, off, off, off, admin, off},
		{"--saga 127.0.0.1:9", nil, off, off, "127.0.0.1:9", off, off, admin, off}, // members on one machine do not meet at its other port
		{"--saga 127.0.0.1:9 --saga-grpc 127.0.0.1:10", nil, off, off, "127.0.0.1:9", "127.0.0.1:10", off, admin, off},
		{"--saga " + saga, nil, off, off, saga, grpc, off, admin, off},
		{"--saga-grpc off", nil, kv, tlog, saga, off, sql, admin, off}, // no door of its own
		{"--saga-grpc 127.0.0.1:9", nil, kv, tlog, saga, "127.0.0.1:9", sql, admin, off},
		{"--kv 127.0.0.1:9 --tlog 127.0.0.1:8 --saga off", nil, "127.0.0.1:9", "127.0.0.1:8", off, off, off, admin, off},
		{"--sql 127.0.0.1:9", nil, off, off, off, off, "127.0.0.1:9", admin, off},
		{"--admin off", nil, kv, tlog, saga, grpc, sql, off, off},
		{"--admin 127.0.0.1:7", nil, kv, tlog, saga, grpc, sql, "127.0.0.1:7", off}, // admin is no door
		{"--peer 127.0.0.1:5", nil, kv, tlog, saga, grpc, sql, admin, "127.0.0.1:5"},
		{"--name a --peers a=127.0.0.1:6,b=127.0.0.1:7,c=127.0.0.1:8", nil, kv, tlog, saga, grpc, sql, admin, "127.0.0.1:6"},
		{"--join 127.0.0.1:6", nil, kv, tlog, saga, grpc, sql, admin, "127.0.0.1:2380"},
		{"", map[string]string{"HOLDFAST_KV": "[::1]:9"}, "[::1]:9", off, off, off, off, admin, off},
		{"", map[string]string{"HOLDFAST_SAGA": "[::1]:9"}, off, off, "[::1]:9", off, off, admin, off},
	} {
		c, err := load(t, append(strings.Fields(tc.args), "--data", "d"), tc.env, "")
		if err != nil {
			t.Errorf("%q: %v", tc.args, err)
			continue
		}
		got := []string{at(c, "kv"), at(c, "tlog"), at(c, "saga"), at(c, "saga-grpc"), at(c, "sql"), c.admin.String(), c.peer.String()}
		if want := []string{tc.kv, tc.tlog, tc.saga, tc.grpc, tc.sql, tc.admin, tc.peer}; !slices.Equal(got, want) {
			t.Errorf("%q: kv, tlog, saga, saga-grpc, sql, admin and peer are %v, want %v", tc.args, got, want)
		}
	}
}

func TestWhatWouldLieOpenOnTheNetworkIsRefused(t *testing.T) {
	mutual := " --tls-cert c --tls-key k --tls-ca a"
	for _, tc := range []struct {
		args string
		ok   bool
	}{
		{"--kv 127.0.0.1:1", true},
		{"--kv 127.8.9.1:1", true},
		{"--kv [::1]:1", true},
		{"--kv localhost:1", true},
		{"--kv 0.0.0.0:1", false},
		{"--kv :1", false},
		{"--kv 192.168.1.5:1", false},
		{"--kv example.com:1", false},
		{"--kv 192.168.1.5:1 --insecure", true},
		{"--kv 192.168.1.5:1 --tls-cert c --tls-key k", false}, // encrypted, but open to everyone
		{"--kv 192.168.1.5:1" + mutual, true},
		{"--peer 192.168.1.5:1", false},
		{"--peer 192.168.1.5:1 --tls-cert c --tls-key k", false},
		{"--peer 192.168.1.5:1" + mutual, true},
		{"--peer 192.168.1.5:1 --peer-tls-cert c --peer-tls-key k --peer-tls-ca a", true},
		{"--peer 192.168.1.5:1 --insecure", true},
		{"--admin 192.168.1.5:1", false},
		{"--admin 192.168.1.5:1" + mutual, true},
		{"--name a --peers a=10.0.0.1:1,b=10.0.0.2:1,c=10.0.0.3:1", false},
		{"--name a --peers a=10.0.0.1:1,b=10.0.0.2:1,c=10.0.0.3:1" + mutual, true},
	} {
		_, err := load(t, append(strings.Fields(tc.args), "--data", "d"), nil, "")
		if (err == nil) != tc.ok {
			t.Errorf("%q: %v", tc.args, err)
		}
	}
}

func TestSizes(t *testing.T) {
	for v, want := range map[string]int64{"0": 0, "1": 1, "100B": 100, "1KiB": 1 << 10, "1.5GiB": 3 << 29, "256 MiB": 256 << 20, "2TiB": 2 << 40} {
		var got int64
		if err := cli.SetSize(&got, v); err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", v, got, err, want)
		}
	}
	for _, v := range []string{"", "x", "-1", "1MB", "1 GB", "NaN", "InfGiB", "99999999999TiB", "MiB", "1e400"} {
		var got int64
		if err := cli.SetSize(&got, v); err == nil {
			t.Errorf("%q was taken as %d", v, got)
		}
	}
}

// TestAPasswordIsNotPrinted: no flag takes one, and what was written all the same must not end in a journal.
func TestAPasswordIsNotPrinted(t *testing.T) {
	for in, want := range map[string]string{
		"mysql://u:SECRET@h/db":                         "mysql://u:…@h/db",
		"file:///a,x=mysql://u:SE/CR:ET@h/db":           "file:///a,x=mysql://u:…@h/db",
		"mysql://u:SECRET@h/db,y=mysql://v:SECRET@h/db": "mysql://u:…@h/db,y=mysql://v:…@h/db",
		"mysql://u@h:3306/db":                           "mysql://u@h:3306/db",
		"n1=127.0.0.1:1,n2=[::1]:2":                     "n1=127.0.0.1:1,n2=[::1]:2",
	} {
		if got := withoutPassword(in); got != want {
			t.Errorf("%s is printed as %s, want %s", in, got, want)
		}
	}
}

// at is the address of a door.
func at(c *Config, flag string) string {
	for _, l := range c.listens() {
		if l.Flag == flag {
			return l.At.String()
		}
	}
	return "none"
}

func TestServeHelpListsExactlyTheFlagsOneALineWithKVFirst(t *testing.T) {
	var b bytes.Buffer
	cli.Run([]*cli.Command{Command(all)}, []string{"serve", "--help"}, &b, &b, func(string) string { return "" })
	out := b.String()
	var got []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "--") {
			got = append(got, strings.Fields(line)[0])
		}
	}
	var want []string
	for _, o := range newConfig(all).options() {
		want = append(want, "--"+o.Name)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") || !strings.Contains(out, "\n  --kv ADDR ") || got[0] != "--kv" {
		t.Errorf("help lists %v, the flags are %v", got, want)
	}
}

// TestADoorThatIsOffClaimsItsMachine: every member has the machines of all doors, and what they keep there is a claim like any other.
func TestADoorThatIsOffClaimsItsMachine(t *testing.T) {
	for _, tc := range []struct {
		args      string
		sagas     int64 // least bytes for the transactions of the door, or for its machine where it is off
		leastFits int64
	}{
		{"--kv 127.0.0.1:1", 2 << 20, 111 << 20},
		{"--kv 127.0.0.1:1 --tlog 127.0.0.1:2", 2 << 20, 111 << 20},
		{"--kv 127.0.0.1:1 --tlog 127.0.0.1:2 --saga 127.0.0.1:3", 11 << 20, 121 << 20},
	} {
		c, err := load(t, append(strings.Fields(tc.args), "--data", "d"), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, claim := range c.claims() {
			got[claim.Name] = claim.Floor
		}
		if got["sagas"]+got["running"]+got["transactions"] != tc.sagas {
			t.Errorf("%q: %v", tc.args, got)
		}
		least := (budget.Least(c.claims()...) + 1<<20 - 1) >> 20 << 20
		if least != tc.leastFits {
			t.Errorf("%q: the least total is %d MiB", tc.args, least>>20)
		}
	}
}

// shy is a door that may be off: its address is the default, and the operator need not name it.
type shy struct {
	at      cli.Address
	unnamed bool
}

func (s *shy) Options() []serve.Option {
	return []serve.Option{{Name: "shy", Arg: "ADDR", Default: "127.0.0.1:1", Door: true, Set: func(v string) error { return cli.SetAddress(&s.at, v) }}}
}
func (s *shy) Listens() []serve.Listen                       { return []serve.Listen{{Flag: "shy", At: s.at}} }
func (s *shy) Check() error                                  { return nil }
func (s *shy) Service(*serve.Common) (*serve.Service, error) { return &serve.Service{}, nil }
func (s *shy) Unnamed()                                      { s.unnamed = true }
func (s *shy) Yield()                                        { s.at = cli.Address{} }
func shyDoor(s *shy) serve.Door {
	return serve.Door{Name: "shy", Settings: func() serve.Settings { return s }, Claims: func(on bool) []budget.Claim {
		if !on {
			return nil
		}
		return []budget.Claim{{Name: "shy", Floor: 64 << 20}}
	}}
}

// TestADoorThatNobodyNamedYields: what is in its way turns it off with one warning. A door that was named refuses the start instead.
func TestADoorThatNobodyNamedYields(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	for _, c := range []struct {
		name, args string
		at         string // the default of the door
		warning    string // "": it is on
		refused    bool
	}{
		{"the port is taken", "", taken, "the shy door stays off: listen on --shy " + taken + ": the port is in use", false},
		{"no such address", "", "203.0.113.77:1", "the shy door stays off: listen on --shy 203.0.113.77:1: this machine has no such address", false},
		{"too little memory", "--memory 120MiB", "127.0.0.1:0", "the shy door stays off: --memory 120.0 MiB is too little for the doors that are on; give at least", false},
		{"too little memory for any", "--memory 20MiB", "127.0.0.1:0", "", true},
		{"nothing is in the way", "", "127.0.0.1:0", "", false},
		{"named, and too little memory", "--memory 120MiB --shy 127.0.0.1:0", "127.0.0.1:0", "", true},
		{"another door was named", "--kv 127.0.0.1:0", "127.0.0.1:0", "", false},
	} {
		s := &shy{}
		doors := serve.List{kvprogram.Door, shyDoor(s)}
		conf, err := Load(doors, append(strings.Fields(c.args), "--data", "d", "--admin", "off"), func(string) string { return "" })
		if c.refused {
			if err == nil {
				t.Errorf("%s: it was taken", c.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if other := strings.Contains(c.args, "--kv"); s.unnamed == other {
			t.Errorf("%s: unnamed is %v", c.name, s.unnamed)
		}
		if c.at != "127.0.0.1:0" && s.unnamed {
			if err := cli.SetAddress(&s.at, c.at); err != nil {
				t.Fatal(err)
			}
		}
		var said bytes.Buffer
		if _, err := conf.Setup(NewLog(&said, slog.LevelInfo)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if text := said.String(); c.warning == "" && text != "" || !strings.Contains(text, c.warning) || strings.Count(text, "\n") > 1 {
			t.Errorf("%s: it says %q", c.name, text)
		}
		if off := c.warning != "" || strings.Contains(c.args, "--kv"); s.at.Off() != off {
			t.Errorf("%s: it is at %s", c.name, s.at)
		}
	}
}
