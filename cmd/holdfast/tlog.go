package main

import (
	"context"
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

	"github.com/holdfastdb/holdfast/door/admin"
	etree "github.com/holdfastdb/holdfast/entry/tree"
	"github.com/holdfastdb/holdfast/tiles"
)

func tlogCommands() []*command {
	return []*command{tlogCreate(), tlogList(), tlogKeygen(), tlogVkey(), tlogVerify(), tlogRepublish(), tlogBench()}
}

func tlogCreate() *command {
	var flags *adminFlags
	var origin *string
	var dedup, index *bool
	return &command{
		name:    "tlog create",
		args:    "NAME",
		summary: "begin a transparency log on a running server",
		about: `The log answers below /logs/NAME/ of the --tlog address. Origin and options are fixed for good. A server that is alone
makes the log's key itself; members of a cluster need the same key file first, see tlog keygen.`,
		examples: []string{"holdfast tlog create releases --origin log.example.org/releases --dedup"},
		flags: func(l *flagList) {
			flags = addAdminFlags(l)
			origin = l.text("origin", "NAME", "", "what checkpoints call the log, for example log.example.org/2026")
			dedup = l.toggle("dedup", "equal entries get the index of the first one, for ever")
			index = l.toggle("index", "entries can be found by their hash")
		},
		run: func(c *call) error {
			if len(c.args) != 1 || *origin == "" {
				return usagef("tlog create: wants a name and an origin; write `holdfast tlog create NAME --origin log.example.org/NAME`")
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			var s admin.LogStatus
			if err := client.call("POST", "/v1/tlog/logs", admin.NewLog{Name: c.args[0], Origin: *origin, Dedup: *dedup, Index: *index}, &s); err != nil {
				return fmt.Errorf("tlog create %s: %w", c.args[0], err)
			}
			fmt.Fprintf(c.stdout, "%s\n", s.Vkey)
			return nil
		},
	}
}

// keyDir is where --data and --tlog-keys say the keys are.
func keyDir(data, keys string) string {
	if keys == "" {
		return filepath.Join(data, "tlog-keys")
	}
	return keys
}

func tlogKeygen() *command {
	var origin, keys *string
	return &command{
		name:    "tlog keygen",
		args:    "NAME",
		summary: "make the private key of a transparency log",
		about: `Writes NAME.key and NAME.vkey and prints the public key. Copy NAME.key into --tlog-keys of every member that shall sign the
log; the first leader that has default.key begins the log default. Whoever has the file can sign as the log.`,
		examples: []string{"holdfast tlog keygen default --origin log.example.org/2026 --tlog-keys /etc/holdfast/keys"},
		flags: func(l *flagList) {
			origin = l.text("origin", "NAME", "", "what checkpoints call the log")
			keys = l.text("tlog-keys", "DIR", "tlog-keys", "directory of the keys, made if missing")
		},
		run: func(c *call) error {
			if len(c.args) != 1 || *origin == "" {
				return usagef("tlog keygen: wants a name and an origin; write `holdfast tlog keygen NAME --origin log.example.org/NAME`")
			}
			if !etree.ValidName(c.args[0]) {
				return usagef("tlog keygen %s: a name is up to 63 of a-z, 0-9 and -, and does not begin with -; give another", c.args[0])
			}
			s, err := newTlogKeys(*keys, nil).create(c.args[0], *origin)
			if err != nil {
				return fmt.Errorf("tlog keygen %s: %w", c.args[0], err)
			}
			fmt.Fprintln(c.stdout, s.Verifier())
			return nil
		},
	}
}

func tlogVkey() *command {
	var data, keys, name *string
	return &command{
		name:     "tlog vkey",
		summary:  "print the public key of a transparency log",
		about:    "Reads the key files and no server, so it works while one runs.",
		examples: []string{"holdfast tlog vkey --data ./data", "holdfast tlog vkey --tlog-keys /etc/holdfast/keys --log releases"},
		flags: func(l *flagList) {
			data = l.text("data", "DIR", "data", "data directory of a member")
			keys = l.text("tlog-keys", "DIR", "", "directory of the keys, if it is not tlog-keys in the data directory")
			name = l.text("log", "NAME", defaultLog, "the log")
		},
		run: func(c *call) error {
			if len(c.args) > 0 {
				return usagef("tlog vkey: takes no arguments; name the log with --log")
			}
			dir := keyDir(*data, *keys)
			b, err := os.ReadFile(filepath.Join(dir, *name+".vkey"))
			if err == nil {
				if v, err := tiles.ParseVerifier(strings.TrimSpace(string(b))); err == nil {
					fmt.Fprintln(c.stdout, v)
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
			fmt.Fprintln(c.stdout, s.Verifier())
			return nil
		},
	}
}

func resumeCommand() *command {
	var flags *adminFlags
	var name, from *string
	return &command{
		name:    "resume",
		summary: "let a transparency log go on that is held, after a restore for example",
		about: `A restored log takes no entries and is not signed, because the original may have signed checkpoints of entries that
are not in the snapshot. Give the last checkpoint anybody may have seen: it must be a prefix of what was restored. If
it is not, the log cannot go on; begin another one under another origin. The same holds for a log that is held because no
place it is published to answers what it has.`,
		examples: []string{
			"holdfast resume --tlog default --checkpoint ./last-checkpoint",
			"holdfast resume --tlog default --checkpoint https://mirror.example.org/checkpoint",
		},
		flags: func(l *flagList) {
			flags = addAdminFlags(l)
			name = l.text("tlog", "NAME", "", "the log")
			from = l.text("checkpoint", "FILE|URL", "", "the last checkpoint that was published")
		},
		run: func(c *call) error {
			if len(c.args) > 0 || *name == "" || *from == "" {
				return usagef("resume: write `holdfast resume --tlog NAME --checkpoint FILE`, with the last checkpoint that was published")
			}
			client, err := flags.client(c)
			if err != nil {
				return err
			}
			b, err := readAnywhere(*from)
			if err != nil {
				return fmt.Errorf("resume --checkpoint %s: %w", *from, err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), requestPatience)
			defer cancel()
			res, err := client.send(ctx, "POST", "/v1/tlog/logs/"+url.PathEscape(*name)+"/resume", strings.NewReader(string(b)))
			if err != nil {
				return fmt.Errorf("resume --tlog %s: %w", *name, err)
			}
			res.Body.Close()
			fmt.Fprintf(c.stdout, "log %s goes on\n", *name)
			return nil
		},
	}
}

// readAnywhere reads a small file, or what a URL answers.
func readAnywhere(from string) ([]byte, error) {
	if !strings.HasPrefix(from, "http://") && !strings.HasPrefix(from, "https://") {
		b, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("%s; give a file this user can read, or a URL", reason(err))
		}
		return b, nil
	}
	client := http.Client{Timeout: 30 * time.Second}
	res, err := client.Get(from)
	if err != nil {
		return nil, errors.New(innermost(err) + "; give a URL that answers")
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s; give a URL that answers", res.Status)
	}
	return io.ReadAll(io.LimitReader(res.Body, etree.MaxNote+1))
}
