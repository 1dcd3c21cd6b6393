package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

func commands() []*cli.Command {
	return []*cli.Command{tlogCreate(), tlogList(), tlogKeygen(), tlogVkey(), tlogVerify(), tlogRepublish(), tlogBench()}
}

func tlogCreate() *cli.Command {
	var flags *cli.AdminFlags
	var origin *string
	var dedup, index *bool
	return &cli.Command{
		Name:    "tlog create",
		Args:    "NAME",
		Summary: "begin a transparency log on a running server",
		About: `The log answers below /logs/NAME/ of the --tlog address. Origin and options are fixed for good. A server that is alone
makes the log's key itself; members of a cluster need the same key file first, see tlog keygen.`,
		Examples: []string{"holdfast tlog create releases --origin log.example.org/releases --dedup"},
		Flags: func(l *cli.FlagList) {
			flags = cli.AddAdminFlags(l)
			origin = l.Text("origin", "NAME", "", "what checkpoints call the log, for example log.example.org/2026")
			dedup = l.Toggle("dedup", "equal entries get the index of the first one, for ever")
			index = l.Toggle("index", "entries can be found by their hash")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 || *origin == "" {
				return cli.Usagef("tlog create: wants a name and an origin; write `holdfast tlog create NAME --origin log.example.org/NAME`")
			}
			client, err := flags.Client(c)
			if err != nil {
				return err
			}
			var s LogStatus
			if err := client.Call("POST", "/v1/tlog/logs", NewLog{Name: c.Args[0], Origin: *origin, Dedup: *dedup, Index: *index}, &s); err != nil {
				return fmt.Errorf("tlog create %s: %w", c.Args[0], err)
			}
			fmt.Fprintf(c.Stdout, "%s\n", s.Vkey)
			return nil
		},
	}
}

// keysName is the directory of keys in the data directory.
const keysName = "tlog-keys"

// keyDir is where --data and --tlog-keys say the keys are.
func keyDir(data, keys string) string {
	if keys == "" {
		return filepath.Join(data, keysName)
	}
	return keys
}

func tlogKeygen() *cli.Command {
	var origin, keys *string
	return &cli.Command{
		Name:    "tlog keygen",
		Args:    "NAME",
		Summary: "make the private key of a transparency log",
		About: `Writes NAME.key and NAME.vkey and prints the public key. Copy NAME.key into --tlog-keys of every member that shall sign the
log; the first leader that has default.key begins the log default. Whoever has the file can sign as the log.`,
		Examples: []string{"holdfast tlog keygen default --origin log.example.org/2026 --tlog-keys /etc/holdfast/keys"},
		Flags: func(l *cli.FlagList) {
			origin = l.Text("origin", "NAME", "", "what checkpoints call the log")
			keys = l.Text("tlog-keys", "DIR", "tlog-keys", "directory of the keys, made if missing")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 || *origin == "" {
				return cli.Usagef("tlog keygen: wants a name and an origin; write `holdfast tlog keygen NAME --origin log.example.org/NAME`")
			}
			if !tlogpart.ValidName(c.Args[0]) {
				return cli.Usagef("tlog keygen %s: a name is up to 63 of a-z, 0-9 and -, and does not begin with -; give another", c.Args[0])
			}
			s, err := newKeyFiles(*keys, nil).create(c.Args[0], *origin)
			if err != nil {
				return fmt.Errorf("tlog keygen %s: %w", c.Args[0], err)
			}
			fmt.Fprintln(c.Stdout, s.Verifier())
			return nil
		},
	}
}

func tlogVkey() *cli.Command {
	var data, keys, name *string
	return &cli.Command{
		Name:     "tlog vkey",
		Summary:  "print the public key of a transparency log",
		About:    "Reads the key files and no server, so it works while one runs.",
		Examples: []string{"holdfast tlog vkey --data ./data", "holdfast tlog vkey --tlog-keys /etc/holdfast/keys --log releases"},
		Flags: func(l *cli.FlagList) {
			data = l.Text("data", "DIR", "data", "data directory of a member")
			keys = l.Text("tlog-keys", "DIR", "", "directory of the keys, if it is not tlog-keys in the data directory")
			name = l.Text("log", "NAME", defaultLog, "the log")
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) > 0 {
				return cli.Usagef("tlog vkey: takes no arguments; name the log with --log")
			}
			dir := keyDir(*data, *keys)
			b, err := os.ReadFile(filepath.Join(dir, *name+".vkey"))
			if err == nil {
				if v, err := tiles.ParseVerifier(strings.TrimSpace(string(b))); err == nil {
					fmt.Fprintln(c.Stdout, v)
					return nil
				}
			}
			s, err := readKey(filepath.Join(dir, *name+".key"))
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("tlog vkey: %s has no key of a log %s; give another --data, --tlog-keys or --log", dir, *name)
			}
			if err != nil {
				return fmt.Errorf("tlog vkey: %w", err)
			}
			fmt.Fprintln(c.Stdout, s.Verifier())
			return nil
		},
	}
}

// resume lets a held log go on.
func resume(l *cli.FlagList) *serve.Resume {
	name := l.Text("tlog", "NAME", "", "the log")
	from := l.Text("checkpoint", "FILE|URL", "", "the last checkpoint that was published")
	const usage = "--tlog NAME --checkpoint FILE"
	return &serve.Resume{
		Asked: func() bool { return *name != "" || *from != "" },
		Usage: usage,
		Held:  "transparency logs",
		About: `A restored log takes no entries and is not signed, because the original may have signed checkpoints of entries that
are not in the snapshot. Give the last checkpoint anybody may have seen: it must be a prefix of what was restored. If
it is not, the log cannot go on; begin another one under another origin. The same holds for a log that is held because no
place it is published to answers what it has.`,
		Examples: []string{
			"holdfast resume --tlog default --checkpoint ./last-checkpoint",
			"holdfast resume --tlog default --checkpoint https://mirror.example.org/checkpoint",
		},
		Run: func(c *cli.Call, client *cli.AdminClient) error {
			if *name == "" || *from == "" {
				return cli.Usagef("resume: write `holdfast resume %s`, with the last checkpoint that was published", usage)
			}
			b, err := readAnywhere(*from)
			if err != nil {
				return fmt.Errorf("resume --checkpoint %s: %w", *from, err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), cli.RequestPatience)
			defer cancel()
			res, err := client.Send(ctx, "POST", "/v1/tlog/logs/"+url.PathEscape(*name)+"/resume", strings.NewReader(string(b)))
			if err != nil {
				return fmt.Errorf("resume --tlog %s: %w", *name, err)
			}
			defer res.Body.Close()
			var s LogStatus
			if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
				return fmt.Errorf("resume --tlog %s: %w; is that the --admin address of a Holdfast server?", *name, err)
			}
			if strings.Contains(s.Why, checkpoint.NoKey) {
				fmt.Fprintf(c.Stdout, "log %s is not held any more, but %s\n", *name, s.Why)
				return nil
			}
			fmt.Fprintf(c.Stdout, "log %s goes on\n", *name)
			return nil
		},
	}
}

// readAnywhere reads a small file or the answer of a URL.
func readAnywhere(from string) ([]byte, error) {
	if !strings.HasPrefix(from, "http://") && !strings.HasPrefix(from, "https://") {
		b, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("%s; give a file this user can read, or a URL", cli.Reason(err))
		}
		return b, nil
	}
	client := http.Client{Timeout: 30 * time.Second}
	res, err := client.Get(from)
	if err != nil {
		return nil, errors.New(cli.Innermost(err) + "; give a URL that answers")
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s; give a URL that answers", res.Status)
	}
	return io.ReadAll(io.LimitReader(res.Body, tlogpart.MaxNote+1))
}
