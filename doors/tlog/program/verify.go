package program

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/serve/cli"
)

func tlogVerify() *cli.Command {
	var vkey *string
	var secure *cli.TLSFlags
	return &cli.Command{
		Name:    "tlog verify",
		Args:    "URL",
		Summary: "read a whole transparency log and derive it again",
		About: `Fetches the checkpoint, every entry and every tile it covers, from any log in the form of C2SP tlog-tiles, by http, https
or file. It hashes all entries and compares every tile and the root. It believes nothing the log says but the signature.`,
		Examples: []string{
			"holdfast tlog verify http://127.0.0.1:2025 --vkey ./data/tlog-keys/default.vkey",
			"holdfast tlog verify https://log.example.org --tls-ca ./ca.pem --vkey ./log.vkey",
			"holdfast tlog verify file:///srv/log --vkey log.example.org/2026+1a2b3c4d+Aa…",
		},
		Flags: func(l *cli.FlagList) {
			vkey = l.Text("vkey", "KEY|FILE", "", "the log's public key")
			secure = cli.AddTLSFlags(l)
		},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 1 || *vkey == "" {
				return cli.Usagef("tlog verify: wants an address and a public key; write `holdfast tlog verify URL --vkey KEY`")
			}
			key, err := publicKey(c.Cmd.Name, *vkey)
			if err != nil {
				return err
			}
			conf, err := secure.Config()
			if err != nil {
				return err
			}
			fetch, err := fetcher(c.Args[0], conf)
			if err != nil {
				return err
			}
			began := time.Now()
			cp, err := verifyLog(fetch, key, func(done, all uint64) { progressBar(c.Stderr, done, all) })
			if err != nil {
				return fmt.Errorf("tlog verify %s: %w; do not trust it before this is explained", c.Args[0], err)
			}
			fmt.Fprintf(c.Stdout, "%s has %d entries and root %s: verified in %v\n", cp.Origin, cp.Size, cp.Root, time.Since(began).Round(time.Millisecond))
			return nil
		},
	}
}

// publicKey reads the argument of a command's --vkey: a key, or a file with one.
func publicKey(command, vkey string) (*tiles.Verifier, error) {
	text := vkey
	if b, err := os.ReadFile(text); err == nil {
		text = string(b)
	}
	key, err := tiles.ParseVerifier(strings.TrimSpace(text))
	if err != nil || !key.Usable() {
		return nil, cli.Usagef("%s --vkey %s: no Ed25519 key and no file of one; `holdfast tlog vkey` prints a log's", command, vkey)
	}
	return key, nil
}

// progressBar draws how far a job is, on one line that is drawn over.
func progressBar(w io.Writer, done, all uint64) {
	const width = 40
	n := width
	if all > 0 {
		n = int(done * width / all)
	}
	fmt.Fprintf(w, "\r[%s%s] %d of %d entries", strings.Repeat("#", n), strings.Repeat(".", width-n), done, all)
	if done == all {
		fmt.Fprintln(w)
	}
}

// errMissing: the log has no such resource.
var errMissing = errors.New("missing")

// fetcher returns how to get a resource of a log by its path.
func fetcher(base string, conf *tls.Config) (func(path string) ([]byte, error), error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "file" && u.Host == "" {
		return nil, cli.Usagef("tlog verify %s: not an address; write http://host:port or file:///dir", base)
	}
	switch u.Scheme {
	case "file":
		return func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(u.Path, path)) }, nil
	case "http", "https":
	default:
		return nil, cli.Usagef("tlog verify %s: not http, https or file; give one of these", base)
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: fetchers, TLSClientConfig: conf}}
	return func(path string) ([]byte, error) {
		res, err := client.Get(strings.TrimSuffix(base, "/") + "/" + path)
		if err != nil {
			return nil, errors.New(cli.Innermost(err))
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s: %w", path, res.Status, errMissing)
		}
		return io.ReadAll(io.LimitReader(res.Body, 32<<20))
	}, nil
}

// fetchers is how many requests are under way at a time.
const fetchers = 8

// got is a bundle and its tile of leaf hashes on their way.
type got struct {
	bundle, tile []byte
	err          error
}

// verifyLog derives a log again and returns the checkpoint it was compared with.
func verifyLog(fetch func(path string) ([]byte, error), key *tiles.Verifier, progress func(done, all uint64)) (*tiles.Checkpoint, error) {
	note, err := fetch("checkpoint")
	if err != nil {
		return nil, err
	}
	cp, _, err := tiles.OpenCheckpoint(note, key)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	bundles := (cp.Size + tiles.Width - 1) / tiles.Width
	widthOf := func(level int, n uint64) int {
		return int(min(cp.Size>>(tiles.Height*max(level, 0))-n*tiles.Width, tiles.Width)) // bundles are as wide as level 0
	}
	// A full resource may stand in for a partial one that is gone.
	get := func(level int, n uint64) ([]byte, error) {
		b, err := fetch(tiles.Ref{Level: level, N: n, Width: widthOf(level, n)}.Path())
		if err != nil && widthOf(level, n) < tiles.Width {
			if full, err2 := fetch(tiles.Ref{Level: level, N: n, Width: tiles.Width}.Path()); err2 == nil {
				return full, nil
			}
		}
		return b, err
	}
	// Each place of the window holds one bundle in flight; they are looked at in order.
	var window [fetchers]chan got
	var fetching sync.WaitGroup
	defer fetching.Wait() // fetch must not be called any more once this has returned
	start := func(n uint64) {
		ch := make(chan got, 1)
		window[n%fetchers] = ch
		fetching.Go(func() {
			var g got
			if g.bundle, g.err = get(tiles.EntryLevel, n); g.err == nil {
				g.tile, g.err = get(0, n)
			}
			ch <- g
		})
	}
	for n := range min(bundles, fetchers) {
		start(n)
	}
	var f tiles.Frontier
	var rows [8][]byte // of each level, the hashes of the tile that is being filled
	compare := func(level int, n uint64, theirs []byte) error {
		if width := len(rows[level]); len(theirs) < width || !bytes.Equal(rows[level], theirs[:width]) {
			return fmt.Errorf("tile %s is not what the entries make it", tiles.Ref{Level: level, N: n, Width: width / tiles.HashSize}.Path())
		}
		rows[level] = rows[level][:0]
		return nil
	}
	last := time.Now()
	for n := range bundles {
		g := <-window[n%fetchers]
		if n+fetchers < bundles {
			start(n + fetchers)
		}
		if g.err != nil {
			return nil, g.err
		}
		b, err := tiles.CutBundle(g.bundle, widthOf(0, n))
		if err != nil {
			return nil, fmt.Errorf("bundle %d: %w", n, err)
		}
		if rows[0], _, err = tiles.LeafHashes(rows[0], b); err != nil {
			return nil, fmt.Errorf("bundle %d: %w", n, err)
		}
		var done tiles.Completed
		for i := 0; i < len(rows[0]); i += tiles.HashSize {
			levels := f.Append(tiles.Hash(rows[0][i:]), &done)
			for level := range levels {
				rows[level+1] = append(rows[level+1], done[level][:]...)
			}
		}
		if err := compare(0, n, g.tile); err != nil {
			return nil, err
		}
		for level := 1; len(rows[level]) == tiles.Width*tiles.HashSize; level++ {
			at := f.Size()>>(tiles.Height*(level+1)) - 1
			theirs, err := get(level, at)
			if err == nil {
				err = compare(level, at, theirs)
			}
			if err != nil {
				return nil, err
			}
		}
		if time.Since(last) > 100*time.Millisecond {
			last = time.Now()
			progress(f.Size(), cp.Size)
		}
	}
	for level := 1; level < len(rows); level++ {
		if len(rows[level]) > 0 {
			at := f.Size() >> (tiles.Height * (level + 1))
			theirs, err := get(level, at)
			if err == nil {
				err = compare(level, at, theirs)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	progress(cp.Size, cp.Size)
	if root := f.Root(); f.Size() != cp.Size || root != cp.Root {
		return nil, fmt.Errorf("the entries make the root %s, the checkpoint says %s", root, cp.Root)
	}
	return cp, nil
}
