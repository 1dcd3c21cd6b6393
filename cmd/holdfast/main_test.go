package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// execute runs one command line.
func execute(env map[string]string, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = cli.Run(commands(), args, &out, &errs, func(k string) string { return env[k] })
	return status, out.String(), errs.String()
}

func TestHelpOfEveryCommand(t *testing.T) {
	status, out, errs := execute(nil, "help")
	if status != 0 || errs != "" {
		t.Fatalf("status %d: %s", status, errs)
	}
	golden.Check(t, "testdata/help.txt", out)
	for _, c := range commands() {
		status, out, errs := execute(nil, append(strings.Fields(c.Name), "--help")...)
		if status != 0 || errs != "" {
			t.Errorf("%s --help: status %d: %s", c.Name, status, errs)
		}
		if len(c.Examples) == 0 {
			t.Errorf("%s --help shows no example", c.Name)
		}
		golden.Check(t, "testdata/help-"+strings.ReplaceAll(c.Name, " ", "-")+".txt", out)
	}
}

func TestErrorsAreOneLineThatSaysWhatWhyAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var report strings.Builder
	for _, args := range []string{
		"",
		"sevre",
		"frobnicate",
		"version now",
		"serve",
		"serve now --data d",
		"serve --data",
		"serve --data d --kvv 127.0.0.1:1",
		"serve --data d --sql 192.0.2.1:3306",
		"serve --data d -kv 127.0.0.1:1",
		"serve --data d --kv 2379",
		"serve --data d --kv 127.0.0.1:http",
		"serve --data d --memory 256MB",
		"serve --data d --memory 1MiB",
		"serve --data d --ack archive",
		"serve --data d --ack quorum",
		"serve --data d --log-level loud",
		"serve --data d --insecure=maybe",
		"serve --data d --peers n1=127.0.0.1:1,n2=127.0.0.1:2",
		"serve --data d --peers n1=127.0.0.1:1,n2=127.0.0.1:1,n3=127.0.0.1:2",
		"serve --data d --peers n1=127.0.0.1:1,n1=127.0.0.1:3,n3=127.0.0.1:2",
		"serve --data d --peers 127.0.0.1:1",
		"serve --data d --peers n1=127.0.0.1:1,n2=127.0.0.1:2,n3=127.0.0.1:3",
		"serve --data d --name n4 --peers n1=127.0.0.1:1,n2=127.0.0.1:2,n3=127.0.0.1:3",
		"serve --data d --name n1 --peers n1=127.0.0.1:1,n2=127.0.0.1:2,n3=127.0.0.1:3 --join 127.0.0.1:4",
		"serve --data d --join 0.0.0.0:1",
		"serve --data d --join 127.0.0.1:1 --peer off",
		"serve --data d --join 127.0.0.1:1 --peer :2380 --insecure",
		"serve --data d --peer 10.0.0.1:2380",
		"serve --data d --kv 0.0.0.0:2379",
		"serve --data d --admin 0.0.0.0:8080",
		"serve --data d --tls-cert c",
		"serve --data d --tls-ca c",
		"serve --data d --tls-cert DIR/none --tls-key DIR/none",
		"serve --data d --tls-cert DIR/bad.pem --tls-key DIR/bad.pem",
		"serve --data d --config DIR/none.yaml",
		"serve --data d --config DIR",
		"serve --data d --config " + write("unknown.yaml", "data: d\nadmn: off\n"),
		"serve --data d --config " + write("far.yaml", "replication-factor: 3\n"),
		"serve --data d --config " + write("twice.yaml", "kv: off\nkv: off\n"),
		"serve --data d --config " + write("nested.yaml", "peers:\n  n1: 127.0.0.1:1\n"),
		"serve --data d --config " + write("list.yaml", "- kv\n"),
		"serve --data d --config " + write("value.yaml", "data: d\nmemory: lots\n"),
		"serve --data d --config " + write("broken.yaml", "data: \"d\n"),
		"restore",
		"restore --data d",
		"restore --from ftp://x --data d",
		"restore --from file:///none --data d --at yesterday",
		"restore --from file:///none --data d --timeline 7",
		"restore --from file:///none --data d",
		"restore --from file:///none --data d --peer 2380",
		"verify",
		"verify --from file:///none",
		"backup",
		"backup --to nowhere",
		"backup --to file:///none --admin 127.0.0.1:1",
		"inspect archive file:///none",
		"inspect archive file:///none 7/7",
		"HOLDFAST_MEMORY=lots serve --data d",
		"HOLDFAST_GOMAXPROCS=0 serve --data d",
	} {
		write("bad.pem", "not a certificate")
		env := map[string]string{}
		words := strings.Fields(strings.ReplaceAll(args, "DIR", dir))
		for len(words) > 0 && strings.HasPrefix(words[0], "HOLDFAST_") {
			name, value, _ := strings.Cut(words[0], "=")
			env[name], words = value, words[1:]
		}
		status, out, errs := execute(env, words...)
		if out != "" {
			t.Errorf("%q wrote to standard output: %s", args, out)
		}
		if status == 0 || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "holdfast: ") {
			t.Errorf("%q: status %d:\n%s", args, status, errs)
		}
		if strings.Count(errs, ";") != 1 {
			t.Errorf("%q does not say what to do next: %s", args, errs)
		}
		report.WriteString(strings.ReplaceAll("$ holdfast "+args+"\n"+errs, dir, "DIR"))
		if status != 2 {
			report.WriteString("exit status 1\n")
		}
	}
	golden.Check(t, "testdata/errors.txt", report.String())
	if _, err := os.Stat("d"); err == nil {
		t.Error("a refused command made the data directory")
	}
}

func TestVersionIsOneLine(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		status, out, errs := execute(nil, args...)
		if status != 0 || errs != "" || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "holdfast "+cli.Version) {
			t.Errorf("%v: status %d: %s%s", args, status, out, errs)
		}
	}
}
