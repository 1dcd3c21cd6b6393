package server

import (
	"strings"
	"testing"
	"time"
)

// TestWhereTheLogIsArchived: what the archive's settings take, and what they say to the rest.
func TestWhereTheLogIsArchived(t *testing.T) {
	for args, want := range map[string]string{
		"--archive gs://bucket/prefix":                           "AWS_ENDPOINT_URL=https://storage.googleapis.com",
		"--archive /var/archive":                                 "write file:///dir or s3://bucket/prefix",
		"--archive file://archive":                               "with three slashes",
		"--archive s3://bucket/prefix":                           "set AWS_ACCESS_KEY_ID",
		"--archive file:///a --archive-interval 5ms":             "no time from 10ms to 1h",
		"--archive file:///a --archive-requests 0":               "no number from 1 on",
		"--archive file:///a --archive-keep 30":                  "write 30d, 12h or forever",
		"--archive file:///a --archive-keep 30m":                 "write 30d, 12h or forever",
		"--archive file:///a --archive-keep-snapshots -1":        "no number from 1 on",
		"--archive file:///a --archive-keep-snapshots 1e9":       "no number from 1 on",
		"--archive file:///a --archive-keep-snapshots 999999999": "write a small number",
	} {
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		if _, err := load(t, append(strings.Fields(args), "--data", "d"), nil, ""); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, it should say %q", args, err, want)
		}
	}
	c, err := load(t, strings.Fields("--data d --archive file:///var/archive --archive-keep 12h"), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if a := &c.archive; a.url != "file:///var/archive" || a.interval != time.Second || a.requests != 3_000_000 || a.keepAge != 12*time.Hour || a.keepCount != 2 {
		t.Errorf("%+v", a)
	}
	if c.logRetention != 1<<30 {
		t.Errorf("%d bytes of the log are kept", c.logRetention)
	}
	if c, err = load(t, strings.Fields("--data d --archive file:///a --archive-keep forever"), nil, ""); err != nil || c.archive.keepAge >= 0 {
		t.Errorf("%+v, %v", c.archive, err)
	}
	// The shipper's memory is part of the budget, and of a server without an archive it takes nothing.
	for args, want := range map[string]int{"--data d": 0, "--data d --archive file:///a": 1} {
		c, err := load(t, strings.Fields(args), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, claim := range c.claims() {
			if claim.Name == archiveClaim.Name {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d claims", args, n)
		}
	}
}
