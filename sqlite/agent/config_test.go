package agent

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
)

// TestTheDefaultsAreThoseThatConfigNames: what is not set has the value that the comment of its field names, and what is set stays.
func TestTheDefaultsAreThoseThatConfigNames(t *testing.T) {
	var c Config
	c.fill()
	for name, pair := range map[string][2]time.Duration{ // any order: each alone
		"Interval":    {c.Interval, time.Second},
		"AckTimeout":  {c.AckTimeout, 30 * time.Second},
		"Snapshot":    {c.Snapshot, 24 * time.Hour},
		"Retention":   {c.Retention, 24 * time.Hour},
		"L0Retention": {c.L0Retention, 5 * time.Minute},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	if want := []time.Duration{30 * time.Second, 5 * time.Minute, time.Hour}; !slices.Equal(c.Levels, want) {
		t.Errorf("Levels are %v, want %v", c.Levels, want)
	}
	if c.MaxUnstored != 64<<20 || c.Requests != 20_000_000 {
		t.Errorf("MaxUnstored is %d and Requests is %d, want 64 MiB and 20 million", c.MaxUnstored, c.Requests)
	}
	set := Config{Interval: 1, AckTimeout: 2, Snapshot: 3, Retention: 4, L0Retention: 5, Levels: []time.Duration{}, MaxUnstored: 6, Requests: 7}
	set.fill()
	if set.Interval != 1 || set.AckTimeout != 2 || set.Snapshot != 3 || set.Retention != 4 || set.L0Retention != 5 || len(set.Levels) != 0 || set.MaxUnstored != 6 || set.Requests != 7 {
		t.Errorf("what was set is changed: %+v", set)
	}
}

// TestTheDiskSaysWhatNamesMean: names on this machine's disks have links and inodes, those of a model are their text.
func TestTheDiskSaysWhatNamesMean(t *testing.T) {
	for name, c := range map[string]struct {
		fs   disk.FS
		want Places
	}{
		"none is set":          {nil, realPlaces{}},
		"this machine's disks": {disk.OS(), realPlaces{}},
		"a model":              {disk.NewMem(), textPlaces{}},
	} {
		if got := placesOn(c.fs); got != c.want {
			t.Errorf("%s: %T, want %T", name, got, c.want)
		}
	}
}

// TestACommitWithoutTheExtensionIsFoundWithinInterval: where the extension is required, databases are looked at twice in an interval.
func TestACommitWithoutTheExtensionIsFoundWithinInterval(t *testing.T) {
	a := &Agent{cfg: Config{Interval: time.Second}}
	if got := a.every(); got != time.Second {
		t.Errorf("databases are looked at every %v, want every interval", got)
	}
	a.cfg.RequireExtension = true
	if got := a.every(); got != time.Second/2 {
		t.Errorf("with RequireExtension databases are looked at every %v, want twice in an interval", got)
	}
}

// TestDatabasesAreLookedAtOnceInAnInterval, however often the poller wakes for the alarms.
func TestDatabasesAreLookedAtOnceInAnInterval(t *testing.T) {
	for _, c := range []struct {
		every, since time.Duration
		want         bool
	}{
		{time.Minute, 59 * time.Second, false},
		{time.Minute, 0, false},
		{time.Minute, time.Minute, true},
		{time.Minute, 61 * time.Second, true},
		{time.Minute, -time.Second, true}, // the clock was set back
		{lookMost, 0, true},               // the poller sleeps as long as that
		{lookMost / 2, 0, true},
		{lookMost + 1, lookMost, false},
	} {
		if got := lookDue(c.every, c.since); got != c.want {
			t.Errorf("every %v, %v after the last time: %v", c.every, c.since, got)
		}
	}
}

// TestEveryDatabaseIsTaken that Start is given, or none and there is an error.
func TestEveryDatabaseIsTaken(t *testing.T) {
	one, two := newRig(t), newRig(t)
	targets := []Target{one.config(0).Databases[0], two.config(0).Databases[0]}
	targets[0].URL, targets[1].URL = "one", "two"
	cfg := Config{Databases: targets, Log: slog.New(slog.DiscardHandler)}
	a, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if a.Status()[target.Path] == "" {
			t.Errorf("the agent does not have %s", target.Path)
		}
	}
	cfg.Databases = targets[1:]
	if b, err := Start(cfg); err == nil {
		t.Error("a second agent takes a database that the first one has")
		_ = b.Close(t.Context()) // it has nothing
	}
	_ = a.Close(t.Context()) // there was nothing to store
	b, err := Start(cfg)
	if err != nil {
		t.Fatalf("when the first agent has ended: %v", err)
	}
	_ = b.Close(t.Context()) // there was nothing to store
}
