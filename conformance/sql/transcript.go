package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The conversation of the mariadb client, below the repository.
const (
	conversation = "conformance/sql/testdata/client.sql"
	answers      = "conformance/sql/testdata/client.txt"
)

// mariadb runs Debian's client with further flags. Its output and errors go to one text, in order.
func (s *suite) mariadb(text []byte, flags ...string) ([]byte, error) {
	host, port := place(s.node())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// The client's errors are unbuffered. So is what it prints here, line by line, or an error would stand before its statement.
	cmd := exec.CommandContext(ctx, "stdbuf", append([]string{"--output=L", "mariadb", "--no-defaults", "--host=" + host, "--port=" + port,
		"--user=root"}, flags...)...)
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("failed to run command")) {
		err = fmt.Errorf("%w; run scripts/sysbench.sh", err)
	}
	return out, err
}

// transcript compares the client's output of a conversation with the recorded one. The client goes on behind an error.
func (s *suite) transcript() (string, error) {
	text, err := os.ReadFile(conversation)
	if err != nil {
		return "", err
	}
	out, err := s.mariadb(text, "--batch", "--verbose", "--force", "--unbuffered", "--show-warnings")
	var status *exec.ExitError
	if err != nil && !(errors.As(err, &status) && status.ExitCode() == 1) { // 1: a statement failed, as some do
		return "", fmt.Errorf("%w: %s", err, last(out))
	}
	if s.rewrite {
		return "written", os.WriteFile(answers, out, 0o644)
	}
	want, err := os.ReadFile(answers)
	if err != nil {
		return "", fmt.Errorf("%w (-rewrite makes it)", err)
	}
	if bytes.Equal(out, want) {
		return fmt.Sprintf("%d lines, all the same", bytes.Count(out, []byte("\n"))), nil
	}
	return "", difference(string(out), string(want), answers)
}

// difference names the first line in which two transcripts differ.
func difference(now, then, file string) error {
	a, b := strings.Split(now, "\n"), strings.Split(then, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "(the end)", "(the end)"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Errorf("line %d is %q, and %q in %s", i+1, x, y, file)
		}
	}
	return nil
}

// completion has the client complete the name of a column that it has read at USE. It does so at a terminal alone, which script gives it.
func (s *suite) completion() (string, error) {
	c, err := connect(s.node(), "")
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := c.exec("CREATE DATABASE IF NOT EXISTS typed", "CREATE TABLE IF NOT EXISTS typed.people (id INT PRIMARY KEY, surname VARCHAR(40))",
		"REPLACE INTO typed.people VALUES (1, 'found by its completed name')"); err != nil {
		return "", err
	}
	host, port := place(s.node())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "script", "--quiet", "--return", "--command",
		"mariadb --no-defaults --auto-rehash --user=root --host="+host+" --port="+port, "/dev/null")
	cmd.Stdin = strings.NewReader("USE typed;\nSELECT surn\t FROM peop\t WHERE id = 1;\nexit\n")
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %s", err, last(out))
	case !bytes.Contains(out, []byte("Reading table information for completion")) || !bytes.Contains(out, []byte("found by its completed name")):
		return "", errors.New("no name was completed: " + last(out))
	}
	return "a table and a column", nil
}
