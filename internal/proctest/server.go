package proctest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Server is one kind of server: how it is started and how it says that it is ready.
type Server struct {
	Kind string
	Bin  string
	// base are the flags of every node, args those of a node of a new cluster. join are a joining node's flags beside base; all includes
	// it, as the last.
	base  func(n *Node) []string
	args  func(n *Node, all []*Node) []string
	join  func(all []*Node) []string
	ready func(ctx context.Context, n *Node) error
	// client is how its client port is asked, nil for cleartext.
	client *tls.Config
}

// Memory is the default --memory of every Holdfast that a test or a benchmark starts: the program's own default would differ on each
// machine. Process has it in the environment, where an empty HOLDFAST_MEMORY stands for the default.
const Memory = "256MiB"

// Holdfast runs `holdfast serve` with the kv door. extra flags go to every node, with {NAME} replaced by its address for the door of that
// name (Node.Addr).
func Holdfast(bin string, extra ...string) Server { return HoldfastTLS(bin, nil, extra...) }

// HoldfastTLS is Holdfast with TLS on every port of clients; extra names the files, and client has the credentials. On loopback a
// Holdfast's port of operators is in the clear.
func HoldfastTLS(bin string, client *tls.Config, extra ...string) Server {
	base := func(n *Node) []string {
		return []string{"serve", "--data", n.Dir, "--name", n.Name, "--kv", n.KV, "--admin", n.Admin, "--peer", n.Peer}
	}
	return Server{
		Kind: "holdfast", Bin: bin, base: base, client: client,
		args: func(n *Node, all []*Node) []string {
			args := base(n)
			if len(all) > 1 {
				args = append(args, "--peers", list(all, "%s=%s"))
			}
			for _, e := range extra {
				args = append(args, door.ReplaceAllStringFunc(e, func(of string) string { return n.Addr(strings.Trim(of, "{}")) }))
			}
			return args
		},
		join:  func(all []*Node) []string { return append([]string{"--join", all[0].Peer}, extra...) },
		ready: func(ctx context.Context, n *Node) error { return get(ctx, "http://"+n.Admin+"/readyz", nil) },
	}
}

// door is the place of an address in an extra flag.
var door = regexp.MustCompile(`\{[a-z][a-z0-9-]*\}`)

// Etcd runs etcd with its defaults; extra flags go to every node.
func Etcd(bin string, extra ...string) Server { return etcd(bin, "http://", nil, extra) }

// EtcdTLS is Etcd with TLS on the client port; extra names the files, and client has the credentials. Members talk to each other in
// cleartext.
func EtcdTLS(bin string, client *tls.Config, extra ...string) Server {
	return etcd(bin, "https://", client, extra)
}

func etcd(bin, scheme string, client *tls.Config, extra []string) Server {
	base := func(n *Node) []string {
		return []string{"--name", n.Name, "--data-dir", n.Dir, "--log-level", "error",
			"--listen-client-urls", scheme + n.KV, "--advertise-client-urls", scheme + n.KV,
			"--listen-peer-urls", "http://" + n.Peer, "--initial-advertise-peer-urls", "http://" + n.Peer}
	}
	return Server{
		Kind: "etcd", Bin: bin, base: base, client: client,
		args: func(n *Node, all []*Node) []string {
			return append(append(base(n), "--initial-cluster", list(all, "%s=http://%s")), extra...)
		},
		join: func(all []*Node) []string {
			return append([]string{"--initial-cluster", list(all, "%s=http://%s"), "--initial-cluster-state", "existing"}, extra...)
		},
		ready: func(ctx context.Context, n *Node) error { return get(ctx, scheme+n.KV+"/health", client) },
	}
}

// Floor runs bench/floor, on one node only.
func Floor(bin string) Server {
	base := func(n *Node) []string { return []string{"-dir", n.Dir, "-listen", n.KV} }
	return Server{
		Kind: "floor", Bin: bin, base: base,
		args: func(n *Node, _ []*Node) []string { return base(n) },
		ready: func(ctx context.Context, n *Node) error {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", n.KV)
			if err != nil {
				return err
			}
			return c.Close()
		},
	}
}

func list(all []*Node, format string) string {
	var parts []string
	for _, n := range all {
		parts = append(parts, fmt.Sprintf(format, n.Name, n.Peer))
	}
	return strings.Join(parts, ",")
}

func get(ctx context.Context, url string, client *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: client, DisableKeepAlives: true} // the server may be killed next
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // only for the error's text
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, res.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// FreeAddress is a loopback address without a listener, for a program to be started.
func FreeAddress() (string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return ports[0], nil
}

// Binary is the holdfast binary under test: $HOLDFAST_BIN, or one built from this tree, once per test program.
var Binary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("HOLDFAST_BIN"); bin != "" {
		return bin, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "build", "test", "holdfast")
	// Built aside and renamed, so that test programs that build at the same time do not meet.
	aside := fmt.Sprintf("%s.%d", bin, os.Getpid())
	cmd := exec.Command("go", "build", "-tags=gms_pure_go", "-o", aside, "./cmd/holdfast")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holdfast: %w\n%s", err, out)
	}
	return bin, os.Rename(aside, bin)
})

// Root is the top directory of this repository, found from the working directory.
func Root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find go.mod: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
