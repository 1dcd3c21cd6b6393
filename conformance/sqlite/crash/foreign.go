package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// hand is what another program does to a database; testdata/story.py says how.
type hand struct {
	story   string
	ack     string
	plain   bool          // without the extension
	writers int           // of an application beside it
	slow    bool          // the application's disk is
	lasts   time.Duration // quick runs: a tenth
	long    bool          // not in a quick run
}

var hands = []hand{
	{story: "truncate", ack: "archive", plain: true, writers: 4, lasts: time.Minute},
	{story: "truncate", ack: "local", plain: true, writers: 4, lasts: time.Minute, long: true},
	{story: "cron", ack: "archive", plain: true, writers: 8, lasts: 30 * time.Second, long: true},
	{story: "cron", ack: "local", plain: true, writers: 8, lasts: 30 * time.Second},
	{story: "truncate", ack: "archive", plain: true, writers: 4, slow: true, lasts: time.Minute, long: true},
	{story: "cron", ack: "local", plain: true, writers: 2, slow: true, lasts: time.Minute, long: true},
	{story: "vacuum", ack: "archive", writers: 2, lasts: 20 * time.Second},
	{story: "vacuum", ack: "local", plain: true, writers: 2, lasts: 20 * time.Second, long: true},
	{story: "pagesize", ack: "local", long: true},
	{story: "pagesize", ack: "local", plain: true},
	{story: "autovacuum", ack: "archive", lasts: 10 * time.Second, long: true},
	{story: "autovacuum", ack: "local", plain: true, lasts: 10 * time.Second, long: true},
	{story: "shrink", ack: "archive"},
	{story: "shrink", ack: "local", plain: true, long: true},
	{story: "exclusive", ack: "archive", lasts: 10 * time.Second},
	{story: "exclusive", ack: "local", lasts: 10 * time.Second, long: true},
	{story: "close", ack: "archive", lasts: 10 * time.Second, long: true},
	{story: "close", ack: "local", plain: true, lasts: 10 * time.Second},
	{story: "transaction", ack: "archive", long: true},
	{story: "transaction", ack: "local", plain: true, long: true},
	{story: "gigabyte", ack: "archive", long: true},
}

func (h hand) String() string {
	s := "foreign hands: " + h.story
	if h.plain {
		s += ", a plain program"
	}
	if h.slow {
		s += ", a slow disk"
	}
	return s + ", " + h.ack
}

func (r *run) foreign() []step {
	var l []step
	for _, h := range hands {
		l = append(l, step{name: h.String(), long: h.long, do: func(ctx context.Context, p *place) (string, error) { return r.hand(ctx, p, h) }})
	}
	return l
}

// hand has an application write, and another program beside it. Then the database and its restore from the bucket must be the same.
func (r *run) hand(ctx context.Context, p *place, h hand) (string, error) {
	m, err := p.machine("h")
	if err != nil {
		return "", err
	}
	if h.slow {
		if p.below, err = r.slowDisk(); err != nil {
			return "", err
		}
	}
	flags := []string{"--ack", h.ack, "--levels", "2s,10s", "--snapshot", "20s", "--l0-retention", "5s"}
	url, large := p.url("app"), h.story == "gigabyte" || h.story == "transaction"
	if large {
		url = "file://" + filepath.Join(p.dir, "replica") // the bucket is in memory
	}
	if err := m.start(url, nil, flags...); err != nil {
		return "", err
	}
	if h.writers > 0 {
		if err := m.write(load{name: "w", writers: h.writers, bytes: 600}); err != nil {
			return "", err
		}
		if err := m.waitAcked(ctx, 1, 30*time.Second); err != nil {
			return "", err
		}
	}
	lasts := h.lasts
	if r.quick {
		lasts /= 10
	}
	extension := "-"
	if !h.plain {
		extension = r.extension
	}
	out, err := exec.CommandContext(ctx, "/usr/bin/python3", filepath.Join(r.root, "conformance/sqlite/crash/testdata/story.py"), h.story, m.db, extension,
		fmt.Sprint(lasts.Seconds())).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s; the agent:\n%s", err, out, m.agent.LogTail(5))
	}
	m.killApps()
	note := strings.TrimSpace(string(out))
	if h.writers > 0 {
		note += fmt.Sprintf(", %d commits of others acknowledged, %d failed", m.app.oks, m.app.noes)
	}
	if h.story == "pagesize" || !large {
		time.Sleep(1500 * time.Millisecond) // longer than the interval: a look of the agent that rests is part of it
	}
	if err := m.agent.Term(60 * time.Second); err != nil {
		return "", fmt.Errorf("%w; the agent:\n%s", err, m.agent.LogTail(5))
	}
	if err := m.agent.ExitError(); err != nil {
		return "", fmt.Errorf("the agent: %w\n%s", err, m.agent.LogTail(5))
	}
	size, err := p.compare(url, m)
	if err != nil {
		return "", fmt.Errorf("%s: %w; the agent:\n%s", note, err, m.agent.LogTail(5))
	}
	if h.writers > 0 && h.ack == "archive" {
		if _, err := p.judge("app", m); err != nil {
			return "", err
		}
	}
	also := ""
	if r.litestream != "" {
		also = ", also by litestream"
	}
	return fmt.Sprintf("%s; %d KiB, the same when restored%s", note, size>>10, also), nil
}

// compare restores a replica and compares it with the machine's database, byte for byte; its size.
func (p *place) compare(url string, m *machine) (size int64, err error) {
	if out, err := exec.Command("/usr/bin/python3", filepath.Join(p.run.root, "conformance/sqlite/crash/testdata/settle.py"), m.db).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("settle %s: %w: %s", m.db, err, out)
	}
	if out, err := exec.Command(p.run.bin, "sqlite", "verify", url).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("verify %s: %w: %s", url, err, out)
	}
	ours := filepath.Join(p.dir, "compared.db")
	if out, err := exec.Command(p.run.bin, "sqlite", "restore", "--to", ours, url).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("restore %s: %w: %s", url, err, out)
	}
	if size, err = same(m.db, ours); err != nil {
		return 0, err
	}
	theirs := filepath.Join(p.dir, "litestream.db")
	if p.run.litestream == "" {
		return size, nil
	}
	from := url
	if strings.HasPrefix(url, "s3:") {
		for _, v := range p.bucket.Env() {
			if endpoint, ok := strings.CutPrefix(v, "AWS_ENDPOINT_URL="); ok {
				from += "?endpoint=" + endpoint + "&forcePathStyle=true&region=us-east-1"
			}
		}
	}
	cmd := exec.Command(p.run.litestream, "restore", "-o", theirs, from)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_CA_BUNDLE=") && !strings.HasPrefix(v, "AWS_ENDPOINT_URL_S3=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("litestream restore %s: %w: %s", from, err, out)
	}
	_, err = same(m.db, theirs)
	return size, err
}

// same compares two files.
func same(a, b string) (size int64, err error) {
	fa, err := os.Open(a)
	if err != nil {
		return 0, err
	}
	defer fa.Close()
	fb, err := os.Open(b)
	if err != nil {
		return 0, err
	}
	defer fb.Close()
	ba, bb := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		na, ea := io.ReadFull(fa, ba)
		nb, eb := io.ReadFull(fb, bb)
		if na != nb || !bytes.Equal(ba[:na], bb[:nb]) {
			at := 0
			for at < min(na, nb) && ba[at] == bb[at] {
				at++
			}
			return 0, fmt.Errorf("%s and %s differ, from byte %d on", a, b, size+int64(at))
		}
		size += int64(na)
		if errors.Is(ea, io.EOF) || errors.Is(ea, io.ErrUnexpectedEOF) {
			return size, nil
		}
		if err := errors.Join(ea, eb); err != nil {
			return 0, err
		}
	}
}

// slowDisk builds the VFS of testdata/slow.c.
func (r *run) slowDisk() (string, error) {
	so := filepath.Join(r.dir, "slow.so")
	out, err := exec.Command("gcc", "-O2", "-fPIC", "-shared", "-o", so, filepath.Join(r.root, "conformance/sqlite/crash/testdata/slow.c")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build slow.c: %w: %s", err, out)
	}
	return so, nil
}
